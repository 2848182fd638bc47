"""Geometric histories: which ops moved the pixels of a value, and whether outputs agree.

Every value that came from an image, mask, boxes, keypoints or array has a history: the moves that
made it, in order. A move is a decision of an op that moves pixels; two calls that decide the same
(one draw, one stream name, or equal parameters without a draw) are one move. An `if` whose branches
moved a value differently is a fork of two histories.

An output mask, flow, normals, boxes or keypoints must have the history of some image among the
outputs: otherwise it missed an op, or took part in one that the image missed. Resizes count for
boxes and keypoints, which are in pixels; for a mask, flow or normals the size of a resize does not
count. `ops.unlinked` ends the check for an output. `agreement.drifted_outputs` compares images with
each other, and with arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stoker.ops.bases.batch_op import BatchOp
from stoker.ops.contract.op import Op
from stoker.ops.contract.states import IMAGE_KINDS, VECTORS, State
from stoker.pipeline.graph.nodes import deciding
from stoker.pipeline.planning.bound_graph import BoundGraph
from stoker.pipeline.planning.decision import Decision
from stoker.protocol.canonical import canonical_bytes

TARGETS: Final = ("mask", "boxes", "keypoints", *VECTORS)
MOVED: Final = ("image", *TARGETS, "array")


@dataclass(frozen=True)
class Move:
    """A decision that moved pixels.

    Attributes:
        key: what makes it the same as another one.
        op: name of the op.
        value: the result of one of its applications, for messages.
        drawn: whether it was drawn from a stream.
    """

    key: bytes
    op: str = field(compare=False)
    value: int = field(compare=False)
    drawn: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Divergence:
    """An `if` whose branches moved a value differently."""

    cond: int
    then: History
    orelse: History


History = tuple[Move | Divergence, ...]


class Histories:
    """The histories of all values of a graph, while it is bound.

    Attributes:
        bound: the graph and its states.
        kinds: value number -> kind of the field that it came from.
        of: value number -> history.
        fields: value number -> the fields that it came from.
    """

    def __init__(self, bound: BoundGraph) -> None:
        self.bound = bound
        self.kinds: dict[int, str] = {}
        self.of: dict[int, History] = {}
        self.fields: dict[int, frozenset[str]] = {}

    def begin(self, value: int, field: str, state: State) -> None:
        """Note a field."""
        if state.kind in MOVED:
            self.kinds[value], self.of[value] = state.kind, ()
            self.fields[value] = frozenset((field,))

    def apply(self, decision: Decision, srcs: Sequence[int], value: int) -> None:
        """Note the result of an op; its history is unknown if its sources disagree.

        An op of the user may do anything to an array, even move it.
        """
        known = [src for src in srcs if src in self.of]
        if not known or any(self.of[src] != self.of[known[0]] for src in known):
            return
        first = known[0]
        if self.kinds[first] == "array" and decision.op.by_user:
            return
        self.kinds[value], self.of[value] = self.kinds[first], self.of[first]
        self.fields[value] = frozenset().union(*(self.fields[src] for src in known))
        before, after = (self.bound.states[number].shape[:2] for number in (first, value))
        resized = self.kinds[first] in IMAGE_KINDS and before != after
        if moves(decision.op, resized=resized):
            drawn = (decision.source or decision).stream is not None
            self.of[value] += (Move(key_of(decision), decision.op.name, value, drawn),)

    def derive(self, srcs: Sequence[int], value: int) -> None:
        """Note an array that was computed from arrays, element by element."""
        known = [src for src in srcs if src in self.of]
        if known and all(self.of[src] == self.of[known[0]] for src in known):
            self.kinds[value], self.of[value] = self.kinds[known[0]], self.of[known[0]]
            self.fields[value] = frozenset().union(*(self.fields[src] for src in known))

    def join(self, cond: int, value: int, pair: tuple[int, int]) -> None:
        """Note the result of an `if`."""
        if not all(side in self.of for side in pair):
            return
        left, right = (self.of[side] for side in pair)
        self.kinds[value] = self.kinds[pair[0]]
        self.fields[value] = self.fields[pair[0]] | self.fields[pair[1]]
        self.of[value] = left if left == right else _joined(cond, left, right)

    def check(self, outputs: Sequence[tuple[str, int]], unlinked: Sequence[str]) -> None:
        """Refuse outputs that no image among the outputs fits.

        Raises:
            BuildError: names both outputs, the op, and both lines.
        """
        images = [(name, value) for name, value in outputs if self.kinds.get(value) == "image"]
        for name, value in outputs:
            if name in unlinked or self.kinds.get(value) not in TARGETS or not images:
                continue
            loose = self.kinds[value] in IMAGE_KINDS
            own = list(compared(self.of[value], loose))
            others = [list(compared(self.of[image], loose)) for _, image in images]
            if own not in others:
                shared = [agreeing(own, other) for other in others]
                best = shared.index(max(shared))
                self._refuse(name, value, images[best], loose)

    def _refuse(self, name: str, value: int, image: tuple[str, int], loose: bool) -> None:
        kind, sites = self.kinds[value], self.bound.graph.site
        missed, by_image = first_difference(self.of[value], self.of[image[1]], loose)
        moved, still = (image, (name, value)) if by_image else ((name, value), image)
        self.bound.fail(
            missed.value,
            f"{missed.op} moves output {moved[0]!r}, but not output {still[0]!r} (from "
            f"{sites(still[1])}): the {kind} would not fit the image. Call it with both, as in "
            f"ops.{missed.op}(image, {kind}), or deliver ops.unlinked({kind}) if that is intended",
            op=missed.op,
        )


def moves(op: Op | type[Op], *, resized: bool) -> bool:
    """Return whether an op moves pixels; a user's op does if it maps points or resizes."""
    if isinstance(op, BatchOp):
        return "mask" in op.kinds()
    if op.moves_pixels is not None:
        return op.moves_pixels
    return op.forward is not None or bool(op.items) or (op.by_user and resized)


