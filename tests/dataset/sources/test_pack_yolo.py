"""Packing YOLO: boxes, outlines and keypoints in parts of the image; layouts; what is wrong."""

import numpy as np
import pytest
from commands import call
from files import items_of
from PIL import Image
from pycocotools import mask as reference

from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.common.box_clipping import LEFT_OUT, MOVED, POINTS_LEFT_OUT
from stoker.protocol.errors import DatasetError, UsageError

ONE = Options(workers=1)
DATA = """
path: ../datasets/of/another/machine
train: images/train
val: images/val
names:
  0: person
  1: bicycle
download: |
  from ultralytics.utils.downloads import download
"""


BOMB = "".join(f"n{n}: &n{n} [{', '.join([f'*n{n - 1}' if n else 'x'] * 9)}]\n" for n in range(40))
BOMB += "train: images/train\nnames: [*n39]\n"
"""Forty lists, each of nine times the one before: 9 ** 40 values in a few hundred bytes."""


@pytest.fixture
def yolo(tmp_path, photographs, to_jpeg):
    """write(labels, data) -> a folder with images/train and images/val, labels by name."""

    def write(labels, data=DATA):
        root = tmp_path / "yolo"
        for number, (name, pixels) in enumerate(photographs.items()):
            split = "val" if number > 3 else "train"
            (root / "images" / split).mkdir(parents=True, exist_ok=True)
            (root / "labels" / split).mkdir(parents=True, exist_ok=True)
            (root / "images" / split / f"{name}.jpg").write_bytes(to_jpeg(pixels))
            if name in labels:
                (root / "labels" / split / f"{name}.txt").write_text(labels[name])
        if data:
            (root / "data.yaml").write_text(data)
        return root

    return write


LABELS = {
    "astronaut": "0 0.5 0.5 0.25 0.5\n1 0.1 0.2 0.1 0.1\n\n",
    "chelsea": "",
    "coffee": "1 0.124999 0.5 0.25 1.0\n",  # rounded: its left side is at -0.000001
    "rocket": "0 0.5 0.5 1 1\r\n",
    "flower": "1 0.5 0.5 0.5 0.5",
}


def test_boxes(tmp_path, yolo, photographs):
    report = pack(yolo(LABELS), tmp_path / "d", Options(workers=1, split="train"))
    assert (report.kind, report.manifest.rows) == ("yolo", 4)
    assert report.manifest.statistics.fields["boxes"].per_class == (2, 2)
    notes = [(note.what, note.examples) for note in report.manifest.statistics.notes]
    assert (f"{MOVED} (1 in all)", ("images/train/coffee.jpg",)) in notes
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("boxes").classes == ("person", "bicycle")
        for number, name in enumerate(sorted(photographs.keys() - {"china", "flower"})):
            height, width = photographs[name].shape[:2]
            assert dataset.source(number) == f"images/train/{name}.jpg"
            found = items_of(dataset, "boxes", number)
            lines = [line.split() for line in LABELS[name].splitlines() if line]
            assert found["label"].tolist() == [int(line[0]) for line in lines]
            for box, (_, *numbers) in zip(found["xyxy"], lines, strict=True):
                x, y, w, h = map(float, numbers)
                expected = [(x - w / 2) * width, (y - h / 2) * height,
                            (x + w / 2) * width, (y + h / 2) * height]  # fmt: skip
                assert np.allclose(box, np.clip(expected, 0, [width, height] * 2), atol=1e-4)


def test_images_without_labels_are_counted(tmp_path, yolo):
    report = pack(yolo(LABELS) / "data.yaml", tmp_path / "d", Options(workers=1, split="val"))
    assert report.ignored == {"images without a file of labels: packed without objects": 1}
    with open_dataset(tmp_path / "d") as dataset:
        assert [len(items_of(dataset, "boxes", number)["label"]) for number in (0, 1)] == [0, 1]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # in pycocotools
