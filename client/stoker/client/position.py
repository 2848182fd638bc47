"""The position of a loader in its stream, and the position at which its next loop begins.

A position is one `NextStep`: the next step to deliver; prefetched batches do not count. A planned
one decides where the next loop begins (of a fresh loader, after `set_epoch`, a loaded cursor or
`skip`); without one it is the next epoch. Steps that the user leaves out on purpose are passed over
when the next batch is asked for, and count as skipped.

Invariant: after batch (epoch, step) was delivered, the place is (epoch, step + 1), even if the
caller leaves the loop or keeps the batch, or the daemon dies; so the cursor is always exact.
"""

import dataclasses
from collections.abc import Callable, Iterable

from stoker.protocol.cursor import Cursor
from stoker.protocol.errors import ResumeError, UsageError
from stoker.protocol.request.argument_checks import within
from stoker.protocol.skips import MAX_STEP, Skips
from stoker.protocol.spec import StreamSpec, as_integer


@dataclasses.dataclass(frozen=True, slots=True)
class NextStep:
    """The next step to deliver; `skipped` counts steps of this epoch that were left out."""

    epoch: int = 0
    step: int = 0
    skipped: int = 0


class Position:
    """The place of a loader in its stream.

    Attributes:
        repeats: whether every loop is epoch 0 again, as for evaluation.
        skips: steps to leave out.
    """

    def __init__(self, steps: Callable[[int], int]) -> None:
        """Begin at the start; `steps` returns the number of steps of an epoch."""
        self.repeats = False
        self.skips = Skips()
        self._steps = steps
        self._place = NextStep()
        self._planned: NextStep | None = NextStep()
        self._exact = False

    @property
    def running(self) -> NextStep:
        """The place within the current loop."""
        return self._place

    @property
    def current(self) -> NextStep:
        """The place that a cursor names: that of the next loop if it is planned."""
        return self._planned if self._planned is not None else self._place

    @property
    def length(self) -> int:
        """Number of batches of the current epoch, or of the one that is planned."""
        epoch = self.current.epoch
        steps = self._steps(epoch)
        return steps - self.skips.count(epoch, 0, steps)

    @property
    def left(self) -> int:
        """Number of batches of the next loop."""
        return self._left(self.next_place())

    def next_place(self) -> NextStep:
        """Return where the next loop starts."""
        place = self._planned
        if place is None or (self._is_over(place) and not self._exact):
            place = NextStep(0 if self.repeats else (place or self._place).epoch + 1)
        return place

    def begin(self) -> NextStep:
        """Begin the next loop; return its place."""
        self._place = self.next_place()
        self._planned, self._exact = None, False
        return self._place

    def wanted(self) -> NextStep | None:
        """Pass over steps to leave out; return the place of the next batch, None at the end."""
        place = self._place
        step = self.skips.past(place.epoch, place.step)
        if step != place.step:
            step = min(step, self._steps(place.epoch))
            place = NextStep(place.epoch, step, place.skipped + step - place.step)
            self._place = place
        return None if place.step >= self._steps(place.epoch) else place

    def delivered(self) -> None:
        """Go on after the batch that was wanted."""
        place = self._place
        self._place = NextStep(place.epoch, place.step + 1, place.skipped)

    def set_epoch(self, epoch: object) -> None:
        """Plan an epoch, or keep a plan in it.

        Raises:
            UsageError: the epoch is not an integer from 0.
        """
        number = as_integer(epoch)
        if number is None or not 0 <= number <= MAX_STEP:
            raise UsageError(f"set_epoch({epoch!r}): expected an integer from 0 to 2**48")
        if self._planned is None or self._planned.epoch != number:
            self._planned = NextStep(number)
        self._exact = True

    def skip(self, count: object) -> None:
        """Leave out the next batches of the epoch.

        Raises:
            UsageError: the epoch has fewer batches left.
        """
        place = self.current
        left = self._left(place)
        number = as_integer(count)
        if number is None or not 0 <= number <= left:
            raise UsageError(
                f"skip({count!r}): expected an integer from 0 to {left}, the batches left in epoch "
                f"{place.epoch}"
            )
        step = self.skips.after(place.epoch, place.step, number)
        place = NextStep(place.epoch, step, place.skipped + step - place.step)
        if self._planned is not None:
            self._planned = place
        else:
            self._place = place

    def steps_to_skip(self, epoch: object, steps: object) -> Skips:
        """Return steps to leave out that are still to come; changes nothing.

        Raises:
            UsageError: a step is not one of the epoch, or was delivered before.
        """
        number = within("skip_steps: epoch", epoch, 0, MAX_STEP)
        found = Skips((number, first, last) for first, last in _ranges(steps))
        total, place = self._steps(number), self.current
        for _, first, last in found.ranges():
            if last >= total:
                raise UsageError(
                    f"skip_steps: step {last} of epoch {number}: expected steps from 0 to "
                    f"{total - 1}, the last one of that epoch"
                )
            if (number, first) < (place.epoch, place.step) and not self.repeats:
                raise UsageError(
                    f"skip_steps: step {first} of epoch {number} is over: the loader is at step "
                    f"{place.step} of epoch {place.epoch}; load a state from before that step first"
                )
        return found

    def load(self, cursor: Cursor, spec: StreamSpec, world_size: int) -> None:
        """Plan the place of a cursor; its steps to leave out are added to those known.

        Raises:
            ResumeError: the cursor belongs to another stream, or is beyond the epoch's end.
        """
        skips = self.skips | Skips.from_data(cursor.skips)
        self._planned = place_of(cursor, spec, self._steps(cursor.epoch), world_size)
        self._exact, self.skips = False, skips

    def _left(self, place: NextStep) -> int:
        steps = self._steps(place.epoch)
        skipped = self.skips.count(place.epoch, place.step, steps)
        return max(steps - place.step - skipped, 0)

    def _is_over(self, place: NextStep) -> bool:
        return self._left(place) == 0


