"""`integrity="rows"`: no changed byte of a packed row is delivered; what is good stays good."""

import struct

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import xxhash

from stoker.dataset import open_dataset, schema
from stoker.dataset.format.fields import DIGEST, DIGEST_TYPE, SOURCE, Side
from stoker.dataset.packing import build
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import SampleError, UsageError

FLIPS = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory, photographs, to_jpeg):
    """Turned JPEGs with a grid, masks in bands, raw pixels, numbers and text."""
    rng = np.random.default_rng(3)
    fields = (
        schema.image(grid=True),
        schema.mask(encoding="bands"),
        schema.image("raw", encoding="raw"),
        schema.boxes(of=None),
        schema.label(),
        schema.blob("caption"),
    )
    rows = []
    for number, turn in enumerate((1, 3, 6, 8, 5, 2)):
        pixels = photographs["coffee"][: 60 + number, : 70 + 5 * number]
        rows.append(
            {
                "image": to_jpeg(pixels, turn),
                "mask": rng.integers(0, 4, pixels.shape[:2], np.uint8),
                "raw": rng.integers(0, 256, (9, 7, 3), np.uint8),
                "boxes": {"xyxy": np.array([[1, 2, 3, 4]] * (number % 3), "f4").reshape(-1, 4)},
                "label": number,
                "caption": b"a caption of row %d" % number,
            }
        )
    dest = tmp_path_factory.mktemp("integrity") / "d"
    write_dataset(dest, schema.Schema(fields), rows, cut=Cut(rows=3))
    return dest


def rows_of(dataset) -> list[tuple[bytes, ...]]:
    """The values of all rows as a pipeline reads them; an error where one cannot be read."""
    found = []
    out = np.empty(max(f.bound_bytes for f in dataset.schema.fields if f.is_picture), np.uint8)
    for number in range(len(dataset)):
        try:
            found.append(
                tuple(
                    dataset.decode(field.name, number, out).tobytes()
                    if field.is_picture
                    else np.asarray(dataset.read(field.name, number)).tobytes()
                    for field in dataset.schema.fields
                )
            )
        except SampleError:
            found.append(())
    return found


def stored_bytes(column: pa.Array) -> bytes:
    """Return the bytes of a column's only value."""
    if pa.types.is_large_binary(column.type):
        return column[0].as_py()
    flat = column
    while not pa.types.is_primitive(flat.type):
        flat = flat.flatten() if not pa.types.is_fixed_size_binary(flat.type) else flat
        if pa.types.is_fixed_size_binary(flat.type):
            return flat[0].as_py()
    return flat.to_numpy(zero_copy_only=False).tobytes()


def failures(dataset) -> list[int]:
    """The rows that the check rejects."""
    found = []
    for number in range(len(dataset)):
        try:
            dataset.check_row(number)
        except SampleError:
            found.append(number)
    return found


def test_no_flipped_byte_changes_a_row_without_an_error(folder):
    rng = np.random.default_rng(8)
    silent = 0
    with open_dataset(folder, integrity="rows") as dataset:
        good = rows_of(dataset)
        assert failures(dataset) == []
        places = [
            (folder / file.name, extent.offset, extent.end)
            for file in dataset.manifest.files
            for name, column in file.columns.items()
            if name != SOURCE
            for extent in (column.data, column.offsets)
            if extent is not None and extent.end > extent.offset
        ]
        for _ in range(FLIPS):
            path, first, end = places[rng.integers(len(places))]
            place, bit = int(rng.integers(first, end)), 1 << int(rng.integers(8))
            with open(path, "r+b") as file:
                file.seek(place)
                byte = file.read(1)[0]
                file.seek(place)
                file.write(bytes([byte ^ bit]))
                file.flush()
                bad = failures(dataset)
                now = good if bad == list(range(len(good))) else rows_of(dataset)
                changed = [n for n, (a, b) in enumerate(zip(good, now, strict=True)) if a != b]
                silent += bool(changed)
                assert set(changed) <= set(bad), f"{path.name}, byte {place}, bit {bit}"
                file.seek(place)
                file.write(bytes([byte]))
        assert failures(dataset) == []
    assert silent > FLIPS // 4  # the flips did change what rows hold


