"""Finds the values that are known to have one height and width.

Sizes are compared where an op decides for several values: they are equal by construction (the same
decisions on both), equal because both are fixed, or checked for each sample by a `SameSizeStep`.
Each value has a token; equal tokens mean that heights and widths are known to be equal. A check
that runs inside a branch nothing after it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from stoker.ops.contract.kernel_forms import same_size
from stoker.ops.contract.states import IMAGE_KINDS
from stoker.pipeline.planning.bound_graph import BoundGraph
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.steps import SameSizeStep, Step

Token = tuple[object, ...]


class KnownSizes:
    """The tokens of a graph's values.

    Attributes:
        of: value -> its token, as it was made.
        equal: token -> an equal one that is followed; `branch` restores it.
        frames: token of items that the dataset links to no image -> the size they count in.
    """

    def __init__(self, bound: BoundGraph) -> None:
        self.bound = bound
        self.of: dict[int, Token] = {}
        self.equal: dict[Token, Token] = {}
        self.frames: dict[Token, Token] = {}

    @contextlib.contextmanager
    def branch(self) -> Iterator[None]:
        """Forget at the end what was proved inside."""
        proved = dict(self.equal)
        yield
        self.equal = proved

    def same_frame(self, decision: Decision, frame: int, src: int, steps: list[Step]) -> None:
        """Check that items count in pixels of the size that an image has at this point."""
        have, need = self.size(src), self.size(frame)
        if have == need:
            return
        if have[0] == "free":  # they follow the first image, also if a branch comes first
            self.frames[have] = need
            return
        if {have[0], need[0]} != {"field"}:
            self.bound.fail(
                src,
                f"{decision.op.name} (at {decision.site}) is applied to "
                f"{self.bound.named(frame)} and to {self.bound.named(src)}, but these "
                f"{self.bound.states[src].kind} do not count in pixels of the size that it has "
                f"there: transform an image and its {self.bound.states[src].kind} in the same call",
                op=decision.op.name,
            )
        other = self.bound.fields.get(str(have[1]))
        if other is not None:
            what = f"{decision.op.name} on {self.bound.named(frame)} and {self.bound.named(src)}"
            check = self.bound.check("same_size", what, src)
            steps.append(SameSizeStep(decision, frame, other, check))
        self.equal[have] = need

    def out_size(self, decision: Decision, src: int) -> Token:
        """Return the token of what a decision makes of a value."""
        if decision.op.out_size is same_size:
            return self.size(src)
        root = decision.source or decision
        return ("out", root.index, self.size(src))

    def size(self, value: int) -> Token:
        """Return the token of a value; equal tokens are equal sizes."""
        size = self.of.get(value, ("value", value))
        while size in self.equal or size in self.frames:
            size = self.frames[size] if size in self.frames else self.equal[size]
        return size

    def unlike(self, decision: Decision, src: int) -> int | None:
        """Return the value that a decision is made for, if another value may differ in size."""
        of = decision.of
        if of is None or of == src or self.size(of) == self.size(src):
            return None
        first, other = self.bound.states[of], self.bound.states[src]
        if first.kind not in IMAGE_KINDS or other.kind not in IMAGE_KINDS:
            return None
        sides = first.shape[:2]
        if None not in sides and sides == other.shape[:2]:
            self.equal[self.size(src)] = self.size(of)
            return None
        return of

    def same_size(self, decision: Decision, src: int, value: int, steps: list[Step]) -> None:
        """Require the size that a decision is made for, by a check for each sample if need be."""
        of = self.unlike(decision, src)
        if of is None:
            return
        first, other = self.bound.states[of], self.bound.states[src]
        sides = zip(first.shape[:2], other.shape[:2], strict=True)
        if any(a is not None and b is not None and a != b for a, b in sides):
            say = "" if decision.op.rescale is None else ", call it with relative=True"
            self.bound.fail(
                value,
                f"{decision.op.name}: one decision (made at {decision.site}) is applied to {first} "
                f"and to {other}: fields that are transformed together must have one height and "
                f"width. Resize one of them first{say}, or give each its own call and stream",
                op=decision.op.name,
            )
        what = f"{decision.op.name} on {self.bound.named(of)} and {self.bound.named(src)}"
        kind = "same_size" if decision.op.rescale is None else "relative"
        steps.append(SameSizeStep(decision, of, src, self.bound.check(kind, what, value)))
        self.equal[self.size(src)] = self.size(of)
