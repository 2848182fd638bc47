"""Joins of branches: the state of a value that two blocks make, and the conversions in them."""

from __future__ import annotations

from dataclasses import replace

from stoker.ops.contract.states import NORMALIZED, OTHER, State
from stoker.pipeline.planning.applies import Applies
from stoker.pipeline.planning.bound import Bound
from stoker.pipeline.planning.joining import join_states, listed_values
from stoker.pipeline.planning.mixes import Mixes
from stoker.pipeline.planning.scales import JoinForm, common_form, conversions
from stoker.pipeline.planning.size_tokens import SizeTokens
from stoker.pipeline.planning.steps import (
    Join,
    Step,
)
from stoker.protocol.errors import BuildError


class Branches:
    """Binds the joins of `if`s."""

    def __init__(self, bound: Bound, sizes: SizeTokens, mixing: Mixes, applies: Applies) -> None:
        self.bound = bound
        self.sizes = sizes
        self.mixing = mixing
        self.applies = applies
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
            else self.applies.convert(side, state, inner[index], register=not state.shape)
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
                last = self.applies.convert_by(op, last, state, value, steps)
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
