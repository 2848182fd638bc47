"""A daemon in a thread, real in all that a client can see: ROUTER, side socket, sealed memfd.

It computes nothing: a batch's bytes are a formula of (epoch, step), so a test knows them. A slot
that goes free is poisoned at once, so a client that reads memory it gave back is found out. Its
faults are set by assigning to the hooks: `answer_open`, `alter_ready`, `mute`, `wire`.
"""

import contextlib
import fcntl
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np
import zmq

from stoker.protocol import messages as m
from stoker.protocol.codec import decode_from_client, decode_packet, encode, encode_packet
from stoker.protocol.descriptors import receive_packet, send_packet
from stoker.protocol.draw_records import Drawn
from stoker.protocol.remote.shares import HostShare
from stoker.protocol.slot_layout import Output, SlotLayout, slot_layout
from stoker.protocol.spec import OrderSpec, StreamSpec

POISON = 0xEE
DEADLINE_S = 20.0
OUTPUTS = (Output("image", "uint8", (32, 48, 3), "image"), Output("label", "int64", (), "label"))


def content(layout: SlotLayout, epoch: int, step: int) -> dict[str, np.ndarray]:
    """The arrays of a batch."""
    arrays = {}
    for number, placed in enumerate(layout.outputs):
        values = (np.arange(251) * 7 + (epoch * 101 + step * 13 + number) % 251) % 251
        values = values % 2 if placed.dtype == "bool" else values
        arrays[placed.name] = np.resize(values.astype(placed.dtype), placed.shape)
    return arrays


