"""Keys: which random numbers belong to which draw (contract random v1).

A draw belongs to (stream name, seed, epoch, sample id, visit, view) and nothing else. A `Key`
holds these six in five unsigned 64-bit words; `stoker.rng.draws` turns a key and a draw number into
numbers. Compiled code sees a key as a tuple of five uint64, see `machine_key`.
"""

import hashlib
from typing import Final, Literal, NamedTuple

import numpy as np

from stoker.jit.kernels import kernel
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import as_integer

ORDER_STREAM: Final = "stoker/order"
SUBSTITUTE_STREAM: Final = "stoker/substitute"
RESERVED_PREFIX: Final = "stoker/"
"""Stream names with this prefix are reserved for Stoker; no op may use one."""

MAX_NAME_BYTES: Final = 255
MAX_VISIT: Final = 2**48 - 1
MAX_VIEW: Final = 2**16 - 1
MAX_WORD: Final = 2**64 - 1


class Key(NamedTuple):
    """The identity of an op's draws for one row; five integers in [0, 2**64).

    Attributes:
        seed: the stream's seed.
        stream: `stream_key` of the stream name.
        id: sample id.
        epoch: the epoch, from 0.
        lane: visit * 2**16 + view.
    """

    seed: int
    stream: int
    id: int
    epoch: int
    lane: int


def stream_key(name: str) -> int:
    """Return the key word of a stream name: bytes 0 to 7, little-endian, of its BLAKE2b-512."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8")).digest()[:8], "little")


def check_stream_name(name: str) -> str:
    """Check and return the name of an op's stream.

    Raises:
        UsageError: it is empty, longer than 255 bytes, not encodable, or reserved for Stoker.
    """
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= MAX_NAME_BYTES:
        raise UsageError(
            f"stream name: expected 1 to {MAX_NAME_BYTES} bytes of UTF-8, got {name!r}"
        )
    if name.startswith(RESERVED_PREFIX):
        raise UsageError(
            f"stream name {name!r}: names that begin with {RESERVED_PREFIX!r} are reserved;"
            " choose another"
        )
    return name


@kernel(twin="stoker.rng.compiled:make_key")
def make_key(
    seed: int, stream: int, sample_id: int, epoch: int, visit: int = 0, view: int = 0
) -> Key:
    """Return the key of an op's draws for one row.

    Raises:
        UsageError: a part is out of range (the compiled form does not check).
    """
    _within("seed", seed, MAX_WORD)
    _within("stream", stream, MAX_WORD)
    _within("sample id", sample_id, MAX_WORD)
    _within("epoch", epoch, MAX_WORD)
    _within("visit", visit, MAX_VISIT)
    _within("view", view, MAX_VIEW)
    return Key(int(seed), int(stream), int(sample_id), int(epoch), int(visit) * 2**16 + int(view))


def frozen_key(key: Key, freeze: int | Literal["epoch"] | None) -> Key:
    """Return the key with a freeze applied.

    An integer f replaces (id, epoch, visit, view) by (f, 0, 0, 0); "epoch" sets the epoch to 0;
    None changes nothing.

    Raises:
        UsageError: the freeze is none of these.
    """
    if freeze is None:
        return key
    if freeze == "epoch":
        return freeze_epoch(key)
    number = as_integer(freeze)
    if number is not None and 0 <= number <= MAX_WORD:
        return freeze_value(key, number)
    raise UsageError(f"freeze: expected an integer in [0, 2**64), 'epoch' or None, got {freeze!r}")


@kernel(twin="stoker.rng.compiled:freeze_value")
def freeze_value(key: Key, value: int) -> Key:
    """Return the key with (id, epoch, visit, view) replaced by (value, 0, 0, 0)."""
    return Key(key[0], key[1], int(value), 0, 0)


@kernel(twin="stoker.rng.compiled:freeze_epoch")
def freeze_epoch(key: Key) -> Key:
    """Return the key with the epoch replaced by 0."""
    return Key(key[0], key[1], key[2], 0, key[4])


def machine_key(key: Key) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the key as compiled functions take it: a tuple of five uint64."""
    seed, stream, sample_id, epoch, lane = (np.uint64(word) for word in key)
    return seed, stream, sample_id, epoch, lane


def _within(name: str, value: int, high: int) -> None:
    if not 0 <= value <= high:
        raise UsageError(f"random key: {name}: expected an integer from 0 to {high}, got {value}")
