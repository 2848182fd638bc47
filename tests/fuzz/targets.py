"""What is fuzzed: functions of bytes that must never do anything but answer or refuse.

A target gets any bytes. It returns whether they were accepted. It raises only if a rule is broken:
another exception than the typed ones, a value that does not survive its own encoding, a bound that
does not hold. Targets keep nothing between calls, but what they prepare once.

A new target is a function here, with `@target`, and its first inputs are a function of the same
name in `seeds`. `corpus` holds the inputs that `tools/fuzz.py` found, guided by coverage.
"""

import io
import itertools
import os
import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgpack
import msgspec
import numpy as np
from PIL import Image

from stoker.client.remote.carrier import Carrier, Ended, File, ReceivedBatch
from stoker.client.remote.ring import Ring
from stoker.dataset import open_dataset, schema, write
from stoker.dataset.format.check import check_manifest
from stoker.dataset.format.manifest import read_manifest
from stoker.dataset.images.jpeg import grid as jpeg_grid
from stoker.dataset.images.jpeg.segments import UnindexableError, read_segments
from stoker.dataset.images.png import read_png_header
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.npy import read_array
from stoker.pipeline.graph.normal import pipeline_id
from stoker.protocol import codec, messages
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.cursor import Cursor
from stoker.protocol.errors import ConfigError, StokerError
from stoker.protocol.exclude import Excluded
from stoker.protocol.layout import check_outputs
from stoker.protocol.lengths import request_from_bytes
from stoker.protocol.mix import mix_from_bytes
from stoker.protocol.remote.keys import read_public
from stoker.protocol.replay import replay_from_bytes
from stoker.protocol.spec import StreamSpec
from stoker.protocol.splits import split_from_bytes
from stoker.protocol.subset import Subset
from stoker.protocol.weights import weights_from_bytes
from stoker.server.daemon import broker
from stoker.server.daemon.remote.half_open import HalfOpen
from stoker.server.rows.graphs import graph_from_bytes

RING_SLOT_BYTES: Final = 4096
MOST_RECORDS: Final = 64
TARGETS: Final[dict[str, Callable[[bytes], bool]]] = {}
_CLEANUP: Final[list[Callable[[], None]]] = []


