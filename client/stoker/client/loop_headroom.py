"""`headroom`: what a loop would save with a perfect loader, for any loader.

It runs the loop twice: over the loader, then with batches of it from memory. The difference is what
a loader could save at most, also what it takes from the step by using the same cores. Runs in the
calling process; keeps `keep` batches. Seconds.
"""

import copy
import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from stoker.client.loop_verdict import NEGLIGIBLE
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import as_integer

Item = TypeVar("Item")
_END: Final = object()


@dataclasses.dataclass(frozen=True)
class Headroom:
    """The time that a perfect loader would save; as text, one line.

    Attributes:
        batches: that both loops had, without the first one, which starts the loader.
        kept: batches that the second loop took from memory, in turn.
        loader_s: of the loop over the loader.
        next_s: of that, inside of `next()`.
        memory_s: of the same steps with batches from memory.
        has_step: False if the loop only took batches.
    """

    batches: int
    kept: int
    loader_s: float
    next_s: float
    memory_s: float
    has_step: bool

    @property
    def saved(self) -> float:
        """The part of the loop that a perfect loader would save, from 0 to 1."""
        return max(0.0, 1 - self.memory_s / self.loader_s) if self.loader_s > 0 else 0.0

    def __str__(self) -> str:
        each_ms = 1000 * self.loader_s / self.batches
        if not self.has_step:
            return (
                f"the loader gives a batch every {each_ms:.1f} ms ({self.batches} batches): a step"
                " that takes longer need not wait; give step= to learn what your loop would save"
            )
        found = f"a perfect loader would save {100 * self.saved:.0f} % of the loop"
        if self.saved < NEGLIGIBLE:
            found += ", so a faster one is not worth it"
        inside = 100 * min(self.next_s / self.loader_s, 1.0) if self.loader_s > 0 else 0.0
        return (
            f"{found}: {each_ms:.1f} ms a batch, {1000 * self.memory_s / self.batches:.1f} ms from"
            f" memory; {inside:.0f} % of the loop is inside of next() ({self.batches} batches)"
        )


def headroom(
    loader: Iterable[Item],
    batches: int = 50,
    *,
    step: Callable[[Item], object] | None = None,
    keep: int = 8,
) -> Headroom:
    """Measure what a perfect loader would save.

    It takes the first batch of an epoch, then `batches` more, each with one call of `step`. It
    copies `keep` of them, spread evenly, and stops the clock meanwhile. Then it calls `step` as
    often with the copies. A loader with `state_dict` and `load_state_dict` continues afterwards
    where it was; any other one has used up what was read.

    Args:
        loader: any iterable of batches: a `Loader`, a torch DataLoader, a list. Batches are arrays,
            tensors, or mappings, tuples and lists of them, or anything that `copy.deepcopy` takes.
        batches: how many to measure. Take several times as many as the loader prepares ahead, which
            are there at once.
        step: what the training does with a batch. It must leave the batch as it is. If it uses a
            CUDA device, the device is waited for at the end of each loop, not in between.
        keep: batches to keep in memory, at most.

    Raises:
        UsageError: a number is not an integer from 1; `step` cannot be called; `loader` is not
            iterable; it is an iterator, such as a generator, which reading would use up; an epoch
            of it has too few batches; or a batch cannot be copied.
    """
    for name, number in {"batches": batches, "keep": keep}.items():
        if (as_integer(number) or 0) < 1:
            raise UsageError(f"headroom: {name}={number!r}: expected an integer from 1")
    if step is not None and not callable(step):
        raise UsageError(
            f"headroom: step={step!r}: expected a function that takes a batch, such as the step of "
            "your training"
        )
    if not isinstance(loader, Iterable) and not hasattr(loader, "__getitem__"):
        raise UsageError(f"headroom: expected an iterable of batches, got {type(loader).__name__}")
    if isinstance(loader, Iterator):
        raise UsageError(
            f"headroom: a {type(loader).__name__} can be read once, and this would use it up: give"
            " the loader that makes it"
        )
    run = step or _nothing
    resumes = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
    state = loader.state_dict() if resumes else None  # type: ignore[attr-defined]
    every = -(-batches // keep)
    try:
        loader_s, next_s, kept = _over(iter(loader), batches, run, every)
        memory_s = _from_memory(kept, batches, run, every)
    finally:
        if resumes:
            loader.load_state_dict(state)  # type: ignore[attr-defined]
    return Headroom(batches, len(kept), loader_s, next_s, memory_s, step is not None)


def _nothing(_batch: object) -> None:
    """Do what a loop without a step does."""


def _over(
    source: Iterator[Item], batches: int, step: Callable[[Item], object], every: int
) -> tuple[float, float, list[Item]]:
    """Loop over the loader; return the seconds of the loop, those in `next()`, and copies.

    The iterator ends with this function, and with it what prepares its batches.
    """
    for first in source:
        step(first)
        break
    else:
        raise UsageError("headroom: the loader delivers no batches")
    del first
    _wait_for_device()
    kept: list[Item] = []
    next_s = paused_s = 0.0
    begun = time.perf_counter()
    for number in range(batches):
        asked = time.perf_counter()
        batch: Any = next(source, _END)
        arrived = time.perf_counter()
        next_s += arrived - asked
        if batch is _END:
            fewer = f"batches={number} or fewer, or " if number else ""
            raise UsageError(
                f"headroom: the loader ended after {number + 1} batches; expected"
                f" {batches + 1}, because the first one only starts it: give {fewer}a loader with"
                " more"
            )
        if number % every == 0:
            kept.append(_own_copy(batch))
            paused_s += time.perf_counter() - arrived
        step(batch)
        del batch
    _wait_for_device()
    return time.perf_counter() - begun - paused_s, next_s, kept


def _from_memory(
    kept: list[Item], batches: int, step: Callable[[Item], object], every: int
) -> float:
    """Do the same steps with copies; return the seconds."""
    begun = time.perf_counter()
    for number in range(batches):
        step(kept[number // every])
    _wait_for_device()
    return time.perf_counter() - begun


def _wait_for_device() -> None:
    """Wait until CUDA has done what was asked of it, if this process uses it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _own_copy(batch: Any) -> Any:
    """Return a copy that shares no memory with the batch, which the loader may use again.

    Raises:
        UsageError: a part of it cannot be copied.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(batch, torch.Tensor):
        copied = batch.detach().clone()  # deepcopy would copy the whole storage of a view
        return copied.pin_memory() if batch.is_pinned() else copied
    kind = type(batch)
    if kind in (list, tuple):
        return kind(map(_own_copy, batch))
    if kind is dict:
        return {name: _own_copy(value) for name, value in batch.items()}
    try:
        return copy.deepcopy(batch)
    except Exception as error:
        raise UsageError(
            f"headroom: a {kind.__name__} of a batch cannot be copied: {error}; give a loader whose"
            " batches are arrays, tensors, or mappings and sequences of them"
        ) from error
