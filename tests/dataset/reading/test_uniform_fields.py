"""Samples read in place, by address: the bytes there are what reading them one by one gives."""

import ctypes

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.dataset.reading import uniform_fields
from stoker.protocol.errors import ClosedError, UnknownNameError

ROWS = 31
FIELDS = ("image", "mask", "label", "vector", "flag")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    fields = (
        schema.image(encoding="raw"),
        schema.mask(encoding="raw"),
        schema.label(),
        schema.array("vector", "float32", (5,)),
        schema.scalar("flag", "bool"),
        schema.image("photo", "png"),
    )
    rows = (
        {
            "image": rng.integers(0, 256, (6, 7, 3), np.uint8),
            "mask": rng.integers(0, 9, (6, 7), np.uint8),
            "label": number,
            "vector": rng.random(5, np.float32),
            "flag": number % 3 == 0,
            "photo": np.zeros((2, 2, 3), np.uint8),
        }
        for number in range(ROWS)
    )
    path = tmp_path_factory.mktemp("alike") / "d"
    write_dataset(path, schema.Schema(fields), rows, cut=Cut(rows=4))
    return path


def seen(found):
    """Return the samples at the addresses: for each field a list."""
    return [
        [
            np.frombuffer(
                (ctypes.c_ubyte * (dtype.itemsize * int(np.prod(shape)))).from_address(address),
                dtype,
            ).reshape(shape)
            for address in addresses
        ]
        for addresses, (dtype, shape) in zip(found.addresses.tolist(), found.columns, strict=True)
    ]


@pytest.mark.parametrize("held", [1, 3, 256])
def test_what_lies_there_is_what_is_read(folder, monkeypatch, held):
    monkeypatch.setattr(uniform_fields, "MAX_HELD", held)
    with open_dataset(folder, max_maps=2) as dataset:
        fields = dataset.alike(FIELDS)
        asked = ([3, 30, 0, 3], [17], list(range(ROWS)), [])
        kept = [(ids, fields.locate(np.array(ids, np.int64))) for ids in asked]
        for ids, found in kept:  # what was found first is still there
            for name, samples in zip(FIELDS, seen(found), strict=True):
                assert len(samples) == len(ids)
                for number, sample in zip(ids, samples, strict=True):
                    read = np.asarray(dataset.read(name, number))
                    assert sample.dtype == read.dtype
                    assert np.array_equal(sample, read)


def test_fields_of_another_form_are_read_one_by_one(folder):
    with open_dataset(folder) as dataset:
        assert dataset.alike(["image", "photo"]) is None
        with pytest.raises(UnknownNameError, match="has no field 'pixels'"):
            dataset.alike(["pixels"])
        fields = dataset.alike(["image"])
    with pytest.raises(ClosedError, match="was closed"):
        fields.locate(np.arange(3))


@pytest.mark.parametrize(
    ("column", "offset", "value"),
    [
        ("image.height", 4, (7).to_bytes(4, "little")),
        ("mask.width", 4, (0).to_bytes(4, "little")),
        ("flag", 1, b"\2"),
    ],
)
def test_a_damaged_row_has_no_address(folder, column, offset, value):
    damaged(folder, column, "data", offset, value, {9})


def test_damaged_offsets_have_no_address(folder):
    """An offset ends one row and begins the next."""
    damaged(folder, "image", "offsets", 8, (2**40).to_bytes(8, "little"), {8, 9})
    damaged(folder, "image", "offsets", 32, (127).to_bytes(8, "little"), {11})


def damaged(folder, column, part, offset, value, bad):
    with open_dataset(folder) as dataset:
        file = dataset.manifest.files[2]
    path = folder / file.name
    whole = path.read_bytes()
    data = bytearray(whole)
    begin = getattr(file.columns[column], part).offset + offset
    data[begin : begin + len(value)] = value
    try:
        path.write_bytes(data)
        with open_dataset(folder) as dataset:
            fields = dataset.alike(FIELDS)
            for number in range(ROWS):
                assert (fields.locate(np.array([number])) is None) == (number in bad)
            assert fields.locate(np.arange(8)) is not None
            assert fields.locate(np.arange(12)) is None
    finally:
        path.write_bytes(whole)
