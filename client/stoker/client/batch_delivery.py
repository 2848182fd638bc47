"""Delivery: announced batches, checked and in order, paid for with credits.

Runs in the thread that iterates over the loader. A run is one SEEK and everything up to the next.
`prefetch` credits are granted with it, and one more for each batch taken, so at any time

    announced and not taken + granted and not yet announced + kept back == prefetch.

Delivery continues across epochs; asking for any place but the next one begins a new run.
Announcements of earlier runs are void, but their slots belong to this session until it returns
them, which it does without taking them.

An exception in the middle (a signal, a broken message) marks the run as broken: the next call
begins a new run at the place it asks for, so no batch is lost or delivered twice.

Each message costs the daemon one turn of its loop, so a batch causes at most one message: slots
whose arrays died are returned in the message that grants the credit for the next batch. If batches
are taken in quick succession and the next one has arrived already, credits are kept back until they
are half of `prefetch`. Before a wait, slots are returned in a message of their own only if the
daemon could run short of slots.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stoker.client.batches.batch_params import read_params
from stoker.client.client_session import ClientSession
from stoker.client.lease import LeaseBook
from stoker.client.opened_stream import steps_of
from stoker.client.verifying import Verifier
from stoker.protocol import output_forms
from stoker.protocol.draw_records import PARAMS, Drawn, check_drawn
from stoker.protocol.errors import ProtocolError, StokerError, from_record
from stoker.protocol.item_fields import DTYPES
from stoker.protocol.messages import (
    Bye,
    ClientRecord,
    Credit,
    DaemonRecord,
    Error,
    Opened,
    Ready,
    Release,
    Seek,
    Status,
)
from stoker.protocol.ragged import flatten, gather
from stoker.protocol.remote.shares import HostShare
from stoker.protocol.slot_layout import ALIGN, META, Output, Placed, ragged_outputs

MAX_RELEASES = 4096
QUICK_S = 0.005
"""Batches taken within this time of each other are in quick succession."""
SPARE = 1
"""Slots in reserve for a slot whose writer the daemon cannot confirm dead."""


class Delivery:
    """Batches of one open stream.

    Attributes:
        waits: batches that had not arrived when asked for.
        wait_s: seconds spent waiting for them.
        params: (epoch, step) -> draw records by name, for batches that were taken but that the
            caller does not have yet.
        digests: (epoch, step) -> digest with `verify`, for the same batches.
        crashed: samples that are replaced because they crashed workers: id -> (epoch, step) of the
            first batch that is known to replace them.
    """

    def __init__(
        self,
        session: ClientSession,
        book: LeaseBook,
        opened: Opened,
        prefetch: int,
        timeout_s: float,
        crashed: dict[int, tuple[int, int]],
        verifier: Verifier | None = None,
    ) -> None:
        self.waits = 0
        self.wait_s = 0.0
        self._session = session
        self._book = book
        self._opened = opened
        self._prefetch = prefetch
        self._spared = opened.slots - prefetch - SPARE
        self._timeout_s = timeout_s
        self._run = 0
        self._share: HostShare | None = None
        self._whole = False
        self._place = (0, 0)
        self._announced = (0, 0)
        self._credits = 0
        self._kept = 0
        self._taken_at = -QUICK_S
        self._queue: deque[Ready | StokerError] = deque()
        self._checked: list[Placed] | None = None
        self._generations: dict[int, int] = {}
        self._steps = steps_of(opened)
        self._samples: int = opened.spec["dataset_rows"]
        self._ragged = ragged_outputs(opened.outputs)
        self._plain = not self._ragged and not any(output_forms.is_apart(o) for o in opened.outputs)
        self.crashed = crashed
        self.params: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        self.digests: dict[tuple[int, int], bytes] = {}
        self._verifier = verifier
        meta = [Output(name, dtype, ()) for name, dtype in META]
        self._outputs = {output.name: output for output in (*opened.outputs, *meta)}

    def aim(self, epoch: int, step: int, share: HostShare | None) -> None:
        """Begin to prefetch from a place on, unless that is where this delivery is.

        Args:
            epoch: of the place.
            step: of the place.
            share: which batches are delivered, if several daemons make them; None: all.
        """
        changed = share is not self._share
        self._share = share
        place = (epoch, step) if share is None else share.first(epoch, step, self._steps)
        if changed or not self._whole or self._place != place:
            self._seek(*place)

    @property
    def place(self) -> tuple[int, int]:
        """(epoch, step) of the next batch to take."""
        return self._place

    def following(self, epoch: int, step: int) -> tuple[int, int]:
        """Return the place after a place, of those that are delivered here."""
        after = (epoch, step + 1) if step + 1 < self._steps(epoch) else (epoch + 1, 0)
        return after if self._share is None else self._share.first(*after, self._steps)

    def is_there(self, epoch: int, step: int) -> bool:
        """Return whether that batch is announced and can be taken; errors are left to `take`."""
        if not self._whole or self._place != (epoch, step):
            return False
        self._whole = False
        try:
            self._session.poll()
            self._read_inbox()
        except StokerError as error:
            self._queue.append(error)
        self._whole = True
        return bool(self._queue) and isinstance(self._queue[0], Ready)

    def take(self, epoch: int, step: int) -> dict[str, np.ndarray]:
        """Return the outputs of the batch at a place as plain arrays; waits for it.

        Outputs that are not plain arrays (boxes, rows that differ in shape) come in parts, which
        `whole` puts together.

        Raises:
            StokerError: the stream stopped there; the daemon sent the error.
            DaemonLostError: the daemon went away.
            PeerError: nothing arrived in time, or the daemon broke the protocol.
            CorruptBatchError: the batch is not what its workers wrote.
        """
        if not self._whole or self._place != (epoch, step):
            self._seek(epoch, step)
        self._whole = False  # until this is done: see the module docstring
        if not self._queue:
            self._session.poll()
            self._read_inbox()
        if not self._queue:
            self._wait()
        item = self._queue[0]
        if isinstance(item, StokerError):
            self._queue.popleft()
            raise item
        if self._verifier is not None:
            self.digests[epoch, step] = self._verifier.check(item)
        arrays = self._book.take(item.slot, item.generation, item.outputs)
        if self._opened.drawn:
            self.params[epoch, step] = read_params(self._opened.drawn, arrays.pop(PARAMS))
        if not self._plain:
            arrays = output_forms.flatten(flatten(arrays, self._ragged), self._opened.outputs)
        self._queue.popleft()
        self._place = self.following(epoch, step)
        self._grant()
        self._whole = True
        return arrays

    def whole(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Put the parts together in the result of `take`, or in tensors made from it."""
        if self._plain:
            return dict(arrays)
        return output_forms.gather(gather(arrays, self._ragged), self._opened.outputs)

    def release(self) -> None:
        """Return the slots whose arrays died."""
        self._flush()

    def _grant(self) -> None:
        """Grant a credit for the batch taken, unless it can wait for the next credit."""
        now = time.monotonic()
        quick, self._taken_at = now - self._taken_at < QUICK_S, now
        self._kept += 1
        if quick and self._queue and 2 * self._kept < self._prefetch:
            return
        kept, self._kept = self._kept, 0
        self._credits += kept
        self._flush(Credit(self._run, kept))

    def _seek(self, epoch: int, step: int) -> None:
        self._whole = False
        for item in self._queue:
            if isinstance(item, Ready):
                self._book.refuse(item.slot, item.generation)
        self._queue.clear()
        self.params.clear()
        self.digests.clear()
        if self._verifier is not None:
            self._verifier.begin(epoch, step)
        self._run += 1
        self._place = self._announced = (epoch, step)
        self._credits, self._kept = self._prefetch, 0
        crashed = crashed_before(self.crashed, (epoch, step))
        share = self._share
        hosts, host = ([], 0) if share is None else (list(share.hosts), share.host)
        seek = Seek(self._run, epoch, step, crashed, hosts, host)
        self._flush(seek, Credit(self._run, self._prefetch))
        self._whole = True

    def _flush(self, *records: ClientRecord) -> None:
        free = self._book.free_slots()
        releases = [
            Release(free[first : first + MAX_RELEASES])
            for first in range(0, len(free), MAX_RELEASES)
        ]
        if releases or records:
            self._session.send(*releases, *records)
            self._book.forget_free(len(free))

    def _wait(self) -> None:
        begin = time.monotonic()
        self.waits += 1
        try:
            while not self._queue:
                if self._book.owed > self._spared:
                    self._flush()  # with the slots of void announcements: the daemon may need them
                self._session.receive(begin + self._timeout_s)
                self._read_inbox()
        finally:
            self.wait_s += time.monotonic() - begin

    def _read_inbox(self) -> None:
        """Handle all records in the inbox; each stays in it until it has been handled."""
        inbox = self._session.inbox
        while inbox:
            try:
                self._deal_with(inbox[0])
            except StokerError:
                inbox.popleft()
                raise
            inbox.popleft()

    def _deal_with(self, record: DaemonRecord) -> None:
        if isinstance(record, Ready):
            self._announce(record)
        elif isinstance(record, Error) and record.run is not None:
            if record.run == self._run:
                self._queue.append(from_record(record.code, record.message, record.details))
        else:
            self._session.handle_record(record)  # raises an Error unless it is outdated
            if not isinstance(record, Bye | Status | Error):
                raise ProtocolError(f"unexpected record {type(record).__name__} in an open stream")

    def _announce(self, ready: Ready) -> None:
        if ready.run != self._run:
            self._book.refuse(ready.slot, ready.generation)
            return
        try:
            self._check_order(ready)
            self._check_slot(ready)
            if ready.outputs != self._checked:
                self._check_outputs(ready)
                self._checked = ready.outputs
            if self._verifier is not None:
                self._verifier.announced(ready)
        except BaseException:
            self._book.refuse(ready.slot, ready.generation)
            raise
        self._generations[ready.slot] = ready.generation
        for number in ready.crashed:
            since = self.crashed.get(number, self._announced)
            self.crashed[number] = min(since, self._announced)
        self._announced = self.following(*self._announced)
        self._credits -= 1
        self._queue.append(ready)

    def _check_order(self, ready: Ready) -> None:
        if (ready.epoch, ready.step) != self._announced:
            raise ProtocolError(
                f"expected the batch of (epoch, step) {self._announced}, but the daemon announced "
                f"{(ready.epoch, ready.step)}"
            )
        if ready.stream != self._opened.stream:
            raise ProtocolError(
                f"expected a batch of stream {self._opened.stream}, got one of {ready.stream}"
            )
        if any(number >= self._samples for number in ready.crashed):
            raise ProtocolError(
                f"expected ids of crashed samples below {self._samples}, got {ready.crashed}"
            )
        if self._credits < 1:
            raise ProtocolError("the daemon announced a batch without a credit")

    def _check_slot(self, ready: Ready) -> None:
        if ready.slab != self._opened.slab or ready.slot >= self._book.slab.slots:
            raise ProtocolError(
                f"expected slots 0 to {self._book.slab.slots - 1} of slab {self._opened.slab}, got "
                f"slot {ready.slot} of slab {ready.slab}"
            )
        newest = self._generations.get(ready.slot, -1)
        if ready.generation <= newest:
            raise ProtocolError(
                f"slot {ready.slot}: expected a generation above {newest}, got {ready.generation}"
            )
        if self._book.holds(ready.slot):
            raise ProtocolError(f"the daemon announced slot {ready.slot}, which is still leased")

    def _check_outputs(self, ready: Ready) -> None:
        names = {placed.name for placed in ready.outputs}
        if names != set(self._outputs) or len(names) != len(ready.outputs):
            raise ProtocolError(
                f"expected the outputs {sorted(self._outputs)}, got {sorted(names)}"
            )
        if self._opened.drawn:
            _check_params(ready, self._opened.drawn)
        for placed in ready.outputs:
            if placed.dtype not in DTYPES or placed.shape[:1] != (ready.rows,):
                raise ProtocolError(
                    f"output {placed.name!r}: expected {ready.rows} rows of a known dtype, got "
                    f"{placed.dtype} {placed.shape}"
                )
            _check_shape(placed, self._outputs[placed.name])
            end = placed.offset + placed.size_bytes
            if placed.offset % ALIGN or end > self._opened.slot_bytes:
                raise ProtocolError(
                    f"output {placed.name!r}: expected an offset that is a multiple of {ALIGN}, "
                    f"and an end within the slot of {self._opened.slot_bytes} bytes, got "
                    f"{placed.offset} to {end}"
                )


