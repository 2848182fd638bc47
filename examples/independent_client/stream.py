"""Batches from a daemon of Stoker, with pyzmq, msgpack and the page docs/protocol.md alone.

Nothing of the package `stoker` is imported: this file shows what a client in another language has
to do. It opens one stream, maps its memory, and yields batches in order. A batch is valid until the
next one is requested; then its slot goes back to the daemon. All functions run in the caller's
thread.

Limits: one rank or a cut of a job; no replays, buckets, subsets or draw records; wire version 1.
"""

import contextlib
import fcntl
import math
import mmap
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack
import zmq

WIRE = 1
TIMEOUT_S = 600.0  # of each wait; the daemon may have to compile the pipeline
ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2,
    "uint32": 4, "int32": 4, "float32": 4, "uint64": 8, "int64": 8, "float64": 8,
}  # fmt: skip
F_SEAL_SHRINK = 0x0002
PACKET_BYTES = 1 << 16


class StreamError(Exception):
    """The daemon refused a request, broke the protocol, or went away.

    Attributes:
        code: the daemon's error code (docs/protocol.md, "Errors"), or `peer`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class Array:
    """One output of a batch: row-major, little-endian items in the daemon's memory.

    NumPy reads it as `np.frombuffer(array.memory, array.dtype).reshape(array.shape)`.
    """

    dtype: str
    shape: tuple[int, ...]
    memory: memoryview


@dataclass(frozen=True)
class Batch:
    """The rows of one step: output name -> array, with `index`, `requested` and `valid` last."""

    epoch: int
    step: int
    arrays: dict[str, Array]


class Stream:
    """One open stream. Close it, or use it in a `with` statement.

    Attributes:
        spec: the StreamSpec, everything that decides the bytes of the stream.
        stream_id: its hash.
        steps: batches in an epoch.
    """

    def __init__(
        self,
        address: str,
        *,
        dataset: str = "",
        pipeline: str,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        cut: tuple[int, int] = (0, 1),
        prefetch: int = 4,
    ) -> None:
        """Connect, greet, attach the side socket, open the stream and map its memory.

        Args:
            address: of the daemon, `ipc:///dir/stoker.sock`.
            dataset: its name at the daemon; may be empty if the daemon has one.
            pipeline: its name at the daemon.
            batch_size: rows of the global batch, over all ranks.
            seed: of the stream.
            shuffle: whether each epoch has its own order.
            cut: (rank, number of ranks): which part of each global batch.
            prefetch: batches that the daemon computes ahead.

        Raises:
            StreamError: the daemon refuses; the code and message are the daemon's.
            OSError: no daemon listens at the address.
        """
        if not address.startswith("ipc:///"):
            raise ValueError(f"expected an address such as ipc:///dir/stoker.sock, got {address!r}")
        self._prefetch = prefetch
        self._token, self._run, self._next = b"", 0, (-1, -1)
        self._inbox: deque[list[Any]] = deque()
        self._descriptor: int | None = None
        self._undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            path = address.removeprefix("ipc://")
            self._side = undo.enter_context(_connect(path + ".fd", socket.SOCK_SEQPACKET))
            with _connect(path, socket.SOCK_STREAM):
                pass  # checked that its listener is the same user
            self._context = undo.enter_context(zmq.Context())
            self._dealer = undo.enter_context(self._context.socket(zmq.DEALER))
            self._dealer.linger = 200  # milliseconds for CLOSE to leave
            self._dealer.connect(address)
            self._poller = zmq.Poller()
            self._poller.register(self._dealer, zmq.POLLIN)
            self._poller.register(self._side.fileno(), zmq.POLLIN)
            undo.callback(self._drop_descriptor)

            self._send(["hello", WIRE, WIRE, "independent client"])
            self._token = self._receive("welcome")[2]
            self._side.send(msgpack.packb(["attach", self._token]))
            self._receive("attached")
            undo.callback(self._say_close)
            stream = {
                "sources": [{"dataset": dataset, "pipeline": pipeline}],
                "batch": {"positions": batch_size},
                "order": {"shuffle": shuffle},
                "draws": {"seed": seed},
            }
            delivery = {"prefetch": prefetch, "leases": 1}
            self._send(["open", 1, stream, delivery, *cut])
            opened = self._receive("opened")
            self.spec, self.stream_id, self.steps, self._rows = opened[2:6]
            self._slots, self._slot_bytes, self._outputs = opened[8:11]
            self._memory = memoryview(self._map())
            self._undo = undo.pop_all()

    def __enter__(self) -> "Stream":
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the session. The memory stays mapped until the last array in it dies."""
        self._undo.close()
        self._memory = memoryview(b"")

    def epoch(self, epoch: int, step: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch from a step on; each is valid until the next.

        Raises:
            StreamError: the stream stopped, or the daemon went away.
        """
        if (epoch, step) != self._next:
            self._seek(epoch, step)
        while step < self.steps:
            ready = self._receive("ready")
            _, run, stream, *place, _, slot, generation, rows, outputs = ready[:10]
            give_back = ["release", [[slot, generation]]]
            if run != self._run:
                self._send(give_back)  # of an earlier seek
                continue
            if (stream, place, rows) != (self.stream_id, [epoch, step], self._rows):
                raise StreamError(
                    "peer", f"expected epoch {epoch}, step {step}, got {ready[2:5]} of {rows} rows"
                )
            step += 1
            self._next = (epoch, step) if step < self.steps else (epoch + 1, 0)
            arrays = self._arrays(slot, outputs)
            try:
                yield Batch(epoch, step - 1, arrays)
            finally:
                self._send(give_back, ["credit", self._run, 1])

    def _seek(self, epoch: int, step: int) -> None:
        self._run += 1
        self._send(["seek", self._run, epoch, step, []], ["credit", self._run, self._prefetch])

    def _arrays(self, slot: int, outputs: list[Any]) -> dict[str, Array]:
        """Return the outputs of a slot; everything is checked before it is used."""
        expected = [output[0] for output in self._outputs] + ["index", "requested", "valid"]
        if [output[0] for output in outputs] != expected or slot >= self._slots:
            raise StreamError("peer", f"expected the outputs {expected}, got {outputs}")
        arrays = {}
        for name, dtype, shape, offset in outputs:
            end = offset + math.prod(shape) * ITEM_BYTES[dtype]
            if shape[0] != self._rows or not 0 <= offset <= end <= self._slot_bytes:
                raise StreamError(
                    "peer", f"output {name!r} is not in its slot: {shape} at {offset}"
                )
            begin = slot * self._slot_bytes
            memory = self._memory[begin + offset : begin + end]
            arrays[name] = Array(dtype, tuple(shape), memory)
        return arrays

    def _map(self) -> mmap.mmap:
        """Map the slab, whose descriptor comes on the side socket, before or after `opened`."""
        if self._descriptor is None:
            self._receive("slab")
        assert self._descriptor is not None
        size = self._slots * self._slot_bytes
        seals = fcntl.fcntl(self._descriptor, fcntl.F_GET_SEALS)
        if os.fstat(self._descriptor).st_size < size or not seals & F_SEAL_SHRINK:
            raise StreamError("peer", f"expected {size} bytes of memory that cannot shrink")
        memory = mmap.mmap(self._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
        memory.madvise(mmap.MADV_DONTFORK)
        return memory

    def _say_close(self) -> None:
        with contextlib.suppress(zmq.ZMQError):
            self._send(["close"])

    def _drop_descriptor(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _send(self, *records: list[Any]) -> None:
        self._dealer.send(msgpack.packb([WIRE, self._token, records]), zmq.NOBLOCK)

    def _receive(self, tag: str) -> list[Any]:
        """Wait for a record with a tag; raise the daemon's errors."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            while self._inbox:
                record = self._inbox.popleft()
                if record[0] == tag:
                    return record
                if record[0] == "error":
                    _, _, code, message, _, run = record[:6]
                    if run in (None, self._run):
                        raise StreamError(code, message)
                elif record[0] == "bye":
                    raise StreamError("daemon_lost", f"the daemon shut down: {record[1]}")
            left_ms = math.ceil((deadline - time.monotonic()) * 1000)
            events = dict(self._poller.poll(left_ms)) if left_ms > 0 else {}
            if not events:
                raise StreamError("peer", f"expected {tag!r} within {TIMEOUT_S:g} s")
            if self._dealer in events:
                message = msgpack.unpackb(self._dealer.recv(), strict_map_key=False)
                self._inbox.extend(message[2])
            elif self._side.fileno() in events:
                self._read_side()

    def _read_side(self) -> None:
        data, descriptors, _, _ = socket.recv_fds(
            self._side, PACKET_BYTES, 1, socket.MSG_CMSG_CLOEXEC
        )
        if not data:
            raise StreamError("daemon_lost", "the daemon closed the connection")
        record = msgpack.unpackb(data)
        if descriptors:
            self._drop_descriptor()
            self._descriptor = descriptors[0]
        self._inbox.append(record)


def _connect(path: str, kind: socket.SocketKind) -> socket.socket:
    """Connect a Unix socket and check who listens: this user, or root."""
    sock = socket.socket(socket.AF_UNIX, kind)
    try:
        sock.connect(path)
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        user = struct.unpack("3i", raw)[1]
        if user not in (0, os.geteuid()):
            raise StreamError("peer", f"user {user} listens at {path}, not this user or root")
    except BaseException:
        sock.close()
        raise
    return sock
