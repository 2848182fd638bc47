"""Rows written are rows read: every kind of field, across files, and nothing heavy imported."""

import struct

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.protocol.errors import SampleError


@pytest.fixture
def rows(photographs, to_jpeg):
    return [
        {
            "image": to_jpeg(pixels),
            "mask": pixels[:, :, 0] // 64,
            "raw": pixels,
            "label": number % 3,
            "weight": np.float32(0.5 * number),
            "night": number % 2 == 0,
            "matrix": np.full((2, 3), number, np.float64),
            "boxes": np.arange(4 * number, dtype=np.float32).reshape(number, 4),
            "caption": b"x" * number,
        }
        for number, pixels in enumerate(photographs.values())
    ]


@pytest.fixture
def all_kinds():
    return schema.Schema(
        (
            schema.image(),
            schema.mask(),
            schema.image("raw", "raw"),
            schema.label(classes=("a", "b", "c")),
            schema.scalar("weight"),
            schema.scalar("night", "bool"),
            schema.array("matrix", "float64", (2, 3)),
            schema.array("boxes", "float32", (None, 4)),
            schema.blob("caption"),
        )
    )


def test_every_kind_comes_back(tmp_path, rows, all_kinds):
    write_dataset(tmp_path / "d", all_kinds, rows, cut=Cut(rows=4))
    with open_dataset(tmp_path / "d") as dataset:
        assert len(dataset) == 6
        assert [file.rows for file in dataset.manifest.files] == [4, 2]
        out = np.empty(300 * 300 * 3, np.uint8)
        for number, row in enumerate(rows):
            assert dataset.read("image", number) == row["image"]
            assert np.array_equal(dataset.decode("mask", number, out), row["mask"])
            assert np.array_equal(dataset.read("raw", number), row["raw"])
            assert np.array_equal(dataset.decode("raw", number, out), row["raw"])
            assert dataset.size("image", number) == row["raw"].shape[:2]
            for name in ("label", "weight", "night"):
                value = dataset.read(name, number)
                assert value == row[name]
                assert value.dtype == dataset.schema.field(name).dtype
            for name in ("matrix", "boxes"):
                value = dataset.read(name, number)
                assert np.array_equal(value, row[name])
                assert value.shape == row[name].shape
                assert value.dtype == row[name].dtype
            assert dataset.read("caption", number) == row["caption"]


def test_the_schema_learns_from_the_rows(tmp_path, rows, all_kinds):
    fields = write_dataset(tmp_path / "d", all_kinds, rows).schema.fields
    by_name = {field.name: field for field in fields}
    assert by_name["image"].encoding == "jpeg"
    assert by_name["mask"].encoding == "png"
    assert by_name["image"].shape == (None, None, 3)
    assert by_name["image"].bound == (185, 200, 3)
    assert by_name["mask"].bound == (185, 200)
    assert by_name["boxes"].bound == (5, 4)
    assert by_name["matrix"].bound == (2, 3)
    assert by_name["caption"].bound == (5,)
    alike = write_dataset(tmp_path / "e", all_kinds, rows[:1] * 3).schema.fields[0]
    assert alike.shape == alike.bound == (150, 200, 3)


def test_reading_imports_no_heavy_library(loaded_by):
    heavy = "pyarrow", "numba", "torch", "rich", "typer"
    assert loaded_by("import stoker.dataset", *heavy) == set()


def test_a_damaged_sample_says_where_it_lies(tmp_path, rows, all_kinds):
    write_dataset(tmp_path / "d", all_kinds, rows)
    with open_dataset(tmp_path / "d") as dataset:
        file, offset = dataset.locate("image", 3)
    with open(tmp_path / "d" / file.name, "r+b") as stream:
        stream.seek(offset + 800)
        stream.write(bytes(2000))
    with open_dataset(tmp_path / "d") as dataset:
        with pytest.raises(SampleError, match="cannot decode it: it is damaged: ") as caught:
            dataset.decode("image", 3, np.empty(300 * 300 * 3, np.uint8))
        assert dataset.read("image", 2) == rows[2]["image"]
    error = caught.value
    assert f"id 3, field 'image' ({file.name}, byte {offset})" in error.message
    assert f"stoker verify {tmp_path / 'd'}" in error.message
    reason = error.details.pop("reason")
    assert str(reason) in error.message
    assert error.details == {
        "dataset": str(tmp_path / "d"),
        "id": 3,
        "field": "image",
        "file": file.name,
        "offset": offset,
    }


