"""`write_dataset` refuses what does not fit, by row and field, and schemas that cannot be."""

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema
from stoker.dataset.format.fields import Field, Schema, Side
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.protocol.errors import DatasetError, ResourceError, UsageError


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (schema.image(), b"", "row 0, field 'image': it is empty"),
        (schema.image(), 3, "expected the bytes of an image file, or pixels, got int"),
        (schema.image(), np.zeros((4, 4), np.uint8), r"expected uint8 pixels of shape \(H, W, 3\)"),
        (schema.mask(), np.zeros((4, 4), np.float64), r"shape \(H, W\), got float64"),
        (schema.image("i", "raw"), b"x", "expected an array of pixels, got bytes"),
        (schema.image("i", "raw"), np.zeros((0, 4, 3), np.uint8), "it has 0x4 pixels"),
        (schema.image("i", "jpeg"), np.zeros((4, 4, 3), np.uint8), "expected encoding jpeg, got"),
        (schema.label(), b"x", r"expected int64 of shape \(\), got bytes"),
        (schema.label(), 0.5, "expected int64, got float64"),
        (schema.label(classes=("a",)), 1, "expected a class from 0 to 0, got 1"),
        (schema.label(), np.zeros(2, np.int64), r"expected shape \(\), got \(2,\)"),
        (schema.scalar("s", "uint8"), 256, "a value does not fit uint8"),
        (schema.scalar("s", "uint64"), -1, "a value does not fit uint64"),
        (schema.array("a", "float32", (None, 4)), np.zeros((2, 3)), r"expected shape \(None, 4\)"),
        (schema.blob("b"), "text", "expected bytes, got str"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(tmp_path, field, value, message):
    with pytest.raises(DatasetError, match=message):
        write_dataset(tmp_path / "d", Schema((field,)), [{field.name: value}])
    with pytest.raises(DatasetError, match="was not packed to the end"):
        open_dataset(tmp_path / "d")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((), "expected 1 to 256 fields in a schema, got 0"),
        ((schema.label(), schema.label()), "column 'label' is named twice"),
        ((schema.label("not a name"),), "expected a name of 1 to 128 characters A-Z, a-z, 0-9"),
        ((schema.scalar("s", "complex64"),), "expected a dtype among bool, int8"),
        ((schema.array("a", "int8", ()),), "expected a shape in which only the first side may be"),
        ((schema.array("a", "int8", (2, None)),), "expected a shape in which only the first side"),
        ((schema.array("a", "int8", (0,)),), "expected sides of 1 to 2147483647"),
        ((schema.array("a", "int8", (2**30, 2)),), "column 'a': expected at most"),
        ((Field(name="x", kind="video"),), "expected a kind among image, mask, boxes"),
        ((Field(name="x", kind="label", dtype="int8"),), "expected dtype int64 of a label"),
        ((Field(name="x", kind="label", dtype="int64", shape=(1,)),), r"shape \(\) of kind"),
        ((Field(name="x", kind="scalar", encoding="png"),), "expected encoding raw of kind scalar"),
        ((Field(name="x", kind="scalar", encoding="gif"),), "expected one of raw, jpeg, png"),
        ((Field(name="x", kind="bytes"),), r"expected uint8 \(None,\)"),
        ((Field(name="x", kind="image", shape=(None, None, 17)),), "and 1 to 16 channels"),
        ((Field(name="x", kind="image", shape=(None, None, 3)),), "expected side columns"),
        ((Field(name="x", kind="mask", dtype="int8", shape=(None, None)),), "expected dtype uint8"),
        ((Field(name="x", kind="label", dtype="int64", bound=(-1,)),), "expected bounds from 0"),
        ((Field(name="x", kind="label", dtype="int64", side=(Side("x.y", "?"),)),), "column 'x.y'"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be(tmp_path, fields, message):
    with pytest.raises(UsageError, match=message):
        write_dataset(tmp_path / "d", Schema(fields), [])


def test_a_disk_that_is_full_before_a_file_is_done(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stoker.dataset.packing.shard._Spool.add", full)
    with pytest.raises(ResourceError, match="No space left on device; free some space"):
        write_dataset(tmp_path / "d", Schema((schema.label(),)), [{"label": 1}])


def test_a_fault_of_the_rows_is_theirs(tmp_path):
    def rows():
        yield {"label": 1}
        raise OSError(28, "the user's own disk")

    with pytest.raises(OSError, match="the user's own disk"):
        write_dataset(tmp_path / "d", Schema((schema.label(),)), rows())


def test_overwriting_is_asked_for(tmp_path):
    only = Schema((schema.label(),))
    write_dataset(tmp_path / "d", only, [{"label": 1}])
    with pytest.raises(UsageError, match="already holds a dataset"):
        write_dataset(tmp_path / "d", only, [{"label": 2}])
    write_dataset(tmp_path / "d", only, [{"label": 2}], overwrite=True)
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.read("label", 0) == 2
        assert dataset.source(0) is None
    assert len(list((tmp_path / "d").iterdir())) == 2


def test_rows_are_cut_by_bytes_too(tmp_path):
    rows = [{"caption": b"x" * 100}] * 10
    only = Schema((schema.blob("caption"),))
    manifest = write_dataset(tmp_path / "d", only, rows, cut=Cut(data_bytes=300))
    assert [file.rows for file in manifest.files] == [3, 3, 3, 1]


def test_arrays_of_pixels_become_png(tmp_path, photographs):
    pixels = photographs["rocket"]
    write_dataset(tmp_path / "d", Schema((schema.image(),)), [{"image": pixels}])
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.fields[0].encoding == "png"
        assert np.array_equal(dataset.decode("image", 0, np.empty(pixels.size, np.uint8)), pixels)