@pytest.mark.parametrize("masks", ["semantic", "instance"])
def test_outlines(tmp_path, yolo, photographs, masks):
    outlines = [
        (1, [0.1, 0.1, 0.5, 0.15, 0.4, 0.6, 0.1, 0.5]),
        (0, [0.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
        (1, [0.6, 0.1, 0.9, 0.1, 0.8, 0.3]),
    ]
    text = "".join(f"{label} {' '.join(map(str, xy))}\n" for label, xy in outlines)
    options = Options(workers=1, split="val", masks=masks)
    pack(yolo({"china": text}), tmp_path / "d", options)
    height, width = photographs["china"].shape[:2]
    expected = np.zeros((height, width), np.uint8)
    for number in (1, 0, 2):  # larger ones first
        label, xy = outlines[number]
        scaled = (np.array(xy).reshape(-1, 2) * [width, height]).reshape(-1).tolist()
        code = reference.merge(reference.frPyObjects([scaled], height, width))
        value = number + 1 if masks == "instance" else label + 1
        expected[reference.decode(code) == 1] = value
    with open_dataset(tmp_path / "d") as dataset:
        assert np.array_equal(dataset.decode("mask", 0, np.empty(10**6, np.uint8)), expected)
        assert not dataset.decode("mask", 1, np.empty(10**6, np.uint8)).any()
        found = items_of(dataset, "boxes", 0)
        for number, (_, xy) in enumerate(outlines):
            corners = np.array(xy).reshape(-1, 2) * [width, height]
            around = [*corners.min(axis=0), *corners.max(axis=0)]
            assert np.allclose(found["xyxy"][number], around, atol=1e-4)
        names = dataset.schema.field("mask").classes
        assert names == (("background", "person", "bicycle") if masks == "semantic" else None)
        assert ("instance" in found) == (masks == "instance")


@pytest.mark.parametrize("width", [2, 3])
def test_keypoints(tmp_path, yolo, photographs, width):
    points = [(0.25, 0.5, 2), (0.5, 0.75, 1), (0, 0, 0)] if width == 3 else [
        (0.25, 0.5), (0.5, 0.75), (-1, -1)]  # fmt: skip
    text = "0 0.5 0.5 0.2 0.2 " + " ".join(str(number) for point in points for number in point)
    root = yolo({"flower": text}, f"val: images/val\nnames: [person]\nkpt_shape: [3, {width}]\n")
    pack(root, tmp_path / "d", ONE)
    height, wide = photographs["flower"].shape[:2]
    with open_dataset(tmp_path / "d") as dataset:
        found = items_of(dataset, "keypoints", 1)
        indices = np.float32([[0.25 * wide, 0.5 * height], [0.5 * wide, 0.75 * height]])
        assert (found["xy"] - 0.5).tolist() == indices.tolist()
        assert found["keypoint"].tolist() == [0, 1]
        assert found["visibility"].tolist() == ([2, 1] if width == 3 else [2, 2])
        assert found["instance"].tolist() == [1, 1]
        assert items_of(dataset, "boxes", 1)["instance"].tolist() == [1]
    pack(root, tmp_path / "all", Options(workers=1, all_keypoints=True))
    with open_dataset(tmp_path / "all") as dataset:
        found = items_of(dataset, "keypoints", 1)
        assert found["xy"][2].tolist() == [0.5, 0.5]
        assert found["keypoint"].tolist() == [0, 1, 2]
        assert found["visibility"].tolist() == [*([2, 1] if width == 3 else [2, 2]), 0]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("[nose, left_eye, right_eye]", ("nose", "left_eye", "right_eye")),
        ("{0: [nose, l, r], 1: [nose, l, r]}", ("nose", "l", "r")),
        ("{0: [nose, l, r], 1: [a, b, c]}", None),
    ],
)
def test_names_of_keypoints(tmp_path, yolo, names, found):
    text = f"val: images/val\nnames: [person, cat]\nkpt_shape: [3, 2]\nkpt_names: {names}\n"
    pack(yolo({"flower": "0 0.5 0.5 0.2 0.2 0.5 0.5 0.4 0.4 0.6 0.6"}, text), tmp_path / "d", ONE)
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("keypoints").classes == found


@pytest.mark.parametrize("names", ["[nose, left_eye]", "nose", "[a, b, a]", "{0: [a, b, c], 1: 3}"])
def test_names_of_keypoints_that_cannot_be(tmp_path, yolo, names):
    text = f"val: images/val\nkpt_shape: [3, 2]\nkpt_names: {names}\n"
    with pytest.raises(UsageError, match="kpt_names: expected 3 different names, as many as in"):
        pack(yolo({}, text), tmp_path / "d", ONE)