def key_of(decision: Decision) -> bytes:
    """Return what two equal moves have in common."""
    source = decision.source or decision
    params = deciding(source.op.name, source.op.params_data(), source.op.result_number)
    name, scheduled = source.op.name, source.schedule is not None
    index = source.index if scheduled else -1
    params |= {one.name: {"value": one.value} for one in source.row_parameters}
    return canonical_bytes([name, source.op.version, params, source.stream or "", index])


def _joined(cond: int, left: History, right: History) -> History:
    """Return what both share, then a fork."""
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    return (*left[:same], Divergence(cond, left[same:], right[same:]))


def compared(history: History, loose: bool = False) -> Iterator[Any]:
    """Yield what counts in a comparison; `loose`: the size of a resize does not."""
    for one in history:
        if isinstance(one, Divergence):
            yield one.cond, tuple(compared(one.then, loose)), tuple(compared(one.orelse, loose))
        else:
            yield "resize" if loose and one.op == "resize" else one.key


def agreeing(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return how many first moves are equal."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(left), len(right)))


def first_difference(target: History, image: History, loose: bool = False) -> tuple[Move, bool]:
    """Return the first move that one of two histories lacks, and whether the image has it."""
    sides = [list(compared(history, loose)) for history in (target, image)]
    at = agreeing(*sides)
    one, other = (history[at] if at < len(history) else None for history in (target, image))
    if isinstance(one, Divergence) and isinstance(other, Divergence) and one.cond == other.cond:
        branches = [(one.then, other.then), (one.orelse, other.orelse)]
        for branch in branches:
            left, right = (list(compared(history, loose)) for history in branch)
            if left != right:
                return first_difference(*branch, loose)
    by_image = other is not None and (one is None or sides[1][at] not in sides[0][at:])
    return _any_move(other if by_image else one), by_image


def _any_move(entry: Move | Divergence | None) -> Move:
    """Return a move of an entry; a fork has at least one."""
    while isinstance(entry, Divergence):
        entry = (*entry.then, *entry.orelse)[0]
    assert entry is not None, "two histories that differ have a move"
    return entry
