"""The substitute for a bad sample: the same on every rank, run and resume (contract order v1).

Attempt k = 1, 2, ..., 16 is draw k of the reserved stream `stoker/substitute` at the bad row's id,
with its position + 1 as visit: a place among the samples of its deck. The view is not part of the
key, so all views of a position get one substitute. The ops of the new row draw with the
substitute's id and a visit that no ordinary row has: position + 1, and with weights, where samples
come several times, 2**47 + position.
"""

from typing import Final

from stoker.protocol.errors import UsageError
from stoker.rng.draws import integers
from stoker.rng.streams import SUBSTITUTE_STREAM, make_key, stream_key

MAX_ATTEMPTS: Final = 16
WEIGHTED_VISIT: Final = 2**47
"""With weights, visits from here on are those of substitutes."""
_SUBSTITUTE: Final = stream_key(SUBSTITUTE_STREAM)


def substitute_place(
    seed: int, epoch: int, position: int, bad_id: int, attempt: int, among: int
) -> int:
    """Return the place of the substitute for a bad row.

    Args:
        seed: of the order.
        epoch: the epoch of the bad row.
        position: its position.
        bad_id: the id at that position of the order.
        attempt: 1 to 16; attempts are made until the drawn id is good.
        among: number of possible substitutes.

    Raises:
        UsageError: the attempt or a part of the key is out of range.
    """
    if not 1 <= attempt <= MAX_ATTEMPTS:
        raise UsageError(f"substitute: expected attempt 1 to {MAX_ATTEMPTS}, got {attempt}")
    key = make_key(seed, _SUBSTITUTE, bad_id, epoch, visit=position + 1)
    return integers(key, attempt, among)