def test_layouts_of_roboflow_and_without_yaml(tmp_path, yolo):
    root = yolo(LABELS, "")
    with pytest.raises(UsageError, match="has the splits train, val; name one: --split train"):
        pack(root, tmp_path / "a", ONE)
    (root / "labels" / "classes.txt").write_text("person\nbicycle\n")
    plain = pack(root, tmp_path / "a", Options(workers=1, split="train"))
    for split in ("train", "val"):
        (root / split).mkdir()
        for folder in ("images", "labels"):
            (root / folder / split).rename(root / split / folder)
    (root / "data.yaml").write_text("train: ../train/images\nnc: 2\nnames: ['person', bicycle]\n")
    moved = pack(root, tmp_path / "b", ONE)
    assert moved.manifest.fingerprint == plain.manifest.fingerprint


def test_what_is_wrong_with_labels_is_named_by_line(tmp_path, yolo):
    root = yolo({
        "astronaut": "0 0.5 0.5 0.25 0.5\n\n2 0.1 0.2 0.1 0.1\n",
        "chelsea": "0 0.5 0.5 0.25\n",
        "coffee": "\n0 0.9 0.5 0.4 0.5\n",
        "rocket": "0 nought 0.5 0.25 0.5\n",
    })  # fmt: skip
    (root / "labels" / "train" / "absent.txt").write_text("0 0.5 0.5 0.25 0.5\n")
    with pytest.raises(DatasetError) as caught:
        pack(root, tmp_path / "d", Options(workers=1, split="train"))
    message = str(caught.value)
    for expected in (
        "5 of 5 samples of",
        "labels/train/astronaut.txt: line 3: expected a class from 0 to 1, got 2",
        "labels/train/chelsea.txt: line 1: expected a class and 4 numbers of a box, or x and y of "
        "at least 3 corners, got 3 numbers after the class",
        "labels/train/coffee.txt: line 2: its box, in parts of the image's sides, is outside of "
        "the image, [0.7, 0.25, 1.1, 0.75] (left, top, right, bottom); repair it, or pass --clip",
        "labels/train/rocket.txt: line 1: expected numbers, got '0 nought 0.5 0.25 0.5'",
        "labels/train/absent.txt: there is no image of this name",
    ):
        assert expected in message
    options = Options(workers=1, split="train", clip=True, skip_bad=True)
    assert pack(root, tmp_path / "d", options).manifest.rows == 1
    with open_dataset(tmp_path / "d") as dataset:
        width = dataset.size("image", 0)[1]
        assert items_of(dataset, "boxes", 0)["xyxy"][0, [0, 2]].tolist() == [
            np.float32(0.7 * width), width,
        ]  # fmt: skip


def test_clip_counts_what_it_leaves_out_and_is_named_only_where_it_helps(tmp_path, yolo):
    point = "0 0.5 0.5 0.2 0.2 1.5 0.5 2\n"
    outside = "0 1.5 0.5 0.2 0.2 0.5 0.5 2\n"
    data = "val: images/val\nkpt_shape: [1, 3]\n"
    root = yolo({"china": point + outside, "flower": outside * 2}, data)
    options = Options(workers=1, clip=True)
    notes = pack(root, tmp_path / "d", options).manifest.statistics.notes
    assert {(note.what, note.count) for note in notes} == {
        (f"{LEFT_OUT} (3 in all)", 2), (f"{POINTS_LEFT_OUT} (1 in all)", 1),
    }  # fmt: skip
    (root / "labels/val/china.txt").write_text("0 0.5 0.5 -0.2 0.2 0.5 0.5 2\n")
    with pytest.raises(DatasetError, match=r"has a negative width or height, .*; repair it\n"):
        pack(root, tmp_path / "e", options)


