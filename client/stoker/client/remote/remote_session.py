"""A session with a daemon on another host: records over ZeroMQ, batches over a carrier.

READY comes on the carrier with the bytes of its batch, and so does the ERROR that ends a run, in
the order of the announcements. When a batch is complete in the ring, its READY goes into the inbox
with the slot and generation of the ring, and everything after it works as on the daemon's host. A
READY may also be a record of its own; then its batch waits for it. The daemon releases its slots
itself, so a RELEASE only returns slots of the ring.

Other records overtake batches, except BYE: the daemon ends the carrier after it, and until then
batches may arrive that it announced before.

The ring has `prefetch` slots more than the session may use at the daemon. So one is free for each
batch that can be on its way, and the reading thread never keeps the daemon waiting.
"""

import os
import select
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
import zmq

from stoker.client.client_session import ClientSession
from stoker.client.progress import PipelineWait
from stoker.client.remote.carrier_receiver import Carrier, File, ReceivedBatch, connect
from stoker.client.remote.loader_keys import Keys
from stoker.client.remote.ring import Ring
from stoker.client.remote.watch import SocketWatch
from stoker.protocol.errors import ProtocolError, from_record
from stoker.protocol.messages import (
    Attached,
    Bye,
    ClientRecord,
    DaemonRecord,
    Error,
    Open,
    Opened,
    Ready,
    Release,
    Slab,
    Welcome,
)
from stoker.protocol.remote.tcp import (
    KEEPALIVE_IDLE_S,
    KEEPALIVE_INTERVAL_S,
    KEEPALIVE_PROBES,
    LINK_TIMEOUT_S,
    MAX_FRAME_BYTES,
    SCHEME,
    TcpAddress,
    tcp_address,
)

if TYPE_CHECKING:
    from stoker.protocol.remote.tls import Identity


END_S = 0.25
"""Seconds that an error about the session waits for the report that its carrier has ended."""


