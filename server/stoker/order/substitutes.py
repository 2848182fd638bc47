"""Which sample stands in for a bad one: the same on every rank, run and resume (contract order v1).

Attempt k = 1, 2, ..., 16 is draw k of the reserved stream `stoker/substitute` at the bad row's id,
with its position + 1 as visit: a place among the samples that an epoch visits. The view takes no
part, so all views of a position get one substitute. The ops of the row that comes of it draw with
the substitute's id and the same visit, position + 1, which no ordinary row of an unweighted epoch
has.
"""

from typing import Final

from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec
from stoker.rng.draws import integers
from stoker.rng.streams import SUBSTITUTE_STREAM, make_key, stream_key

MAX_ATTEMPTS: Final = 16
_SUBSTITUTE: Final = stream_key(SUBSTITUTE_STREAM)


def substitute(
    spec: StreamSpec,
    epoch: int,
    position: int,
    bad_id: int,
    attempt: int,
    among: int | None = None,
) -> tuple[int, int]:
    """Return (place, visit) of the row that stands in for a bad one.

    Args:
        spec: the stream.
        epoch: the epoch of the bad row.
        position: its position.
        bad_id: the id that the order gives to that position.
        attempt: 1 to 16; each is tried until the id that it draws is good.
        among: how many samples may stand in; None: all that an epoch visits. The place is one
            among these: an id where nothing is left out, with buckets one of the bucket's.

    Raises:
        UsageError: the attempt is out of its range, or a part of the key is.
    """
    if not 1 <= attempt <= MAX_ATTEMPTS:
        raise UsageError(f"substitute: expected attempt 1 to {MAX_ATTEMPTS}, got {attempt}")
    key = make_key(spec.seed, _SUBSTITUTE, bad_id, epoch, visit=position + 1)
    return integers(key, attempt, among or spec.epoch_rows), position + 1
