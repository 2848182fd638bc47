"""Mixes of a plan: the batch ops at the end of a pipeline, separated from the row computation.

A batch op reads finished rows, so an engine never runs one: it computes each output as it is before
the first batch op, and draws the decisions. A `Mix` describes what `engine.mixer` does to the
outputs at the end. Mixes run one after the other, in the order of their decisions. A batch op
inside a branch applies only to rows that took the branch. It reads its partners as they were before
the branch, so branches never see each other's results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from stoker.ops.bases.batch_op import BatchOp, picture_size
from stoker.ops.contract.states import State, StateError
from stoker.pipeline.planning.decision import Decision
from stoker.protocol.errors import BuildError
from stoker.protocol.slot_layout import Output

UNMIXED: Final = -1
"""Represents the rows before the first mix."""


@dataclass(frozen=True)
class Mix:
    """A decision of a batch op, and what it is applied to.

    Attributes:
        decision: the decision; its op is a `BatchOp`.
        states: output -> state of its value before; outputs without an entry stay as they are.
        made: output -> number of the value that it becomes.
        reads: index of the mix whose results it reads; -1: rows before all mixes.
        size: height and width of the images among them; (0, 0) without images.
        outputs: the outputs of a row after it.
    """

    decision: Decision
    states: dict[int, State]
    made: dict[int, int]
    reads: int
    size: tuple[int, int]
    outputs: tuple[Output, ...]

    @property
    def op(self) -> BatchOp:
        """The op."""
        return _op(self.decision)


@dataclass(frozen=True)
class _Link:
    decision: Decision
    before: State
    made: int
    reads: int | None


class Mixes:
    """Collects the mixes while a graph is bound.

    Attributes:
        roots: mixed value -> its value before all batch ops.
    """

    def __init__(self) -> None:
        self.roots: dict[int, int] = {}
        self._links: dict[int, tuple[_Link, ...]] = {}

    def add(self, decision: Decision, src: int, value: int, before: State) -> None:
        """Record that a batch op makes `value` from `src`, whose state is `before`."""
        chain = self._links.get(src, ())
        reads = chain[-1].decision.index if chain else None
        self.roots[value] = self.roots.get(src, src)
        self._links[value] = (*chain, _Link(decision, before, value, reads))

    def join(self, value: int, pair: tuple[int, int]) -> bool:
        """Record that a value joins the branches of an `if`; False if they have two roots.

        One of them may be the root itself.
        """
        left, right = (self.roots.get(side, side) for side in pair)
        links = {link for side in pair for link in self._links.get(side, ())}
        self.roots[value] = left
        self._links[value] = tuple(sorted(links, key=lambda link: link.decision.index))
        return left == right

    def last(self, value: int) -> Decision:
        """Return the decision that made a mixed value."""
        return self._links[value][-1].decision

    def collect(self, outputs: Sequence[Output], values: Sequence[int]) -> tuple[Mix, ...]:
        """Return the mixes.

        Args:
            outputs: the outputs of a row before the mixes.
            values: for each output the value that it delivers, mixed or not.

        Raises:
            BuildError: they have no common order, sizes differ, or there is no image.
        """
        chains = [self._links.get(value, ()) for value in values]
        order = sorted({link.decision.index for chain in chains for link in chain})
        by_index = {link.decision.index: link.decision for chain in chains for link in chain}
        for chain in chains:
            _check_order(chain)
        found: list[Mix] = []
        row = tuple(outputs)
        for index in order:
            decision = by_index[index]
            links = {
                place: link
                for place, chain in enumerate(chains)
                for link in chain
                if link.decision.index == index
            }
            before = {place: link.before for place, link in links.items()}
            made = {place: link.made for place, link in links.items()}
            reads = {order.index(link.reads) for link in links.values() if link.reads is not None}
            size = _size(decision, list(before.values()))
            _check_call(decision, list(before.values()))
            row = tuple(
                _widened(output, _op(decision), before.get(place))
                for place, output in enumerate(row)
            )
            found.append(Mix(decision, before, made, max(reads, default=UNMIXED), size, row))
        for mix in found:
            if mix.op.of_dataset and mix.reads != UNMIXED:
                raise _fault(
                    mix.decision,
                    f"{mix.op.name} takes samples of the dataset as they are before batch ops: call"
                    f" it before {found[mix.reads].op.name}, and only once",
                )
        return tuple(found)


def _widened(output: Output, op: BatchOp, before: State | None) -> Output:
    """Return an output after a mix: of boxes and keypoints there may be more."""
    if before is None or not before.items:
        return output
    return msgspec.structs.replace(output, shape=max(output.shape, op.mixed(before).bound))


def _op(decision: Decision) -> BatchOp:
    assert isinstance(decision.op, BatchOp), "no other op is mixed"
    return decision.op


def _check_order(chain: Sequence[_Link]) -> None:
    indices = [link.decision.index for link in chain]
    if indices != sorted(set(indices)):
        names = ", ".join(link.decision.op.name for link in chain)
        raise _fault(
            chain[-1].decision,
            f"expected batch ops in one order for all values, each once; got for one value "
            f"{names}: call each batch op once, with all values",
        )


def _size(decision: Decision, states: Sequence[State]) -> tuple[int, int]:
    sizes = {size: state for state in states if (size := picture_size(state)) is not None}
    op = _op(decision)
    if len(sizes) > 1:
        raise _fault(
            decision,
            f"{op.name}: expected values of one size in a call, got "
            f"{' and '.join(map(str, sizes.values()))}. Resize one of them first, or give each its"
            " own call and stream",
        )
    if not sizes and op.needs_picture:
        raise _fault(
            decision,
            f"{op.name}: expected an image, mask or array of pixels among its values, got "
            f"{' and '.join(map(str, states))}: call it with the image and deliver that",
        )
    return next(iter(sizes), (0, 0))


def _check_call(decision: Decision, states: Sequence[State]) -> None:
    try:
        _op(decision).check_call(states)
    except StateError as error:
        raise _fault(decision, error.message) from None


def _fault(decision: Decision, message: str) -> BuildError:
    site = decision.site
    return BuildError(f"{site}: {message}", op=decision.op.name, file=site.file, line=site.line)
