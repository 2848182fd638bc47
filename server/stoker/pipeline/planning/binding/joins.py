"""Joins of branches: the state of a value that comes from one of two blocks, and conversions.

Images are brought to one scale first (`planning.value_scales`). dtypes are promoted as NumPy does
(uint8 with float32 gives float32, values unchanged), scalars to bool, int64 or float64. An image or
array (H, W) joins (H, W, 1). Images and masks of different heights and widths join to a
size that differs from sample to sample. All other differences are refused, except for a value that
nothing reads and that is delivered as a list: its rows may differ in any side, so gray images may
join RGB images there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stoker.ops.contract.states import IMAGE_KINDS, NORMALIZED, OTHER, State
from stoker.pipeline.graph.expressions import widened
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import If, Node
from stoker.pipeline.graph.normal import first_inside, number_nodes
from stoker.pipeline.planning.binding.known_sizes import KnownSizes
from stoker.pipeline.planning.binding.op_steps import OpBinder
from stoker.pipeline.planning.bound_graph import BoundGraph
from stoker.pipeline.planning.mixes import Mixes
from stoker.pipeline.planning.steps import (
    Join,
    Step,
)
from stoker.pipeline.planning.value_scales import JoinForm, common_form, conversions
from stoker.protocol.errors import BuildError
from stoker.protocol.item_fields import DTYPES


class JoinBinder:
    """Binds the joins of `if`s."""

    def __init__(self, bound: BoundGraph, sizes: KnownSizes, mixing: Mixes, ops: OpBinder) -> None:
        self.bound = bound
        self.sizes = sizes
        self.mixing = mixing
        self.ops = ops
        self.listed = listed_values(bound.graph)
        self.joined: set[int] = set()

    def join_mixed(self, value: int, pair: tuple[int, int]) -> None:
        """Join values that batch ops made in branches from one value before the `if`."""
        left, right = (self.bound.states[side] for side in pair)
        if not self.mixing.join(value, pair):
            self.bound.fail(
                value,
                f"the branches cannot join: {self._sides(left, right, pair)} are not one value "
                "that batch ops mix. Use only batch ops in the branches, and do everything else "
                "before the `if`",
            )
        self.bound.states[value] = max(left, right, key=lambda state: state.bound)

    def join(self, first: int, value: int, pair: tuple[int, int], inner: list[list[Step]]) -> Join:
        """Join the two values of `pair` as `value`; conversions go into the blocks, `inner`."""
        given, (left, right) = pair, (self.bound.states[side] for side in pair)
        try:
            form = common_form(left, right)
            if form is not None:
                pair = self._converted(value, pair, form, inner)
            states = (_in_form(self.bound.states[side], form) for side in pair)
            state = join_states(*states, listed=value in self.listed)
        except BuildError as error:
            self.bound.fail(
                value,
                f"the branches cannot join: {self._sides(left, right, given)}: {error.message}",
            )
        self.bound.states[value] = state
        self.joined.add(value)
        sides_of = self.sizes.size(pair[0]), self.sizes.size(pair[1])
        same = sides_of[0] == sides_of[1]
        self.sizes.of[value] = sides_of[0] if same else ("join", first, *sides_of)
        if not state.shape:
            self.bound.registers.add(value)
        sides = [
            side
            if self._fits(side, state)
            else self.ops.convert(side, state, inner[index], register=not state.shape)
            for index, side in enumerate(pair)
        ]
        return Join(value, sides[0], sides[1])

    def _converted(
        self, value: int, pair: tuple[int, int], form: JoinForm, inner: list[list[Step]]
    ) -> tuple[int, int]:
        """Give two values one form, by ops at the end of the blocks."""
        made = []
        for side, steps in zip(pair, inner, strict=True):
            last = side
            for op, state in conversions(self.bound.states[side], form):
                last = self.ops.convert_by(op, last, state, value, steps)
            made.append(last)
        return made[0], made[1]

    def _sides(self, left: State, right: State, pair: tuple[int, int]) -> str:
        """Name two values, what made them, and where."""
        return f"{left} from {self._maker(pair[0])} and {right} from {self._maker(pair[1])}"

    def _maker(self, value: int) -> str:
        """Name what made a value: an op, a field or an `if`, with its line."""
        site = self.bound.site(value)
        fields = [name for name, number in self.bound.fields.items() if number == value]
        if fields:
            return f"field {fields[0]!r} at {site}"
        what = "an `if`" if value in self.joined else "the value"
        return f"{self.bound.made_by.get(value, what)} at {site}"

    def _fits(self, value: int, state: State) -> bool:
        own = self.bound.states[value]
        if not state.shape:
            return value in self.bound.registers and own.dtype == state.dtype
        return own.dtype == state.dtype and len(own.shape) == len(state.shape)


def _in_form(state: State, form: JoinForm | None) -> State:
    """Return the state of a converted value as one side of a join."""
    if form is None:
        return state
    kept = form.kind != "image" or form.scale in (NORMALIZED, OTHER)
    scale = form.scale if kept else ""
    return replace(state, kind=form.kind, scale=scale, planar=form.planar)


def listed_values(graph: Graph) -> frozenset[int]:
    """Return the values that are delivered as a list, through any number of joins."""
    forms = {form.output: form.form for form in graph.forms}
    found = {value for name, value in graph.outputs if forms.get(name) == "list"}

    def walk(nodes: tuple[Node, ...], start: int) -> None:
        for node, first in reversed(number_nodes(nodes, start)[0]):
            if not isinstance(node, If):
                continue
            blocks = (node.then, node.orelse)
            for block, begin in zip(blocks, first_inside(node, first), strict=True):
                results = enumerate(block.results, first)
                found.update(result for joined, result in results if joined in found)
                walk(block.nodes, begin)

    walk(graph.nodes, 0)
    return frozenset(found)


def join_states(left: State, right: State, *, listed: bool = False) -> State:
    """Return the state of a value that has one of two states.

    Args:
        left: state in one branch.
        right: state in the other.
        listed: whether the value is delivered as a list.

    Raises:
        BuildError: they cannot join; the message has the reason and the remedy.
    """
    if not left.shape and not right.shape:
        dtype = np.result_type(widened(left.dtype), widened(right.dtype)).name
        return State.fixed(left.kind if left.kind == right.kind else "scalar", dtype, ())
    if left.kind != right.kind:
        raise BuildError(
            f"one is {left.kind}, the other is {right.kind}; give both branches the same kind"
        )
    if left.items != right.items:
        raise BuildError(f"items with other fields cannot join: {left} and {right}")
    left, right = _with_channel(left, right, listed), _with_channel(right, left, listed)
    alike = listed or left.shape[2:] == right.shape[2:]
    if len(left.shape) != len(right.shape) or not alike:
        raise BuildError(
            "their shapes differ; convert one branch with an op (to_gray, to_rgb, ...), or deliver "
            "the joined value by outputs.as_list, without a later op"
        )
    if left.kind not in IMAGE_KINDS and left.shape != right.shape and not listed:
        raise BuildError("their shapes differ; give both branches one shape")
    bound = tuple(max(a, b) for a, b in zip(left.bound, right.bound, strict=True))
    shape = tuple(a if a == b else None for a, b in zip(left.shape, right.shape, strict=True))
    of = left.of if left.of == right.of else ""
    dtype = _promoted(left.dtype, right.dtype)
    shortest = 0 if None not in shape else min(_shortest(left), _shortest(right))
    return replace(left, dtype=dtype, shape=shape, bound=bound, of=of, shortest=shortest)


def _shortest(state: State) -> int:
    """Return a length that no side of an image or mask is below; 0 if none is known."""
    if state.kind not in IMAGE_KINDS:
        return 0
    sides = [side for side in state.shape[:2] if side is not None]
    return min(sides) if len(sides) == 2 else state.shortest


def _with_channel(state: State, other: State, listed: bool) -> State:
    gray = state.kind == "image" and listed and len(other.shape) == 3
    one = state.kind in ("image", "array") and other.shape[2:] == (1,)
    if len(state.shape) != 2 or not (gray or one):
        return state
    return replace(state, shape=(*state.shape, 1), bound=(*state.bound, 1))


def _promoted(left: str, right: str) -> str:
    if left == right:
        return left
    if "float16" in (left, right):
        raise BuildError(f"{left} and {right} cannot join; make both branches float16")
    dtype = np.result_type(left, right).name
    if dtype not in DTYPES:
        raise BuildError(f"{left} and {right} have no common dtype")
    return dtype