def test_the_error_names_the_row_and_what_to_do(folder, tmp_path):
    with open_dataset(folder, integrity="rows") as dataset:
        file, offset = dataset.locate("caption", 4)
        with open(folder / file.name, "r+b") as stream:
            stream.seek(offset)
            stream.write(b"A")
            stream.flush()
            with pytest.raises(SampleError) as error:
                dataset.check_row(4)
            stream.seek(offset)
            stream.write(b"a")
        dataset.check_row(4)  # an error is not remembered
    assert error.value.message == (
        f"dataset {folder}, id 4 ({file.name}): its stored bytes no longer have the check that "
        "they were packed with, so bytes of it have changed on the disk or in memory; check the "
        f"dataset with `stoker verify {folder}`"
    )
    assert (error.value.details["id"], error.value.details["field"]) == (4, "")


def test_kept_orientations_and_converted_files_are_good(tmp_path, parallel_folders):
    for keep in ("apply", "keep"):
        dest = tmp_path / keep
        pack(parallel_folders, dest, Options(workers=1, orientation=keep))
        with open_dataset(dest, integrity="rows") as dataset:
            assert failures(dataset) == []


def test_auto_checks_rows_that_have_an_image_to_decode(folder, tmp_path):
    """Next to decoding the check costs nothing that can be noticed; raw rows would take longer."""
    pixels = {"image": np.zeros((4, 4, 3), np.uint8)}
    write_dataset(tmp_path / "raw", schema.Schema((schema.image(encoding="raw"),)), [pixels])
    for path, integrity, checked in (
        (folder, "auto", True),
        (folder, "rows", True),
        (folder, "off", False),
        (tmp_path / "raw", "auto", False),
        (tmp_path / "raw", "rows", True),
    ):
        with open_dataset(path, integrity=integrity) as dataset:
            assert (dataset.check_row is not None) == checked
    with open_dataset(folder) as dataset:
        assert dataset.check_row is not None


def test_a_dataset_without_checks(folder, tmp_path, monkeypatch):
    """As an earlier version packed it: it can be read, and what cannot be checked is named."""
    side = (Side(DIGEST, DIGEST_TYPE),)
    monkeypatch.setattr(
        build, "with_row_columns", lambda s, source: msgspec.structs.replace(s, side=side)
    )
    fields = schema.Schema((schema.image(),))
    with open_dataset(folder) as dataset:
        row = {"image": bytes(dataset.read("image", 0))}
    write_dataset(tmp_path / "old", fields, [row])
    with open_dataset(tmp_path / "old") as dataset:
        assert dataset.check_row is None
    with pytest.raises(UsageError, match=r"packed without a check of each row.*pack it again"):
        open_dataset(tmp_path / "old", integrity="rows")


def test_the_check_of_a_row_by_the_page(folder):
    """docs/contracts/dataset.md, with pyarrow and xxhash alone."""
    with open_dataset(folder) as dataset:
        manifest = dataset.manifest
    types = dict(manifest.schema.columns())
    number = 0
    for file in manifest.files:
        with pa.memory_map(str(folder / file.name)) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
        for row in range(file.rows):
            lengths, data = b"", b""
            for name, kind in types.items():
                if name.startswith("stoker."):
                    continue
                value = stored_bytes(batch.column(name).slice(row, 1))
                data += value
                if kind.startswith("large_") or "?" in kind:
                    lengths += struct.pack("<Q", len(value))
            stored = batch.column("stoker.check")[row].as_py()
            assert xxhash.xxh64(lengths + data).digest() == stored, f"row {number}"
            number += 1
    assert number == 6
