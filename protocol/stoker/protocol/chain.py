"""Digests of batches and of a run v1: what a daemon and a client with `verify` agree on.

The digest of a batch is BLAKE2b-128 over the digests of its rows, in row order. A chain orders
batches: it begins with BLAKE2b-128 over the stream id, the epoch and the step of SEEK, and each
batch makes it BLAKE2b-128 over the chain before, its epoch, its step and its digest. Numbers are
unsigned 64-bit little-endian. All follow from the stream's bytes, so they are the same for any
number of workers. Specified with vectors in docs/contracts/slots.md; numba-free, NumPy-free.
"""

import hashlib
import struct
from typing import Final

ROW_DIGEST_BYTES: Final = 8
CHAIN_BYTES: Final = 16
MAX_VERIFIED_ROWS: Final = 2**15
"""Most rows of one rank in a batch: their digests travel in one READY."""
_PLACE: Final = struct.Struct("<2Q")


def batch_of_rows(row_digests: bytes | bytearray) -> bytes:
    """Return the digest of a batch, 16 bytes, from the digests of its rows, 8 bytes each."""
    return _blake(row_digests)


def chain_start(stream_id: str, epoch: int, step: int) -> bytes:
    """Return the chain, 16 bytes, before the first batch of a run that begins at a place."""
    return _blake(bytes.fromhex(stream_id) + _PLACE.pack(epoch, step))


def chain_on(chain: bytes, epoch: int, step: int, batch_digest: bytes) -> bytes:
    """Return the chain after a batch."""
    return _blake(chain + _PLACE.pack(epoch, step) + batch_digest)


def _blake(data: bytes | bytearray) -> bytes:
    return hashlib.blake2b(data, digest_size=CHAIN_BYTES).digest()
