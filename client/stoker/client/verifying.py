"""`verify=True`: compares each batch with the digests of its workers, and the order of batches.

READY brings the digests of the rows, which the workers computed, and the chain of the run, which
the daemon computed. The client computes both again: the chain when the batch is announced, the rows
right before the batch is handed out. So a byte that changes in the slab in between, or a
batch that is lost, repeated or swapped, is an error with its place.

Runs come and go with daemons and jumps. `SessionChain` covers what the caller got, so it is the
same for any number of daemons, and after a reconnect.
"""

import ctypes
from typing import NamedTuple

import numpy as np

from stoker.client.slab_map import SlabMap
from stoker.protocol.chain import ROW_DIGEST_BYTES, batch_of_rows, chain_on, chain_start
from stoker.protocol.errors import CorruptBatchError, ProtocolError, VersionError
from stoker.protocol.messages import Opened, Ready
from stoker.protocol.row_digests import RowDigests


class Digests(NamedTuple):
    """Digest of a batch, and the chain of the loader after it: 32 hex digits each."""

    batch: str
    chain: str


class SessionChain:
    """The chain of all batches that a loader has given, in their order.

    It begins at the first batch as the chain of a run does, and goes on as one: across epochs,
    jumps, resumes and reconnects, whichever daemons make the batches.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._last = b""

    def seal(self, epoch: int, step: int, digest: bytes | None) -> Digests | None:
        """Return the digests of the next batch; None without `verify`."""
        if digest is None:
            return None
        before = self._last or chain_start(self._stream, epoch, step)
        return Digests(digest.hex(), chain_on(before, epoch, step, digest).hex())

    def delivered(self, digests: Digests | None) -> None:
        """Go on after the batch with these digests."""
        if digests is not None:
            self._last = bytes.fromhex(digests.chain)


class Verifier:
    """Verifies the batches of one stream, run by run."""

    def __init__(self, opened: Opened, slab: SlabMap) -> None:
        self._stream = opened.stream
        self._slab = slab
        self._rows = RowDigests(opened.outputs)
        self._chain = b""

    def begin(self, epoch: int, step: int) -> None:
        """Begin a run at the place of its SEEK."""
        self._chain = chain_start(self._stream, epoch, step)

    def announced(self, ready: Ready) -> None:
        """Check the chain of a batch, in the order of announcements.

        Raises:
            VersionError: the daemon computes no digests.
            ProtocolError: a digest is missing, or the chain is another one.
        """
        if not ready.digests:
            raise VersionError(
                "verify=True: the daemon sends no digests, because it is older than this client; "
                "update it, or leave verify out"
            )
        if len(ready.digests) != ready.rows * ROW_DIGEST_BYTES:
            raise ProtocolError(
                f"verify=True: expected {ROW_DIGEST_BYTES} bytes of digest for each of "
                f"{ready.rows} rows, got {len(ready.digests)}"
            )
        digest = batch_of_rows(ready.digests)
        chain = chain_on(self._chain, ready.epoch, ready.step, digest)
        if chain != ready.chain:
            raise ProtocolError(
                f"verify=True: the batch of epoch {ready.epoch}, step {ready.step} does not follow "
                f"the one before it: expected chain {chain.hex()}, got {ready.chain.hex()}; a "
                "message was lost or changed on its way. The next batch that you ask for starts a "
                "new run"
            )
        self._chain = chain

    def check(self, ready: Ready) -> bytes:
        """Compare the rows in the slot with their digests; return the digest of the batch.

        Raises:
            CorruptBatchError: a row has other bytes than its worker wrote.
        """
        slab = self._slab
        start = slab.address + ready.slot * slab.slot_bytes
        slot = np.ctypeslib.as_array((ctypes.c_uint8 * slab.slot_bytes).from_address(start))
        found = self._rows.of(slot, ready.outputs, 0, ready.rows)
        if found != ready.digests:
            raise _corrupt(ready, found)
        return batch_of_rows(ready.digests)


def _corrupt(ready: Ready, found: bytes) -> CorruptBatchError:
    wrong = np.frombuffer(found, "<u8") != np.frombuffer(ready.digests, "<u8")
    rows = np.flatnonzero(wrong)
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return CorruptBatchError(
        f"verify=True: row {rows[0]}{more} of the batch of epoch {ready.epoch}, step {ready.step} "
        f"is not what its worker wrote: slot {ready.slot} of the shared memory was changed since. "
        "Look for code that writes through a pointer or a view that it no longer owns: a custom op "
        "in a worker, an extension module, or this process. The next batch that you ask for is "
        "this one, computed again",
        epoch=ready.epoch,
        step=ready.step,
        row=int(rows[0]),
        rows=len(rows),
        slot=ready.slot,
    )
