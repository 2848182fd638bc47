"""Mixes of a plan: the batch ops at the end of a pipeline, taken out of what a row computes.

A batch op reads finished rows, so an engine never runs one: it computes each output as it is before
the first batch op, and draws the decisions. A `Mix` says what is done to the outputs afterwards,
by `stoker.pipeline.mixer`. Mixes run one after the other, in the order of their decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from stoker.ops.batch import BatchOp, picture_size
from stoker.ops.contract import State
from stoker.pipeline.steps import Decision
from stoker.protocol.errors import BuildError
from stoker.protocol.layout import Output


@dataclass(frozen=True)
class Mix:
    """A decision of a batch op, and what it is applied to.

    Attributes:
        decision: the decision; its op is a `BatchOp`.
        states: output -> state of its value before; outputs without an entry stay as they are.
        made: output -> number of the value that it makes of it.
        size: height and width of the pictures among them; (0, 0) if there are none.
        outputs: of a row after it.
    """

    decision: Decision
    states: dict[int, State]
    made: dict[int, int]
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


class Mixes:
    """Collects the mixes while a graph is bound.

    Attributes:
        roots: mixed value -> the value that it is before all batch ops.
    """

    def __init__(self) -> None:
        self.roots: dict[int, int] = {}
        self._links: dict[int, tuple[_Link, ...]] = {}

    def add(self, decision: Decision, src: int, value: int, before: State) -> None:
        """Note that a batch op makes `value` of `src`, whose state is `before`."""
        self.roots[value] = self.roots.get(src, src)
        self._links[value] = (*self._links.get(src, ()), _Link(decision, before, value))

    def last(self, value: int) -> Decision:
        """Return the decision that made a mixed value."""
        return self._links[value][-1].decision

    def collect(self, outputs: Sequence[Output], values: Sequence[int]) -> tuple[Mix, ...]:
        """Return the mixes.

        Args:
            outputs: of a row before them.
            values: for each output the value that it delivers, mixed or not.

        Raises:
            BuildError: they do not stand in one order, sizes differ, or pictures are missing.
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
            size = _size(decision, list(before.values()))
            row = tuple(
                msgspec.structs.replace(output, shape=_op(decision).mixed(before[place]).bound)
                if place in before and before[place].items
                else output
                for place, output in enumerate(row)
            )
            found.append(Mix(decision, before, made, size, row))
        for mix in found[1:]:
            if mix.op.of_dataset:
                raise _fault(
                    mix.decision,
                    f"{mix.op.name} takes samples of the dataset as they are before batch ops: call"
                    f" it before {found[0].op.name}, and once",
                )
        return tuple(found)


def _op(decision: Decision) -> BatchOp:
    assert isinstance(decision.op, BatchOp), "no other op is mixed"
    return decision.op


def _check_order(chain: Sequence[_Link]) -> None:
    indices = [link.decision.index for link in chain]
    if indices != sorted(set(indices)):
        names = ", ".join(link.decision.op.name for link in chain)
        raise _fault(
            chain[-1].decision,
            f"batch ops stand in one order for all values, each once; for one of them it is {names}"
            ": call each batch op once, with all values",
        )


def _size(decision: Decision, states: Sequence[State]) -> tuple[int, int]:
    sizes = {size: state for state in states if (size := picture_size(state)) is not None}
    op = _op(decision)
    if len(sizes) > 1:
        raise _fault(
            decision,
            f"{op.name}: values of one call are of one size, got "
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


def _fault(decision: Decision, message: str) -> BuildError:
    site = decision.site
    return BuildError(f"{site}: {message}", op=decision.op.name, file=site.file, line=site.line)
