"""Packing Python objects by name: what their rows show, what they declare, and what is wrong."""

import sys

import numpy as np
import pytest

from stoker.dataset import open_dataset
from stoker.dataset.packing.build import Cut
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.formats.object_reader import load_object
from stoker.protocol.errors import DatasetError, UsageError
from stoker.protocol.ragged import unpack_items

ONE = Options(workers=1)
MODULE = '''
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images
from stoker.dataset import schema

CHINA, FLOWER = (np.asarray(pixels)[100:180, 200:300] for pixels in load_sample_images().images)


class Rows:
    """Rows of every kind of value."""

    classes = ["buildings", "plants"]

    def __len__(self):
        return 6

    def __getitem__(self, index):
        pixels = (CHINA, FLOWER)[index % 2][index:]
        return {
            "photo": Image.fromarray(pixels),
            "pixels": np.ascontiguousarray(pixels),
            "seg_mask": pixels[:, :, 0] // 64,
            "file": Path("here.jpg"),
            "label": index % 2,
            "size": pixels.shape[0],
            "weight": index / 7,
            "night": index > 3,
            "pose": np.full((3, 2), index, np.float16),
            "caption": f"number {index}",
            "boxes": {"relative_cxcywh": [[0.5, 0.5, 0.5, 0.5]] * index, "area": np.ones(index)},
            "points": {"xy": np.array([[1.0, index]]), "id": np.array([index])},
            "note": object(),
        }


class Pairs(Rows):
    """As torchvision's datasets."""

    def __getitem__(self, index):
        row = super().__getitem__(index)
        return row["photo"], row["label"]


class Declared(Pairs):
    fields = [schema.label(classes=("a", "b"))]
    fingerprint = "first"


class Holder:
    pairs = Pairs()


class Random(Rows):
    count = 0

    def __getitem__(self, index):
        Random.count += 1
        return {"value": Random.count}


class Failing(Pairs):
    def __getitem__(self, index):
        if index == 2:
            raise ValueError("no such photograph")
        return {"label": 1} if index == 3 else super().__getitem__(index)


def dictionary():
    return [{"boxes": {"corners": []}}]


def texts():
    return ["text"]


def broken():
    raise RuntimeError("no data today")


NUMBER = 7
'''


@pytest.fixture
def module(tmp_path, monkeypatch, photographs, to_jpeg):
    """The module `my_rows` in a working directory of its own."""
    (tmp_path / "my_rows.py").write_text(MODULE)
    (tmp_path / "here.jpg").write_bytes(to_jpeg(photographs["coffee"]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("my_rows", None)
    load_object.cache_clear()


def test_rows_of_every_kind_of_value(module):
    with pytest.raises(UsageError, match=r"'note' is a object, which cannot be a field: exp"):
        pack("my_rows:Rows", module / "d", ONE)
    report = pack("my_rows:Rows", module / "d", Options(workers=1, fields={"note": "ignore"}))
    assert report.kind == "python"
    rows = sys.modules["my_rows"].Rows()
    out = np.empty(2**16, np.uint8)
    with open_dataset(module / "d") as dataset:
        assert {field.name: (field.kind, field.dtype) for field in dataset.schema.fields} == {
            "photo": ("image", "uint8"),
            "pixels": ("image", "uint8"),
            "seg_mask": ("mask", "uint8"),
            "file": ("image", "uint8"),
            "label": ("label", "int64"),
            "size": ("scalar", "int64"),
            "weight": ("scalar", "float64"),
            "night": ("scalar", "bool"),
            "pose": ("array", "float16"),
            "caption": ("bytes", "uint8"),
            "boxes": ("boxes", "uint32"),
            "points": ("keypoints", "uint32"),
        }
        assert dataset.schema.field("label").classes == ("buildings", "plants")
        assert dataset.schema.field("boxes").items.of == "photo"
        for number in range(6):
            row = rows[number]
            assert dataset.source(number) == f"my_rows:Rows[{number}]"
            for name in ("photo", "pixels"):
                assert np.array_equal(dataset.decode(name, number, out), row["pixels"])
            assert np.array_equal(dataset.decode("seg_mask", number, out), row["seg_mask"])
            for name in ("label", "size", "weight", "night", "pose"):
                assert np.array_equal(dataset.read(name, number), row[name])
            assert bytes(dataset.read("caption", number)).decode() == row["caption"]
            height, width = row["pixels"].shape[:2]
            fields = dataset.schema.field("boxes").items.fields
            boxes = unpack_items(fields, dataset.read("boxes", number))
            expected = [[width / 4, height / 4, width * 3 / 4, height * 3 / 4]] * number
            assert boxes["xyxy"].tolist() == expected
            assert boxes["area"].tolist() == [1.0] * number


@pytest.mark.slow
def test_workers_import_it_themselves(module):
    for workers in (1, 2):
        options = Options(workers=workers, cut=Cut(rows=2))
        report = pack("my_rows:Pairs", module / str(workers), options)
        assert [field.name for field in report.manifest.schema.fields] == ["image", "label"]
    one, two = ({path.name: path.read_bytes() for path in (module / name).iterdir()}
                for name in "12")  # fmt: skip
    assert one == two


def test_what_an_object_declares(module):
    first = pack("my_rows:Declared", module / "d", ONE)
    assert first.manifest.schema.field("label").classes == ("a", "b")
    assert [field.name for field in first.manifest.schema.fields] == ["label"]
    assert pack("my_rows:Holder.pairs", module / "e", ONE).manifest.rows == 6


@pytest.mark.parametrize(("name", "kept"), [("Declared", 4), ("Pairs", 0)])
def test_finished_work_is_kept_by_a_declared_fingerprint(module, name, kept):
    """If the source does not declare that its data are the same, all is read again."""

    def stop(progress) -> None:
        if progress.rows > 4:
            raise KeyboardInterrupt

    options = Options(workers=1, cut=Cut(rows=2))
    with pytest.raises(KeyboardInterrupt):
        pack(f"my_rows:{name}", module / "d", options, stop)
    assert pack(f"my_rows:{name}", module / "d", options).resumed_rows == kept


def test_rows_that_fail_are_named(module):
    with pytest.raises(DatasetError) as caught:
        pack("my_rows:Failing", module / "d", ONE)
    assert "2 of 6 samples of my_rows:Failing cannot be packed" in str(caught.value)
    assert "my_rows:Failing[2]: ValueError: no such photograph" in str(caught.value)
    assert "my_rows:Failing[3]: its row has no image, only label" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("my_rows:Random", {}, r"Random\[0\]: its 'value' differs each time it is"),
        ("my_rows:NUMBER", {}, "is a int: expected an object with rows by number"),
        ("my_rows:Absent", {}, "my_rows:Absent: AttributeError: module 'my_rows' has no attribute"),
        ("no_rows:Rows", {}, "no_rows:Rows: ModuleNotFoundError: No module named 'no_rows'; its"),
        ("my_rows:broken", {}, "my_rows:broken: RuntimeError: no data today"),
        ("my_rows:dictionary", {}, r"'boxes' is a dict of corners: expected boxes \(xyxy, xywh"),
        ("my_rows:texts", {}, r"texts\[0\]: expected a dict of fields, or an image and its label"),
        ("my_rows:Pairs", {"x": "image"}, "--field x=image: rows of my_rows:Pairs have no such"),
    ],
)
def test_objects_that_cannot_be(module, name, fields, message):
    with pytest.raises(UsageError, match=message):
        pack(name, module / "d", Options(workers=1, fields=fields))