def corrupt(folder, column: str, number: int, data: bytes) -> None:
    """Write over an item of a column of integers."""
    with open_dataset(folder) as dataset:
        file = dataset.manifest.files[0]
        place = file.columns[column]
    begin = (place.offsets or place.data).offset
    with open(folder / file.name, "r+b") as stream:
        stream.seek(begin + number * len(data))
        stream.write(data)


@pytest.mark.parametrize(
    ("column", "data", "field", "message"),
    [
        ("image.height", struct.pack("<i", -5), "image", "its size -5x"),
        (
            "image.width",
            struct.pack("<i", 2**30),
            "image",
            "its size .*x1073741824 or orientation 1",
        ),
        ("image.orientation", b"\x09", "image", "orientation 9 is damaged"),
        ("image", struct.pack("<q", 2**62), "image", "its offsets 4611686018427387904 and .* are"),
        ("image", struct.pack("<q", -1), "image", "its offsets -1 and .* are damaged"),
        ("raw.height", struct.pack("<i", 7), "raw", "expected an image of 7x"),
        (
            "boxes",
            struct.pack("<q", 3),
            "boxes",
            r"expected an array of shape \(None, 4\) up to",
        ),
    ],
)
def test_numbers_that_lie_are_found(tmp_path, rows, all_kinds, column, data, field, message):
    write_dataset(tmp_path / "d", all_kinds, rows)
    corrupt(tmp_path / "d", column, 2, data)
    with open_dataset(tmp_path / "d") as dataset:
        out = np.empty(300 * 300 * 3, np.uint8)
        with pytest.raises(SampleError, match=message):
            dataset.read(field, 2) if field == "boxes" else dataset.decode(field, 2, out)


@pytest.mark.parametrize("offset", [-1, 2**62, 1])
def test_lengths_of_damaged_offsets_are_an_error(tmp_path, rows, all_kinds, offset):
    """Plans of length buckets read them without the values."""
    write_dataset(tmp_path / "d", all_kinds, rows)
    corrupt(tmp_path / "d", "boxes", len(rows) // 2, struct.pack("<q", offset))
    with open_dataset(tmp_path / "d") as dataset:
        with pytest.raises(SampleError, match=r"field 'boxes' .*: its offsets are damaged"):
            list(dataset.lengths("boxes"))
        with pytest.raises(SampleError, match=r"field 'boxes' .*: its offsets are damaged"):
            dataset.sizes_of("boxes", np.arange(len(rows)))


def test_the_range_of_floats_and_of_labels_without_names_is_noted(tmp_path):
    """Numbers that are not finite do not count, and neither do labels whose classes have names."""
    fields = [
        schema.image("ct", "raw", dtype="float32", channels=1),
        schema.image("bands", "bands", dtype="float32", channels=1),
        schema.image("nothing", "raw", dtype="float32", channels=1),
        schema.image("photo", "raw"),
        schema.label("grade"),
        schema.label("animal", classes=("cat", "dog")),
    ]
    rows = []
    for low, grade in ((-1000, 4), (-7, 1)):
        ct = np.linspace(low, 900, 16, dtype=np.float32).reshape(4, 4, 1)
        ct[1, 1], ct[2, 2] = np.nan, np.inf
        rows.append(
            {
                "ct": ct, "bands": ct / 10, "nothing": ct * np.float32(np.nan),
                "photo": np.zeros((4, 4, 3), np.uint8), "grade": grade, "animal": 1,
            }
        )  # fmt: skip
    write(str(tmp_path / "packed"), fields, rows)
    with open_dataset(tmp_path / "packed") as dataset:
        seen = dataset.manifest.statistics.fields
    assert {name: found.values for name, found in seen.items()} == {
        "ct": (-1000, 900),
        "bands": (-100, 90),
        "nothing": None,
        "photo": None,
        "grade": (1, 4),
        "animal": None,
    }
