"""Data whose kind does not follow from its form: masks of any integers, ambiguous folders.

A mistake here is silent later: a mask that is not moved with its image is wrong in every sample.
"""

import re
import sys

import numpy as np
import pytest
import skimage.data
from commands import call
from PIL import Image

from stoker import ops
from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.formats.object_reader import load_object
from stoker.ops.contract.states import State, StateError
from stoker.protocol.errors import DatasetError, UsageError

ONE = Options(workers=1)
MODULE = """
import numpy as np, skimage.data
from PIL import Image

PIXELS = skimage.data.astronaut()[:60, :80]
CLASSES = PIXELS[:, :, 0] // 64
DTYPES = ["int64", "uint16", "bool", "int32", "int8", "uint8"]


class Rows:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        masks = {f"{name}_mask": CLASSES[index:].astype(name) for name in DTYPES}
        masks["deep_mask"] = CLASSES[index:, :, None].astype(np.int64)
        masks["pil_mask"] = Image.fromarray(CLASSES[index:].astype(np.uint16))
        return {"image": PIXELS[index:], **masks}


class Large(Rows):
    def __getitem__(self, index):
        return {"image": PIXELS, "mask": CLASSES.astype(np.int64) + index * 2**31}


class Texts(Rows):
    classes = ["dog", "cat"]

    def __getitem__(self, index):
        return {"image": PIXELS, "label": ["cat", "dog"][index]}


class Strange(Texts):
    def __getitem__(self, index):
        return {"image": PIXELS, "label": ["cat", "fox"][index]}


class Unnamed(Texts):
    classes = None


class Boxes(Rows):
    def __getitem__(self, index):
        return {"image": PIXELS, "boxes": np.array([[1.0, 2, 3, 4]] * (index + 1))}
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_kinds.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("my_kinds", None)
    load_object.cache_clear()


@pytest.mark.parametrize("bands", [True, False])
def test_masks_of_any_integers_keep_their_numbers(module, bands):
    pack("my_kinds:Rows", module / "d", Options(workers=1, bands=bands))
    classes = sys.modules["my_kinds"].CLASSES
    wanted = {"bool": "uint8", "uint8": "uint8", "uint16": "uint16", "pil": "uint16"}
    with open_dataset(module / "d") as dataset:
        for field in dataset.schema.fields[1:]:
            came = field.name.removesuffix("_mask")
            assert (field.kind, field.dtype) == ("mask", wanted.get(came, "int32")), field.name
            for number in range(2):
                out = np.empty(classes.size * 4, np.uint8)
                expected = classes[number:].astype(bool if came == "bool" else "int64")
                got = dataset.decode(field.name, number, out)
                assert np.array_equal(got.reshape(expected.shape), expected), field.name


def test_a_class_number_that_does_not_fit_is_bad(module):
    code, _, error = call("pack", "my_kinds:Large", module / "d", "--workers=1", COLUMNS="9999")
    assert code == 1
    assert re.search(r"fit int32, got 2147483648 to .*; declare a wider", error), error


def test_a_plain_array_of_boxes_must_name_its_format(module):
    with pytest.raises(UsageError, match=r'\{"xyxy": array\}.*--field boxes=float64\[\?,4\]'):
        pack("my_kinds:Boxes", module / "d", ONE)
    pack("my_kinds:Boxes", module / "d", Options(workers=1, fields={"boxes": "float64[?,4]"}))


@pytest.mark.parametrize(
    ("shape", "dtype", "remedy"),
    [
        ((8, 8), "int64", r'--field NAME=mask.*schema\.mask\(NAME\).*kinds=\{NAME: "mask"\}'),
        ((8, 8, 1), "bool", "--field NAME=mask"),
        ((5, 4), "float32", r'\{"xyxy": array\}.*schema\.boxes'),
        ((5, 2), "float32", r'\{"xy": array\}.*schema\.keypoints'),
        ((8, 8, 3), "uint16", "--field NAME=image"),
        ((8, 8, 1), "int16", r'kinds=\{NAME: "mask"\}\. If it is an image.*\{NAME: "image"\}'),
        ((8, 8), "uint16", r"schema\.mask\(NAME\).*If it is an image.*schema\.image\(NAME\)"),
        ((7,), "float32", "Leave the array out of this call"),
    ],
)
def test_an_op_names_the_declaration_that_an_array_may_miss(shape, dtype, remedy):
    with pytest.raises(StateError, match=remedy):
        ops.HorizontalFlip().declare((State.fixed("array", dtype, shape),))


def test_arrays_of_masks_in_files(tmp_path):
    classes = np.stack([skimage.data.coins()[:40, :50] // 64] * 3)
    np.savez(tmp_path / "a.npz", masks=classes.astype(np.int64), other_mask=classes > 1)
    pack(tmp_path / "a.npz", tmp_path / "d", ONE)
    with open_dataset(tmp_path / "d") as dataset:
        assert [(f.name, f.kind, f.dtype) for f in dataset.schema.fields] == [
            ("mask", "mask", "int32"),
            ("other_mask", "mask", "uint8"),
        ]
        out = np.empty(classes[0].size * 4, np.uint8)
        assert np.array_equal(dataset.decode("mask", 2, out).reshape(40, 50), classes[2])


@pytest.fixture
def voc(tmp_path):
    """As PASCAL VOC: photographs, and a palette mask for each."""
    for name in ("JPEGImages", "SegmentationClass"):
        (tmp_path / "voc" / name).mkdir(parents=True)
    for number in range(3):
        pixels = skimage.data.coffee()[number : number + 50, :60]
        Image.fromarray(pixels).save(tmp_path / f"voc/JPEGImages/{number}.jpg")
        mask = Image.fromarray(pixels[:, :, 0] // 64).convert("P")
        mask.save(tmp_path / f"voc/SegmentationClass/{number}.png")
    return tmp_path / "voc"


def test_folders_of_images_and_masks_are_not_silently_classes(tmp_path, voc):
    parallel = "--kind parallel --field JPEGImages=image --field SegmentationClass=mask"
    with pytest.raises(UsageError, match=f"`--kind folder` packs each.*`{parallel}`"):
        pack(voc, tmp_path / "d", ONE)
    assert not (tmp_path / "d").exists()
    fields = {"JPEGImages": "image", "SegmentationClass": "mask"}
    pack(voc, tmp_path / "d", Options(workers=1, kind="parallel", fields=fields))
    with open_dataset(tmp_path / "d") as dataset:
        assert [(f.name, f.kind) for f in dataset.schema.fields] == [
            ("image", "image"),
            ("mask", "mask"),
        ]
        assert len(dataset) == 3
    pack(voc, tmp_path / "classes", Options(workers=1, kind="folder"))
    with open_dataset(tmp_path / "classes") as dataset:
        assert len(dataset) == 6


def test_classes_with_files_of_the_same_names_are_classes(tmp_path):
    for name in ("cat/1.jpg", "cat/2.png", "dog/1.jpg"):
        (tmp_path / "s" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(skimage.data.coffee()[:30, :30]).save(tmp_path / "s" / name)
    assert pack(tmp_path / "s", tmp_path / "d", ONE).kind == "folder"


def test_texts_are_labels_by_their_classes(module):
    pack("my_kinds:Texts", module / "d", ONE)
    with open_dataset(module / "d") as dataset:
        assert dataset.schema.field("label").classes == ("dog", "cat")
        assert [int(dataset.read("label", row)) for row in range(2)] == [1, 0]
    with pytest.raises(DatasetError, match="label: expected one of dog, cat, got 'fox'"):
        pack("my_kinds:Strange", module / "e", ONE)
    with pytest.raises(UsageError, match=r"'label' is text: .*classes = .*--field label=text"):
        pack("my_kinds:Unnamed", module / "f", ONE)
    pack("my_kinds:Unnamed", module / "f", Options(workers=1, fields={"label": "text"}))
