"""The bucket of a sequence: the smallest bound that it does not exceed (contract order v1)."""

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from stoker.protocol.errors import UsageError
from stoker.protocol.length_buckets import LengthBuckets
from stoker.protocol.size_buckets import MAX_LENGTH

Lengths = NDArray[np.int64]


def bucket_lengths(given: NDArray[np.integer[Any]], request: LengthBuckets) -> Lengths:
    """Return the length of each sequence's bucket, `(n,) int64`; 0 for sequences left out.

    An empty sequence has the bucket of the shortest ones.

    Args:
        given: lengths of the sequences, `(n,)`.
        request: how buckets are chosen.

    Raises:
        UsageError: a length is negative, or above every bucket with longer="error"; the message
            names the place of the first such sequence.
    """
    lengths = np.asarray(given, np.int64)
    if lengths.size and lengths.min() < 0:
        _refuse(lengths, lengths < 0, "expected a length from 0")
    least = np.maximum(lengths, 1)
    if request.bounds is not None:
        bounds = np.array((*request.bounds, 0))  # after the last one: none
        found: Lengths = bounds[np.searchsorted(bounds[:-1], least)]
    else:
        assert request.multiple is not None  # LengthBuckets checks it
        most = request.max_length or MAX_LENGTH
        found = np.minimum(-(-least // request.multiple) * request.multiple, most)
        found[least > most] = 0
    longer = found == 0
    if not longer.any():
        return found
    if request.longer == "error" or request.reference is None:
        _refuse(
            lengths, longer, f"{_many(longer)} longer than {request.reference or MAX_LENGTH}, the "
            "longest bucket: use longer='truncate' or 'drop', or longer buckets",
        )  # fmt: skip
    if request.longer == "truncate":
        found[longer] = request.reference
    return found


def _many(which: NDArray[np.bool_]) -> str:
    count = int(which.sum())
    return "1 is" if count == 1 else f"{count} are"


def _refuse(lengths: Lengths, bad: NDArray[np.bool_], what: str) -> NoReturn:
    place = int(np.argmax(bad))
    raise UsageError(f"buckets: sequence {place} has length {lengths[place]}; {what}", place=place)