def crashed_before(crashed: Mapping[int, tuple[int, int]], place: tuple[int, int]) -> list[int]:
    """Return the samples that were already replaced before a place, ascending."""
    return sorted(number for number, since in crashed.items() if since < place)


def forget_from(crashed: dict[int, tuple[int, int]], place: tuple[int, int]) -> None:
    """Forget samples that are known to be replaced only from a place on."""
    for number in [number for number, since in crashed.items() if since >= place]:
        del crashed[number]


def _check_shape(placed: Placed, output: Output) -> None:
    """Check that rows have the shape from OPENED, except for the sides that READY sets."""
    shape = placed.shape[1:]
    if placed.dtype != output.dtype or not output.has_room(shape):
        shorter = output.varies
        raise ProtocolError(
            f"output {placed.name!r}: expected rows of {output.dtype} {output.shape}, of which the "
            f"sides {shorter} may be shorter, got {placed.dtype} {shape}"
        )


def _check_params(ready: Ready, drawn: Sequence[Drawn]) -> None:
    """Check that the draw records are in an output of bytes that has room for them."""
    placed = next((placed for placed in ready.outputs if placed.name == PARAMS), None)
    if placed is None or placed.dtype != "uint8" or len(placed.shape) != 2:
        raise ProtocolError(
            f"expected an output {PARAMS!r} of bytes for each row, got "
            f"{placed and (placed.dtype, placed.shape)}"
        )
    check_drawn(drawn, placed.shape[1])