class RemoteSession(ClientSession):
    """An open session with a daemon at `tcp://host:port`."""

    own_memory = True

    def __init__(
        self, address: str, connect_timeout_s: float, keys: Keys | None = None, name: str = ""
    ) -> None:
        """Connect as `ClientSession` does, with keys if there are any.

        Raises:
            AccessError: the keys do not fit.
            StokerError: as in `ClientSession`.
        """
        self._keys = keys
        self._identity: Identity | None = None
        if keys is not None:
            from stoker.protocol.remote.tls import make_identity  # noqa: PLC0415 - 90 ms

            self._identity = make_identity("stoker client")
            self._certificate = self._identity.certificate
        super().__init__(address, connect_timeout_s, name)

    def _connect_side(self, timeout_s: float, deadline: float) -> None:
        self._where: TcpAddress = tcp_address(self.address)
        self._announced: deque[Ready] = deque()
        self._carried: deque[ReceivedBatch | Error] = deque()
        self._last: deque[DaemonRecord] = deque()
        self._slab: Slab | None = None
        self._ring: Ring | None = None
        self._side = Carrier(connect(self._where, timeout_s), self._where)

    def _connect_dealer(self) -> None:
        self._dealer = self._context.socket(zmq.DEALER)
        for option, value in (
            (zmq.IPV6, int(":" in self._where.host)),
            (zmq.TCP_KEEPALIVE, 1),
            (zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S),
            (zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_S),
            (zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_PROBES),
            (zmq.TCP_MAXRT, LINK_TIMEOUT_S * 1000),
        ):
            self._dealer.setsockopt(option, value)
        if self._keys is not None:
            self._dealer.setsockopt(zmq.CURVE_SERVERKEY, self._keys.daemon)
            self._dealer.setsockopt(zmq.CURVE_PUBLICKEY, self._keys.public)
            self._dealer.setsockopt(zmq.CURVE_SECRETKEY, self._keys.secret)
        self._watch = SocketWatch(self._dealer, self.address, self._keys)
        self._start_dealer()
        self._poller.register(self._watch.socket, zmq.POLLIN)

    def _check_listener(self, deadline: float) -> None:
        """Do nothing: the kernel cannot say whose process listens on another host."""

    def _close_side(self) -> None:
        self._side.close()

    def _attach(self, welcome: Welcome, deadline: float) -> None:
        if self._identity is not None:
            if not welcome.certificate:
                raise ProtocolError(
                    f"the daemon at {self.address} sent no certificate for its batches, although it"
                    " has keys; is it a daemon of Stoker?"
                )
            self._side.protect(self._identity, welcome.certificate, deadline)
        try:
            self._side.attach(self._token)
        finally:
            self._side.start()  # it reads why the daemon refused

    def open_stream(
        self, record: Open, timeout_s: float, progress: PipelineWait | None = None
    ) -> tuple[Opened, int, Slab]:
        """Open a stream; return OPENED, the descriptor of a ring for its batches, and SLAB of it.

        Raises:
            StokerError: as in `ClientSession.open_stream`.
            ResourceError: this host has not enough memory for the ring.
        """
        opened, descriptor, slab = super().open_stream(record, timeout_s, progress)
        os.close(descriptor)
        if (opened.slab, opened.slot_bytes) != (slab.slab, slab.slot_bytes):
            raise ProtocolError(f"expected the same slab in OPENED and SLAB, got {slab}")
        slots = opened.slots + (opened.prefetch or record.delivery.prefetch)
        self._ring = Ring(slots, slab.slot_bytes)
        self._slab = slab
        self._side.use(self._ring)
        own = os.dup(self._ring.descriptor)
        return opened, own, Slab(slab.slab, slots, slab.slot_bytes, writable=True)

    def send(self, *records: ClientRecord) -> None:
        """Send records as one message; slots of the ring are returned here.

        Raises:
            StokerError: as in `ClientSession.send`.
        """
        rest = []
        for record in records:
            if isinstance(record, Release) and self._ring is not None:
                self._ring.release(record.slots)
            else:
                rest.append(record)
        if rest:
            super().send(*rest)

    def _send_message(self, data: bytes) -> None:
        if len(data) <= MAX_FRAME_BYTES:
            super()._send_message(data)
        else:
            parts = range(0, len(data), MAX_FRAME_BYTES)
            self._dealer.send_multipart(
                [data[start : start + MAX_FRAME_BYTES] for start in parts], zmq.NOBLOCK
            )

    def poll(self) -> None:
        """Move what is complete into the inbox, without waiting; records wait for batches."""
        self._check_usable()
        if self._side.has_arrived():
            self._read_side()
            if self._match():
                return
        if self._lost is None and self._watch.check() and self._token:
            self._lost = "the connection for messages was cut"
        super().poll()
        self._match()
        if self._last and self._lost is not None:
            self.inbox.extend(self._last)
            self._last.clear()

    def _admit(self, records: Iterable[DaemonRecord]) -> None:
        for record in records:
            if isinstance(record, Ready):
                self._announced.append(record)
            elif self._last or (isinstance(record, Bye) and self._ring is not None):
                self._last.append(record)
            else:
                self.inbox.append(record)

    def _is_lost(self) -> bool:
        """Return whether the daemon ended this session; waits a moment for the end of the carrier.

        A daemon that lost the carrier answers the next message with an error, which may come before
        the reading thread has met the end.
        """
        deadline, news = time.monotonic() + END_S, select.poll()
        news.register(self._side.fileno(), select.POLLIN)
        while not super()._is_lost() and (left_s := deadline - time.monotonic()) > 0:
            news.poll(left_s * 1000)
        return self._lost is not None

    def _match(self) -> bool:
        """Move what the carrier brought into the inbox, in order; return whether there was any."""
        before = len(self.inbox)
        while self._carried:
            item = self._carried[0]
            if isinstance(item, ReceivedBatch):
                ready = item.carried.ready
                if ready is None:
                    if not self._announced:
                        break
                    ready = self._announced.popleft()
                record: DaemonRecord = self._in_ring(ready, item)
            else:
                record = item
            self.inbox.append(record)
            self._carried.popleft()
        return len(self.inbox) > before

    def _in_ring(self, ready: Ready, batch: ReceivedBatch) -> Ready:
        said = max((placed.offset + placed.size_bytes for placed in ready.outputs), default=0)
        expected = ready.slab, ready.slot, ready.generation, said
        carried = batch.carried
        got = carried.slab, carried.slot, carried.generation, carried.size_bytes
        if got != expected or self._ring is None:
            raise ProtocolError(
                f"expected the batch of (slab, slot, generation, bytes) {expected} on the carrier,"
                f" got {got}"
            )
        generation = self._ring.generation(batch.slot)
        return msgspec.structs.replace(ready, slot=batch.slot, generation=generation)

    def _read_side(self) -> None:
        for item in self._side.arrived():
            if isinstance(item, ReceivedBatch) or (
                isinstance(item, Error) and item.run is not None
            ):
                self._carried.append(item)
            elif isinstance(item, Attached):
                self._attached = True
            elif isinstance(item, Slab):
                self._slabs.append((item, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)))
            elif isinstance(item, File):
                self._take_file(item)
            elif isinstance(item, Error):
                raise from_record(item.code, item.message, item.details)
            elif item.error is not None:
                self._lost = item.reason
                raise item.error
            else:
                self._lost = item.reason
                self._await_last_words()

    def _take_file(self, item: File) -> None:
        if item.record.request == self._awaited and self._replay is None:
            self._replay = item
        else:
            os.close(item.descriptor)


def session_at(address: str, timeout_s: float, keys: Keys | None, name: str) -> ClientSession:
    """Return a session with the daemon at an address, over the network or on this host.

    Raises:
        StokerError: as of `RemoteSession` and `ClientSession`.
    """
    if address.startswith(SCHEME):
        return RemoteSession(address, timeout_s, keys, name)
    return ClientSession(address, timeout_s, name)