def target(function: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
    """Register a target."""
    TARGETS[function.__name__] = function
    return function


def accepts(read: Callable[[Any], object], data: object, *refusals: type[Exception]) -> bool:
    """Whether a reader takes the data; it may refuse with typed errors only."""
    said = "accepted"
    try:
        read(data)
    except (StokerError, *refusals) as error:
        said = str(error)
    assert said, "a refusal says why"
    return said == "accepted"


# ---------------------------------------------------------------- the wire


@target
def message_of_a_client(data: bytes) -> bool:
    """A ZeroMQ message that the daemon receives."""
    if not accepts(broker._decode, data):
        return False
    token, records = broker._decode(data)
    again = codec.encode(token, records)
    assert repr(broker._decode(again)) == repr((token, records))
    return True


@target
def message_of_a_daemon(data: bytes) -> bool:
    """A ZeroMQ message that a client receives."""
    if not accepts(codec.decode_from_daemon, data):
        return False
    token, records = codec.decode_from_daemon(data)
    assert repr(codec.decode_from_daemon(codec.encode(token, records))) == repr((token, records))
    return True


@target
def packet(data: bytes) -> bool:
    """A packet of the side socket."""
    if not accepts(codec.decode_packet, data):
        return False
    record = codec.decode_packet(data)
    assert repr(codec.decode_packet(codec.encode_packet(record))) == repr(record)
    return True


class Connection:
    """A connection on which some bytes came, and then its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def recv(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        self._at += len(part)
        return part

    def recv_into(self, view: memoryview, count: int, flags: int) -> int:
        part = self.recv(count)
        view[: len(part)] = part
        return len(part)


@cache
def ring() -> Ring:
    made = Ring(2, RING_SLOT_BYTES)
    _CLEANUP.append(made.close)
    return made


@target
def carrier_of_a_client(data: bytes) -> bool:
    """The client's end of a carrier: batches go into the ring, never outside of it."""
    carrier = Carrier.__new__(Carrier)
    carrier._stream, carrier._ring = Connection(data), ring()  # type: ignore[assignment]
    found = 0
    try:
        while (item := carrier._receive()) is not None and found < MOST_RECORDS:
            assert not isinstance(item, Ended)
            if isinstance(item, File):
                os.close(item.descriptor)
            elif isinstance(item, ReceivedBatch):
                assert 1 <= item.carried.size_bytes <= RING_SLOT_BYTES
                ring().release([(item.slot, ring().generation(item.slot))])
            found += 1
    except (StokerError, OSError):
        _refill()
        return False
    return True


def _refill() -> None:
    """Return slots that were being filled when the connection ended."""
    ring().release([(slot, ring().generation(slot)) for slot in range(ring().slots)])


@target
def carrier_of_a_daemon(data: bytes) -> bool:
    """The daemon's end of a carrier until it is attached."""
    connection = HalfOpen(Connection(data), "host", 0.0, None)  # type: ignore[arg-type]
    for _ in range(3):
        try:
            assert len(connection.read_attach()) == 16
        except BlockingIOError:
            continue
        except (StokerError, OSError):
            return False
        return True
    return False


# ---------------------------------------------------------------- what records carry


def _msgpack(data: bytes) -> object:
    try:
        return msgpack.unpackb(data, strict_map_key=False, max_buffer_size=2**20)
    except Exception:  # of that library: not what is tested
        return None


def _json(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


@target
def spec(data: bytes) -> bool:
    """The StreamSpec in OPENED, from msgpack, or in a file, from JSON."""
    value = _json(data) or _msgpack(data)
    if not accepts(StreamSpec.from_data, value):
        return False
    made = StreamSpec.from_data(value)
    assert StreamSpec.from_data(made.to_data()).stream_id == made.stream_id
    return True


@target
def cursor(data: bytes) -> bool:
    """A cursor that a training loads, as JSON."""
    value = _json(data)
    if not accepts(Cursor.from_data, value):
        return False
    made = Cursor.from_data(value)
    assert Cursor.from_data(made.to_data()) == made
    return True


@target
def graph(data: bytes) -> bool:
    """A graph that a client sends."""
    if not accepts(graph_from_bytes, data):
        return False
    made = graph_from_bytes(data)
    assert len(pipeline_id(made)) == 32
    return True


@target
def exclude(data: bytes) -> bool:
    """An exclude list."""
    return accepts(Excluded.from_bytes, data)


@target
def subset(data: bytes) -> bool:
    """A subset, or the name of a split."""

    def read(data: bytes) -> None:
        if split_from_bytes(data) is None:
            Subset.from_bytes(data)

    return accepts(read, data)


@target
def weights(data: bytes) -> bool:
    """Weights of samples, of classes, or the name of a field."""
    return accepts(weights_from_bytes, data)


@target
def mix(data: bytes) -> bool:
    """The parts of a mixture."""
    return accepts(mix_from_bytes, data)


@target
def buckets(data: bytes) -> bool:
    """A request for buckets."""
    return accepts(request_from_bytes, data)


@target
def replay(data: bytes) -> bool:
    """The memory file of a replay."""
    return accepts(replay_from_bytes, data)


@target
def outputs(data: bytes) -> bool:
    """The outputs in OPENED, and the room that they take."""
    try:
        found = msgspec.msgpack.decode(data, type=tuple[messages.Output, ...])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False
    return accepts(check_outputs, found)


@target
def key(data: bytes) -> bool:
    """A public key as text."""
    return accepts(lambda text: read_public(text, "here"), data.decode("latin-1"), ConfigError)


# ---------------------------------------------------------------- datasets


@cache
def folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="stoker-fuzz-")
    _CLEANUP.append(made.cleanup)
    return Path(made.name)


def release() -> None:
    """Remove what targets prepared."""
    for clean_up in _CLEANUP:
        clean_up()
    _CLEANUP.clear()
    folder.cache_clear()
    packed.cache_clear()
    ring.cache_clear()


@target
def manifest(data: bytes) -> bool:
    """A dataset's manifest; its checksum is made right, so that what is behind it is reached."""
    value = _json(data)
    if isinstance(value, dict):
        value.pop("checksum", None)
        try:
            value["checksum"] = canonical_digest(value)
            data = msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError):
            pass
    (folder() / "manifest.json").write_bytes(data)

    def read(where: Path) -> None:
        check_manifest(where, read_manifest(where))

    return accepts(read, folder())