def _ranges(steps: object) -> Iterable[tuple[int, int]]:
    """Yield (first, last) of steps and ranges of steps."""
    if isinstance(steps, str | bytes) or not isinstance(steps, Iterable):
        raise UsageError(
            f"skip_steps: steps={steps!r}: expected a list of steps or ranges, for example "
            "[1020, range(1100, 1110)]"
        )
    for item in [steps] if isinstance(steps, range) else steps:
        if isinstance(item, range) and item.step == 1:
            if item:
                yield within("skip_steps: step", item[0], 0, MAX_STEP), item[-1]
        elif isinstance(item, range):
            yield from ((step, step) for step in item)
        else:
            step = within("skip_steps: step", item, 0, MAX_STEP)
            yield step, step


def place_of(cursor: Cursor, spec: StreamSpec, steps: int, world_size: int) -> NextStep:
    """Return the place that a cursor names in the open stream.

    Raises:
        ResumeError: the cursor belongs to another stream, or is beyond the epoch's end.
    """
    had = cursor.spec.get("batch_size")
    if cursor.stream != spec.stream_id and isinstance(had, int) and had != spec.batch_size:
        raise ResumeError(
            f"the cursor's stream has global batches of B = {had} positions, but this loader has "
            f"B = {spec.batch_size} over {world_size} rank(s); a job that changes its rank count "
            f"keeps its B: pass global_batch_size={had}" + _others(cursor, spec)
        )
    cursor.check(spec)
    if cursor.step > steps:
        raise ResumeError(
            f"the cursor names step {cursor.step}, but an epoch of this stream has {steps} steps"
        )
    return NextStep(cursor.epoch, cursor.step, cursor.skipped)


def _others(cursor: Cursor, spec: StreamSpec) -> str:
    lines = [line for line in cursor.differences(spec) if not line.startswith("batch_size:")]
    return "".join(f"\n  also different: {line}" for line in lines)
