"""Left and right: whether keypoints whose names have sides kept them when a mirror moved them.

A mirror makes a left eye a right one, and moves keypoints without changing their numbers. Every
value that came from a field of such keypoints has two sets: mirrors that nothing followed yet, and
those that `swap_keypoints` followed. One swap follows all mirrors before it. After an `if`, a
mirror counts as followed if a branch followed it: the author has decided where to swap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stoker.ops.bases.sides import paired_numbers
from stoker.ops.contract.states import State
from stoker.pipeline.planning.bound_graph import BoundGraph
from stoker.pipeline.planning.decision import Decision

SWAP: Final = "swap_keypoints"


@dataclass(frozen=True)
class Mirrors:
    """The mirrors before a value: results of their applications, and the names of a pair."""

    pair: tuple[str, str]
    left: frozenset[int] = frozenset()
    followed: frozenset[int] = frozenset()


class MirroredKeypoints:
    """The mirrors before all keypoints of a graph, while it is bound."""

    def __init__(self, bound: BoundGraph) -> None:
        self.bound = bound
        self.of: dict[int, Mirrors] = {}

    def begin(self, value: int, state: State) -> None:
        """Note a field."""
        pairs = paired_numbers(state.classes) if state.kind == "keypoints" else ()
        if pairs:
            first, second = pairs[0]
            self.of[value] = Mirrors((state.classes[first], state.classes[second]))

    def apply(self, decision: Decision, srcs: Sequence[int], value: int) -> None:
        """Note the result of an op."""
        before = self.of.get(srcs[0])
        if before is None:
            return
        if decision.op.name == SWAP:
            done = before.followed | before.left
            self.of[value] = Mirrors(before.pair, frozenset(), done)
        elif decision.op.mirrors:
            self.of[value] = Mirrors(before.pair, before.left | {value}, before.followed)
        else:
            self.of[value] = before

    def join(self, value: int, pair: tuple[int, int]) -> None:
        """Note the result of an `if`."""
        sides = [self.of[side] for side in pair if side in self.of]
        if sides:
            followed = frozenset().union(*(side.followed for side in sides))
            left = frozenset().union(*(side.left for side in sides))
            self.of[value] = Mirrors(sides[0].pair, left - followed, followed)

    def check(self, outputs: Sequence[tuple[str, int]], unlinked: Sequence[str]) -> None:
        """Refuse keypoints that a mirror moved and no swap followed.

        Raises:
            BuildError: names the output, the op and its line.
        """
        for name, value in outputs:
            mirrors = self.of.get(value)
            if mirrors is None or not mirrors.left or name in unlinked:
                continue
            at = min(mirrors.left)
            op, (one, other) = self.bound.made_by[at], mirrors.pair
            self.bound.fail(
                at,
                f"{op} mirrors output {name!r} and keeps the numbers of its keypoints: {one!r} "
                f'would be where {other!r} is. Give it swap="names", with the keypoints as the '
                "last value of the call (or call swap_keypoints after it), or deliver "
                "ops.unlinked(points) if that is intended",
                op=op,
            )
