"""Rows written are rows read: every kind of field, across files, and nothing heavy imported."""

import os
import subprocess
import sys

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema
from stoker.dataset.build import Cut, write_dataset


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


def test_reading_imports_no_heavy_library():
    code = (
        "import sys, stoker.dataset; "
        "print([m for m in ('pyarrow', 'numba', 'torch', 'rich', 'typer') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert result.stdout.strip() == "[]"