class Offsets(NamedTuple):
    """A packed dataset, and where its file has the offsets of items that differ in length."""

    path: Path
    file: Path
    extents: list[tuple[int, int]]

    def read(self) -> bytes:
        data = self.file.read_bytes()
        return b"".join(data[first : first + count] for first, count in self.extents)

    def overwrite(self, data: bytes) -> None:
        with self.file.open("r+b") as file:
            for first, count in self.extents:
                file.seek(first)
                file.write(data[:count])
                data = data[count:]


def with_offsets(path: Path) -> Offsets:
    """Pack images and arrays of several lengths."""
    rows = []
    for n in range(5):
        image = io.BytesIO()
        Image.new("RGB", (16 + n, 8)).save(image, "JPEG")
        rows.append({"image": image.getvalue(), "values": np.arange(n, dtype=np.float32)})
    write(path, [schema.image(), schema.array("values", "float32", (None,))], rows)
    (place,) = read_manifest(path).files
    extents = [c.offsets for c in place.columns.values() if c.offsets is not None]
    return Offsets(path, path / place.name, [(e.offset, e.length) for e in extents])


@cache
def packed() -> Offsets:
    return with_offsets(folder() / "packed")


@target
def arrow_offsets(data: bytes) -> bool:
    """Offsets in a packed file, which are checked when an item is read: never outside of it."""
    packed().overwrite(data.ljust(8, b"\0"))
    good = True
    with open_dataset(packed().path) as dataset:

        def read(place: tuple[str, int]) -> None:
            item = dataset.read(*place)
            assert memoryview(item).nbytes <= packed().file.stat().st_size  # type: ignore[arg-type]

        for place in itertools.product(("image", "values"), range(len(dataset))):
            good &= accepts(read, place)

        def lengths(field: str) -> None:
            found = np.concatenate(list(dataset.lengths(field)))
            assert found.min() >= 0
            assert found.max() <= packed().file.stat().st_size
            assert (dataset.sizes_of(field, np.arange(len(dataset)))[:, 0] == found).all()

        good &= accepts(lengths, "values")
    return good


@target
def npy(data: bytes) -> bool:
    """A .npy file that is packed."""
    return accepts(read_array, data, CodecError)


@target
def jpeg_segments(data: bytes) -> bool:
    """The segments of a JPEG that is rewritten with a grid."""
    return accepts(read_segments, data, CodecError, UnindexableError)


@target
def png(data: bytes) -> bool:
    """The header and chunks of a PNG."""
    return accepts(read_png_header, data, CodecError)


@target
def grid(data: bytes) -> bool:
    """The grid of a rewritten JPEG: whatever passes has only places inside of its file."""
    (size_bytes,) = struct.unpack("<I", data[:4].ljust(4, b"\0"))
    cells = np.frombuffer(data[4:], np.uint8)
    with np.errstate(over="ignore"):
        if _python(jpeg_grid.fault_of)(cells, size_bytes):
            return False
    offsets = np.frombuffer(data[4 + jpeg_grid.HEAD_BYTES :], "<u4").astype(np.int64)
    assert (np.diff(offsets) >= 2).all()
    assert offsets[-1] == size_bytes
    return True


def _python(kernel: Any) -> Callable[..., Any]:
    return getattr(kernel, "py_func", kernel)