def test_lines_that_fit_neither_masks_nor_keypoints(tmp_path, yolo):
    root = yolo({"china": "0 0.5 0.5 0.25 0.5\n"})
    with pytest.raises(DatasetError, match="expected an outline, from which --masks makes a mask"):
        pack(root, tmp_path / "d", Options(workers=1, split="val", masks="semantic"))
    (root / "data.yaml").write_text("val: images/val\nkpt_shape: [1, 3]\n")
    message = "expected a class, 4 numbers of a box and 3 of each of 1 keypoints, got 4 numbers"
    with pytest.raises(DatasetError, match=message):
        pack(root, tmp_path / "d", ONE)
    (root / "labels" / "val" / "china.txt").write_text("0 0.5 0.5 0.25 0.5 1.5 0.5 2\n")
    with pytest.raises(DatasetError, match=r"keypoint 0 at \[1.5, 0.5\] is outside of the image"):
        pack(root, tmp_path / "d", ONE)
    (root / "labels" / "val" / "china.txt").write_text("0 0.5 0.5 0.25 0.5 0.5 0.5 3\n")
    with pytest.raises(DatasetError, match=r"expected a visibility of 0, 1 or 2, got 3"):
        pack(root, tmp_path / "d", ONE)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "data.yaml: expected YAML: while parsing"),
        ("!!python/object/apply:os.system [ls]", "data.yaml: expected names of splits"),
        ("- 1", "data.yaml: expected names of splits and classes, got list"),
        ("train: images/x\n", "images/x: expected a folder of images, or a .txt with"),
        (
            "train: images/train\nnames: {1: a}\n",
            "0, 1, ... without gaps, got none for 0",
        ),
        ("train: images/train\nkpt_shape: [17]\n", r"expected \[keypoints, 2 or 3\], got \['17'\]"),
        (
            "train: images/train\nnames: [a, a]\n",
            "names in data.yaml: two classes are named 'a'; rename one",
        ),
        (
            "train: images/train\nnames: [[a]]\n",
            "names in data.yaml: expected a list of up to 65536 names",
        ),
        ("train: [{a: b}]\n", "train in data.yaml: expected a path or a list of paths, got "),
        ("a: " + "[" * 100_000, "data.yaml: its values are nested too deeply"),
        (BOMB, "names in data.yaml: expected a list of up to 65536 names of classes"),
        (f"{BOMB}path: *n39\n", "data.yaml: path: expected one folder, got "),
        (f"{BOMB}nc: *n39\n".replace("names: [*n39]", ""), "data.yaml: nc: expected the number of"),
        (
            "train: images/train\nnc: 1" + "0" * 5000,
            "nc: expected the number of classes, got '1000",
        ),
        ("train: labels/train\n", "has no image in labels/train; check the path"),
    ],
)
def test_descriptions_that_cannot_be(tmp_path, yolo, data, message):
    with pytest.raises(UsageError, match=message):
        pack(yolo(LABELS, data), tmp_path / "d", ONE)


def test_words_lists_and_twins(tmp_path):
    """Names are text as it stands; a split may be a list; two images cannot share labels."""
    root = tmp_path / "yolo"
    for folder in ("images/a", "labels/a", "lists"):
        (root / folder).mkdir(parents=True)
    for name in ("images/a/0.png", "images/a/1.png"):
        Image.new("RGB", (20, 10)).save(root / name)
    boxes = "2 0.5 0.5 0.2 0.2\n3 0.95 0.5 0.2 0.2\n4 1.5 0.5 0.2 0.2\n"
    (root / "labels/a/0.txt").write_text(boxes)
    (root / "lists/train.txt").write_text("../images/a/0.png\n../images/a/1.png\n")
    names = ["no", "yes", "on", "null", "010", "1_000", "2026-01-02", "1e3", "0x1f"]
    (root / "data.yaml").write_text(
        f"train: lists/train.txt\nval:\ntest: ~\nnames: [{', '.join(names)}]\n"
    )
    code, _, said = call("pack", root, tmp_path / "d", "--workers=1", "--clip")
    assert code == 0, said
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("boxes").classes == tuple(names)
        assert [len(items_of(dataset, "boxes", n)["label"]) for n in (0, 1)] == [2, 0]
    Image.new("RGB", (20, 10)).save(root / "images/a/0.jpg")
    (root / "data.yaml").write_text("train: [images/a]\n")
    code, _, said = call("pack", root, tmp_path / "f", "--workers=1")
    assert code != 0
    for name in ("0.png", "0.jpg"):
        assert f"images/a/{name}: 2 images share the labels labels/a/0.txt" in said
