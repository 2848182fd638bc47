"""The rows of a batch of any loader as digests, and where two batches first differ.

A batch has a digest for each row of each output. Batches are arrays, tensors, or mappings, tuples
and lists of them, also nested, with texts and numbers in between. Equal bytes, dtypes and shapes
have equal digests, for any loader.
"""

import hashlib
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from stoker.protocol.errors import UsageError

DIGEST_BYTES: Final = 12

RowDigests = tuple[str, list[bytes]]
"""The form of an output in words (dtype and shape of a row), and the digest of each row."""


def summary_of(batch: Any) -> dict[str, RowDigests]:
    """Return the outputs of a batch by name; those of a tuple are called 0, 1, 2.

    Raises:
        UsageError: an output has no bytes to compare, such as an object of a class of its own.
    """
    return {name: _rows(name, value) for name, value in outputs_of(batch)}


def difference_of(
    wanted: Mapping[str, tuple[str, Sequence[object]]],
    found: Mapping[str, tuple[str, Sequence[object]]],
    ids: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> str:
    """Return in words where a batch first differs from the one that was wanted.

    Names, counts and dtypes of all outputs come first, then rows.

    Args:
        wanted: the outputs of a batch: name -> (form in words, digest of each row).
        found: those of another batch.
        ids: the sample ids of both batches; they are named for outputs of as many rows.

    Returns:
        The difference; an empty text if the batches are equal.
    """
    if wanted.keys() != found.keys():
        return f"outputs {', '.join(found)} instead of {', '.join(wanted)}"
    for name, (form, rows) in wanted.items():
        other_form, others = found[name]
        if len(rows) != len(others):
            return f"output {name!r} has {len(others)} rows instead of {len(rows)}"
        if form != other_form:
            return f"output {name!r} is {other_form} instead of {form}"
    for name, (_, rows) in wanted.items():
        for row, (one, two) in enumerate(zip(rows, found[name][1], strict=True)):
            if one != two:
                named = _ids_of(row, ids) if len(rows) == len(ids[0]) == len(ids[1]) else ""
                return f"row {row}: output {name!r} differs{named}"
    return ""


def _ids_of(row: int, ids: tuple[Sequence[str], Sequence[str]]) -> str:
    was, now = ids[0][row], ids[1][row]
    return f" (id {now})" if was == now else f" (id {now} instead of {was})"


def outputs_of(batch: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the outputs of a batch with their names; of a nested one they have dots."""
    if isinstance(batch, Mapping):
        for name in batch:
            yield from _inner(batch[name], f"{prefix}{name}")
        params = getattr(batch, "params", None)
        for name, records in (params or {}).items():
            yield f"params of {name}", records
    elif isinstance(batch, tuple | list):
        for number, value in enumerate(batch):
            yield from _inner(value, f"{prefix}{number}")
    else:
        yield prefix.removesuffix(".") or "batch", batch


def _inner(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping | tuple):
        yield from outputs_of(value, f"{name}.")
    else:
        yield name, value


def row_count(batch: Any) -> int:
    """Return how many rows a batch has: the length that most of its outputs have.

    Raises:
        UsageError: no output has a length.
    """
    lengths = Counter(
        len(value)
        for _, value in outputs_of(batch)
        if hasattr(value, "__len__") and not isinstance(value, str | bytes) and _has_length(value)
    )
    if not lengths:
        raise UsageError(
            f"a batch, {type(batch).__name__}, has no rows to count: expected arrays, tensors or"
            " lists"
        )
    return most_common_length(lengths)


def most_common_length(lengths: Mapping[int, int]) -> int:
    """Return the length that most outputs have, of several the greatest; 0 without any."""
    return max(lengths, key=lambda length: (lengths[length], length), default=0)


def _has_length(value: Any) -> bool:
    """Return whether a value has rows: an array without dimensions does not."""
    return getattr(value, "ndim", 1) != 0


def _rows(name: str, value: Any) -> RowDigests:
    """Return the form of an output in words, and the digest of each of its rows."""
    value = _in_memory(value)
    form = type(value).__name__
    if isinstance(value, np.ndarray):
        form = f"rows of {value.dtype} {tuple(value.shape[1:])}"
        if not value.ndim:
            value = value[None]
    elif not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        value = [value]
    return form, [_digest(name, row) for row in value]


def _digest(name: str, row: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in _parts(name, row):
        digest.update(struct.pack("<Q", len(part)))
        digest.update(part)
    return digest.digest()


def _parts(name: str, value: Any) -> Iterator[bytes]:
    """Yield what a value holds: what kind of value it is, then its bytes."""
    value = _in_memory(value)
    if isinstance(value, Mapping):
        yield f"mapping {len(value)}".encode()
        for key in sorted(value, key=str):
            yield str(key).encode()
            yield from _parts(name, value[key])
    elif isinstance(value, list | tuple):
        yield f"sequence {len(value)}".encode()
        for one in value:
            yield from _parts(name, one)
    elif isinstance(value, str | bytes | int | float | complex | None):
        yield f"{type(value).__name__} {value!r}".encode()
    else:
        array = np.asarray(value, order="C")
        if array.dtype.hasobject:
            if array.ndim == 0:
                raise UsageError(
                    f"output {name!r}: a {type(value).__name__} cannot be compared; expected"
                    " arrays, tensors, numbers, texts, or mappings and sequences of them"
                )
            yield from _parts(name, array.tolist())
        else:
            yield f"{array.dtype.str} {array.shape}".encode()
            yield array.tobytes()


def _in_memory(value: Any) -> Any:
    """Return a tensor as an array in host memory, and anything else as it is."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # NumPy does not have it; float32 holds it all
            value = value.float()
    return np.asarray(value) if hasattr(value, "dtype") and hasattr(value, "shape") else value