class FakeDaemon:
    def __init__(self, folder: Path, *, steps: int = 5, rows: int = 16, spare: int = 1) -> None:
        self.address = f"ipc://{folder}/stoker.sock"
        self.path = f"{folder}/stoker.sock"
        self.steps = steps
        self.rows = rows
        self.spare = spare
        self.outputs: tuple[Output, ...] = OUTPUTS
        self.drawn: list[Drawn] = []
        self.answer_replay: Callable[[m.AskReplay], tuple[m.Record, int | None]] | None = None
        self.chosen = 0
        self.traits = {"crash_policy": "raise", "integrity": "auto"}
        self.writable = True
        self.polite = False
        self.dataset_rows = 83
        self.wire = 1
        self.mute: set[type] = set()
        self.answer_open: Callable[[m.Open], list[m.Record] | None] = lambda record: None
        self.alter_ready: Callable[[m.Ready], list[m.Record | bytes]] = lambda ready: [ready]
        self.received: list[m.Record] = []
        self.messages = 0
        self.attached = 0
        self.ended = 0
        self.failure: BaseException | None = None
        self._changed = threading.Condition()
        self._run, self._credits = 0, 0
        self._token = b"t" * 16
        self._slab = -1
        self._sides: list[socket.socket] = []
        self._peer = b""
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.bind(self.address)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path + ".fd")
        self._listener.listen()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._commands: list[Callable[[], None]] = []
        self._running = True
        self._over = False
        self._thread = threading.Thread(target=self._serve, name="fake-daemon")
        self._thread.start()

    # ------------------------------------------------------------ for tests

    def of(self, kind: type) -> list:
        return [record for record in self.received if isinstance(record, kind)]

    def wait_for(self, happened: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(happened, DEADLINE_S), self.received

    def do(self, command: Callable[[], None]) -> None:
        """Run something in the daemon's thread, and wait for it."""
        done = threading.Event()
        with self._changed:
            if self._over:
                return
            self._commands.append(lambda: (command(), done.set()))
        self._wake_writer.send(b".")
        assert done.wait(DEADLINE_S)

    def die(self) -> None:
        """End as a killed process does."""
        self.do(lambda: setattr(self, "_running", False))
        self._thread.join(DEADLINE_S)

    def say(self, *records: m.Record) -> None:
        self.do(lambda: self._send(*records))

    def close(self) -> None:
        if self._running:
            self.die()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        self._wake_reader.close()
        self._wake_writer.close()
        for path in (self.path, self.path + ".fd"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        if self.failure is not None:
            raise self.failure

    @property
    def free(self) -> list[int]:
        return self._free

    def batch(self, epoch: int, step: int) -> dict[str, np.ndarray]:
        return content(self._layout, epoch, step)

    # ------------------------------------------------------------ the thread

    def _serve(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            self.failure = error
        finally:
            with self._changed:
                self._running, self._over = False, True
                for command in self._commands:
                    command()
            self._router.close(linger=200 if self.polite else 0)
            self._listener.close()
            for side in self._sides:
                side.close()
            self._context.term()
            if self._slab >= 0:
                os.close(self._slab)

    def _loop(self) -> None:
        poller = zmq.Poller()
        for thing in (self._router, self._listener.fileno(), self._wake_reader.fileno()):
            poller.register(thing, zmq.POLLIN)
        while self._running:
            ready = dict(poller.poll(DEADLINE_S * 1000))
            if self._wake_reader.fileno() in ready:
                for _ in self._wake_reader.recv(4096):
                    self._commands.pop(0)()
                continue
            if self._listener.fileno() in ready:
                side, _ = self._listener.accept()
                self._sides.append(side)
                poller.register(side.fileno(), zmq.POLLIN)
            for side in list(self._sides):
                if side.fileno() in ready:
                    self._read_side(side, poller)
            if self._router in ready:
                self._read_message()
            with self._changed:
                self._changed.notify_all()

    def _read_side(self, side: socket.socket, poller: zmq.Poller) -> None:
        try:
            data, _ = receive_packet(side)
        except ConnectionError:  # it left without having read everything
            data = b""
        if not data:
            poller.unregister(side.fileno())
            self._sides.remove(side)
            side.close()
            self.ended += 1
            return
        record = decode_packet(data)
        assert isinstance(record, m.Attach)
        assert record.token == self._token
        self.received.append(record)
        if m.Attach not in self.mute:
            self.attached += 1
            send_packet(side, encode_packet(m.Attached()))

    def _read_message(self) -> None:
        self._peer, data = self._router.recv_multipart()
        _, records = decode_from_client(data)
        self.messages += 1
        for record in records:
            self.received.append(record)
            if type(record) not in self.mute:
                getattr(self, f"_{type(record).__name__.lower()}")(record)
        self._announce()

    def _send(self, *records: m.Record | bytes) -> None:
        for record in records:
            data = record if isinstance(record, bytes) else encode(self._token, [record])
            if self.wire != 1:
                data = msgpack.packb([self.wire, *msgpack.unpackb(data)[1:]])
            self._router.send_multipart([self._peer, data])

    def _hello(self, record: m.Hello) -> None:
        assert record.wire_min <= 1 <= record.wire_max
        self._send(m.Welcome(wire=1, token=self._token, daemon="fake"))

    def _open(self, record: m.Open) -> None:
        answer = self.answer_open(record)
        if answer is not None:
            self._send(*answer)
            return
        self._layout = slot_layout(self.outputs, self.rows)
        stream, delivery = record.stream, record.delivery
        self._slots = (self.chosen or delivery.prefetch) + delivery.leases + self.spare
        size = self._layout.slot_bytes * self._slots
        self._slab = os.memfd_create("fake-slab", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.posix_fallocate(self._slab, 0, size)
        fcntl.fcntl(
            self._slab,
            fcntl.F_ADD_SEALS,
            fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL,
        )
        self._free = list(range(self._slots - self.spare))
        self._generation = [0] * self._slots
        self._run, self._credits = 0, 0
        self.spec = StreamSpec(
            dataset="content:" + "a" * 32,
            dataset_rows=self.dataset_rows,
            pipeline="b" * 32,
            batch_size=stream.batch.positions,
            order=OrderSpec(shuffle=stream.order.shuffle),
            tail=stream.batch.tail,
            seed=stream.draws.seed,
            freeze=stream.draws.freeze,
            views=stream.batch.views,
            on_error=stream.batch.on_error,
        )
        self._send(
            m.Opened(
                request=record.request,
                spec=self.spec.to_data(),
                stream=self.spec.stream_id,
                steps=self.steps,
                rows=self.rows,
                first_row=0,
                slab=3,
                slots=self._slots,
                slot_bytes=self._layout.slot_bytes,
                outputs=list(self.outputs),
                drawn=self.drawn,
                prefetch=self.chosen,
                **self.traits,
            )
        )
        packet = m.Slab(3, self._slots, self._layout.slot_bytes, self.writable)
        slab = self._slab
        if not self.writable:
            slab = os.open(f"/proc/self/fd/{self._slab}", os.O_RDONLY)
        with contextlib.suppress(BrokenPipeError):  # it may have seen enough in OPENED
            send_packet(self._sides[-1], encode_packet(packet), slab)
        if not self.writable:
            os.close(slab)

    def _seek(self, record: m.Seek) -> None:
        assert record.run > self._run
        self._run, self._place = record.run, (record.epoch, record.step)
        self._credits = 0
        self._share = HostShare(record.hosts, record.host) if record.hosts else None

    def _credit(self, record: m.Credit) -> None:
        self._credits += record.batches if record.run == self._run else 0

    def _release(self, record: m.Release) -> None:
        for slot, generation in record.slots:
            self._set_free(slot, generation)

    def _set_free(self, slot: int, generation: int) -> None:
        if slot >= self._slots or slot in self._free:
            return
        if self._generation[slot] == generation:
            self._write(slot, 0, bytes([POISON]) * self._layout.slot_bytes)
            self._free.append(slot)

    def _askreplay(self, record: m.AskReplay) -> None:
        if self.answer_replay is not None:
            packet, descriptor = self.answer_replay(record)
            try:
                send_packet(self._sides[-1], encode_packet(packet), descriptor)
            finally:
                if descriptor is not None:
                    os.close(descriptor)

    def _close(self, record: m.Close) -> None:
        pass

    def _announce(self) -> None:
        while self._credits and self._free:
            slot = self._free.pop(0)
            self._generation[slot] += 1
            self._credits -= 1
            epoch, step = self._place
            arrays = self.batch(epoch, step)
            for placed in self._layout.outputs:
                self._write(slot, placed.offset, arrays[placed.name].tobytes())
            self._place = (epoch, step + 1) if step + 1 < self.steps else (epoch + 1, 0)
            if self._share is not None:
                self._place = self._share.first(*self._place, lambda epoch: self.steps)
            ready = m.Ready(
                run=self._run,
                stream=self.spec.stream_id,
                epoch=epoch,
                step=step,
                slab=3,
                slot=slot,
                generation=self._generation[slot],
                rows=self.rows,
                outputs=list(self._layout.outputs),
            )
            self._send(*self.alter_ready(ready))

    def _write(self, slot: int, offset: int, data: bytes) -> None:
        os.pwrite(self._slab, data, slot * self._layout.slot_bytes + offset)
