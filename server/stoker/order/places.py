"""Places in a stream: (epoch, step), and how far one is from another, in O(1).

A place names the next step to deliver. (e, steps) and (e + 1, 0) are the same place; results are
always in the second form.
"""

from stoker.order.batches import steps_per_epoch
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec

Place = tuple[int, int]


def skip(spec: StreamSpec, epoch: int, step: int, count: int) -> Place:
    """Return the place `count` steps after a place, across ends of epochs.

    Raises:
        UsageError: the place is not in the stream, or `count` is negative.
    """
    if count < 0:
        raise UsageError(f"skip: expected a number of steps from 0, got {count}")
    return divmod(steps_before(spec, epoch, step) + count, steps_per_epoch(spec))


def steps_before(spec: StreamSpec, epoch: int, step: int) -> int:
    """Return the number of steps of the stream before a place.

    Raises:
        UsageError: the place is not in the stream.
    """
    steps = steps_per_epoch(spec)
    if epoch < 0 or not 0 <= step <= steps:
        raise UsageError(
            f"place: expected an epoch from 0 and a step from 0 to {steps}, got epoch {epoch},"
            f" step {step}"
        )
    return epoch * steps + step
