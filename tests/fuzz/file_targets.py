"""Targets: packed datasets and the files that they are made from."""

import dataclasses
import io
import itertools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import simplejpeg
from PIL import Image
from record_targets import as_json
from target_tools import accepts, folder, prepared, target

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.format.manifest import read_manifest
from stoker.dataset.format.manifest_check import check_manifest
from stoker.dataset.format.unpacked_form import HEADER, SAMPLES, header_of, read_header
from stoker.dataset.images.jpeg import Rewritten, rewrite
from stoker.dataset.images.jpeg import grid as jpeg_grid
from stoker.dataset.images.jpeg.decoding import BoxDecoder
from stoker.dataset.images.jpeg.planes.plane_files import to_jpeg, to_planes
from stoker.dataset.images.jpeg.segments import UnindexableError, read_segments
from stoker.dataset.images.png import read_png_header
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.arrow_claims import unpacked_bytes
from stoker.dataset.sources.common.npy import read_array
from stoker.dataset.sources.common.scan import Request
from stoker.dataset.sources.formats.array_files import open_npz
from stoker.dataset.sources.formats.coco_file import read_coco
from stoker.dataset.sources.formats.csv_rows import read_csv
from stoker.dataset.sources.formats.unpacked_folder import scan_unpacked
from stoker.dataset.sources.formats.yolo_yaml import names_of, read_yaml, splits_of
from stoker.protocol.canonical import canonical_digest

REDUCED_SIZE = 56, 72
"""Height and width of the file whose intervals `jpeg_reduced` changes."""


@target
def manifest(data: bytes) -> bool:
    """A dataset's manifest; its checksum is made right, so that what is behind it is reached."""
    value = as_json(data)
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


@prepared
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
def arrow_claims(data: bytes) -> bool:
    """The size that compressed buffers of an Arrow file claim: a number for any bytes."""
    claimed = unpacked_bytes(memoryview(data))
    assert claimed >= 0
    return claimed > 0


def _written(name: str, data: bytes) -> Path:
    path = folder() / name
    path.write_bytes(data)
    return path


@target
def csv_table(data: bytes) -> bool:
    """A CSV that is packed."""
    return accepts(read_csv, _written("a.csv", data))


@target
def yolo_description(data: bytes) -> bool:
    """The data.yaml of a YOLO dataset."""

    def read(path: Path) -> None:
        found = read_yaml(path)
        splits_of(found)
        names_of(found)

    return accepts(read, _written("data.yaml", data))


@target
def coco_description(data: bytes) -> bool:
    """A JSON file of COCO annotations."""
    return accepts(read_coco, _written("a.json", data))


@target
def unpacked_header(data: bytes) -> bool:
    """The header of an unpacked dataset."""
    return accepts(read_header, _written(HEADER, data).parent)


@target
def unpacked_samples(data: bytes) -> bool:
    """The lines of an unpacked dataset."""
    where = _written(SAMPLES, data).parent
    fields = (schema.image(), schema.label(), schema.optional(schema.boxes()))
    (where / HEADER).write_bytes(header_of("content:0", fields))

    def read(path: Path) -> None:
        for _, reason in scan_unpacked(path, Request()).bad:
            raise CodecError(reason)

    return accepts(read, where, CodecError)


@target
def npz(data: bytes) -> bool:
    """The headers of an .npz archive."""

    def read(path: Path) -> None:
        open_npz(path.parent, path.name, frozenset())

    return accepts(read, _written("a.npz", data))


@target
def jpeg_segments(data: bytes) -> bool:
    """The segments of a JPEG that is rewritten with a grid."""
    return accepts(read_segments, data, CodecError, UnindexableError)


@prepared
def _planes() -> tuple[int, bytes]:
    """Return the size of a file of bit planes, and its grid without checksums."""
    made = planes_seed()
    return len(made.data), dataclasses.replace(made.grid, checksums=None).to_bytes()


@target
def jpeg_planes(data: bytes) -> bool:
    """A file of bit planes, of one size, that becomes a JPEG."""
    size, grid = _planes()
    return accepts(lambda given: to_jpeg(given, grid), data[:size].ljust(size, b"\0"), CodecError)


def planes_seed() -> Rewritten:
    """Return a small file of bit planes."""
    out = io.BytesIO()
    pixels = np.arange(40 * 24 * 3, dtype=np.uint8).reshape(24, 40, 3)
    Image.fromarray(pixels).save(out, "JPEG")
    made = to_planes(rewrite(out.getvalue()))
    assert made is not None
    return made


@prepared
def _reduced() -> tuple[Rewritten, memoryview, BoxDecoder]:
    """Return a gridded file, its grid without checksums, and the decoder."""
    made = reduced_seed()
    grid = dataclasses.replace(made.grid, checksums=None).to_bytes()
    return made, memoryview(grid), BoxDecoder()


@target
def jpeg_reduced(data: bytes) -> bool:
    """Intervals of a gridded file at a fraction: what is shown is what libjpeg-turbo shows."""
    made, grid, decoder = _reduced()
    begin, divisor = int(made.grid.offsets[0]), 2 << (data[0] if data else 0) % 3
    rest = data[1:][: len(made.data) - begin]
    file = made.data[:begin] + rest + made.data[begin + len(rest) :]
    height, width = -(-REDUCED_SIZE[0] // divisor), -(-REDUCED_SIZE[1] // divisor)
    room, most = np.full(3 * height * width + 64, 77, np.uint8), np.iinfo(np.int64).max
    asked = REDUCED_SIZE, (0, 0, *REDUCED_SIZE), most, (room, 0, 3 * width), divisor
    try:
        assert decoder.decode(memoryview(file), grid, *asked)
    except CodecError:
        return False
    shown = simplejpeg.decode_jpeg(file, min_height=height, min_width=width, min_factor=divisor)
    assert np.array_equal(room[: shown.size], shown.reshape(-1))
    assert (room[shown.size :] == 77).all()
    return True


def reduced_seed() -> Rewritten:
    """Return a small gridded file."""
    out = io.BytesIO()
    y, x = np.mgrid[: REDUCED_SIZE[0], : REDUCED_SIZE[1]]
    pixels = np.stack([3 * y + 2 * x, 255 - 4 * y, (x - 20) ** 2 // 3], 2).astype(np.uint8)
    Image.fromarray(pixels).save(out, "JPEG", quality=85)
    return rewrite(out.getvalue())


@target
def png(data: bytes) -> bool:
    """The header and chunks of a PNG."""
    return accepts(read_png_header, data, CodecError)


@target
def grid(data: bytes) -> bool:
    """The grid of a rewritten JPEG: a grid that passes has only places inside of its file."""
    (size_bytes,) = struct.unpack("<I", data[:4].ljust(4, b"\0"))
    cells = np.frombuffer(data[4:], np.uint8)
    with np.errstate(over="ignore"):
        if _python(jpeg_grid.fault_of)(cells, size_bytes):
            return False
    numbers = np.frombuffer(data[4 + jpeg_grid.HEAD_BYTES :], "<u4").astype(np.int64)
    has_checksums = cells[0] == jpeg_grid.WITH_CHECKSUMS
    offsets = numbers[: (len(numbers) - 1) // 2] if has_checksums else numbers
    assert (np.diff(offsets) >= 2).all()
    assert offsets[-1] == size_bytes
    return True


def _python(kernel: Any) -> Callable[..., Any]:
    return getattr(kernel, "py_func", kernel)
