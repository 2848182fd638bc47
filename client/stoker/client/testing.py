"""`check_resume`: whether a loader continues with the same batches wherever it is stopped.

For users who wrap a `Loader`, or write a loader with its interface. It needs no daemon of its own:
it calls a function that makes loaders. Of each batch it keeps one digest for each row and output,
so an epoch takes little memory. Runs in the calling process; one loader is open at a time.
"""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

from stoker.client.row_summaries import RowDigests, difference_of, summary_of
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import as_integer


class ResumeCheckError(AssertionError):
    """A loader does not continue where it was saved; the message names step, output and row."""


@dataclasses.dataclass(frozen=True)
class BatchSummary:
    """Summary of a batch: for each output the dtype and shape in words, and a digest a row."""

    place: str
    outputs: dict[str, RowDigests]


def check_resume(
    make_loader: Callable[[], Any], *, epochs: int = 2, every: int = 1, rest: int | None = None
) -> int:
    """Check that a loader can be stopped before any step and continues with the same batches.

    It reads `epochs` loops and saves `state_dict()` before every step and between loops. Then it
    loads each state into a loader that `make_loader` makes, reads the rest, and compares each row
    of each output, and where each loop ends. States go through JSON, as in a checkpoint. With n
    steps in all it reads about n * n / 2 batches; `every` and `rest` make it less.

    Args:
        make_loader: returns a loader that has delivered nothing: an object with `__iter__`,
            `state_dict` and `load_state_dict`. It is called once for each state, and once more; a
            loader with `close` is closed. Batches are mappings, tuples or arrays.
        epochs: number of loops to read.
        every: save before every that many steps of a loop.
        rest: number of batches to compare after each state; None is all.

    Returns:
        The number of states that were checked.

    Raises:
        ResumeCheckError: a loader differs. The message names the step that the state was saved
            before, and the output and the first row that differ.
        UsageError: a number is not an integer from 1, or the loader delivers no batches.
    """
    for name, number in {"epochs": epochs, "every": every, "rest": rest}.items():
        wanted = number is None and name == "rest"
        if not wanted and (as_integer(number) or 0) < 1:
            raise UsageError(f"check_resume: {name}={number!r}: expected an integer from 1")
    with _closing(make_loader()) as loader:
        loops, states = _record(loader, epochs, every)
    if not loops[0]:
        raise UsageError(
            "check_resume: the loader delivers no batches in its first loop, so nothing is checked"
        )
    for (loop, step), text in states.items():
        with _closing(make_loader()) as loader:
            _check_one(loader, loops, (loop, step), text, rest)
    return len(states)


def _record(
    loader: Any, epochs: int, every: int
) -> tuple[list[list[BatchSummary]], dict[tuple[int, int], str]]:
    """Read loops; return what was delivered, and the states as JSON by (loop, step)."""
    loops: list[list[BatchSummary]] = []
    states: dict[tuple[int, int], str] = {}
    for loop in range(epochs):
        loops.append([])
        batches = iter(loader)
        while True:
            step = len(loops[loop])
            if step % every == 0 and (step or not loop):  # a later loop's start is a loop's end
                states[loop, step] = _saved(loader, loop, step)
            batch = next(batches, None)
            if batch is None:
                break
            loops[loop].append(_seen(batch, loop, step))
            del batch
        if loop + 1 < epochs:
            states[loop, step] = _saved(loader, loop, step)
        else:
            states.pop((loop, step), None)  # nothing comes after it
    return loops, states


def _saved(loader: Any, loop: int, step: int) -> str:
    state = loader.state_dict()
    try:
        return json.dumps(state)
    except (TypeError, ValueError) as error:
        raise ResumeCheckError(
            f"the state saved before step {step} of loop {loop} is not plain data: {error}; "
            "expected numbers, texts, lists and dicts that json.dumps takes"
        ) from None


def _check_one(
    loader: Any, loops: list[list[BatchSummary]], at: tuple[int, int], text: str, rest: int | None
) -> None:
    """Load a state into a loader and compare what it delivers."""
    loop, step = at
    loader.load_state_dict(json.loads(text))
    again = json.dumps(loader.state_dict())
    if again != text:
        raise ResumeCheckError(
            f"{_where(at)}: state_dict() right after load_state_dict() returns another state: "
            f"expected {text}, got {again}"
        )
    wanted = [loops[loop][step:], *loops[loop + 1 :]]
    if not wanted[0]:  # the state of a loop's end: the next loop comes
        del wanted[0]
    left = sum(map(len, wanted)) if rest is None else rest
    for expected in wanted:
        if left > 0:
            _compare_loop(loader, expected, left, at, loops[0][0])
        left -= len(expected)


def _compare_loop(
    loader: Any, expected: list[BatchSummary], most: int, at: tuple[int, int], first: BatchSummary
) -> None:
    """Compare one loop, or its first `most` batches; `first` is the first batch of all loops."""
    batches = iter(loader)
    for number, wanted in enumerate(expected[:most]):
        batch = next(batches, None)
        if batch is None:
            raise ResumeCheckError(
                f"{_where(at)}: the loop ends after {number} batches; expected {len(expected)}, of "
                f"which the next is that of {wanted.place}"
            )
        found = _seen(batch, *at)
        del batch
        difference = difference_of(wanted.outputs, found.outputs)
        if difference:
            start = wanted is not first and not difference_of(first.outputs, found.outputs)
            raise ResumeCheckError(
                f"{_where(at)}: the batch of {wanted.place} differs: {difference}"
                + (f". It is the batch of {first.place}: was the state loaded?" if start else "")
            )
    if most >= len(expected) and next(batches, None) is not None:
        raise ResumeCheckError(
            f"{_where(at)}: the loop goes on after {len(expected)} batches; expected its end there"
        )


def _where(at: tuple[int, int]) -> str:
    return f"continued from the state saved before step {at[1]} of loop {at[0]}"


def _seen(batch: Any, loop: int, step: int) -> BatchSummary:
    place = f"step {step} of loop {loop}"
    if hasattr(batch, "epoch") and hasattr(batch, "step"):
        place += f" (epoch {batch.epoch}, step {batch.step})"
    return BatchSummary(place, summary_of(batch))


@contextlib.contextmanager
def _closing(loader: Any) -> Iterator[Any]:
    try:
        yield loader
    finally:
        if hasattr(loader, "close"):
            loader.close()
