"""Places in a stream, and the check that a cursor belongs to the open stream."""

import dataclasses

from stoker.protocol.cursor import Cursor
from stoker.protocol.errors import ResumeError
from stoker.protocol.spec import StreamSpec


@dataclasses.dataclass(frozen=True)
class NextStep:
    """The next step to deliver; `skipped` counts steps of this epoch that were left out."""

    epoch: int = 0
    step: int = 0
    skipped: int = 0


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
