"""YOLO datasets as people have them: read as meant, told in one line, or refused with a remedy.

All through `stoker pack`, in the process of the tests.
"""

import pytest
from PIL import Image

from stoker.dataset import open_dataset
from stoker.protocol.ragged import unpack_items

SPLIT = "train: images/train\n"
BOX = "0 0.5 0.5 0.2 0.2\n"
OTHERS = "".join(
    f"{key}: 1\n"
    for key in (
        *("input_shape", "img_shape", "image_shape", "shape", "attr_names", "stuff_names"),
        *("img_path", "val_path", "test_path", "text", "test2017", "test-dev", "validation"),
    )
)
"""Keys of other programs."""


@pytest.fixture
def yolo(tmp_path, pack):
    """yolo(data.yaml, {path: text}, *flags) -> (exit code, all that it said), of two images."""

    def run(data: str, texts: dict[str, str], *flags: str) -> tuple[int, str]:
        (tmp_path / "y/images/train").mkdir(parents=True, exist_ok=True)
        for number in range(2):
            Image.new("RGB", (20, 10)).save(tmp_path / f"y/images/train/{number}.png")
        for name, text in {"data.yaml": data, **texts}.items():
            path = tmp_path / "y" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text:
                path.write_text(text)
        return pack("y", *flags)

    return run


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (f"{SPLIT}nc: 3\nnames: [a, b]\n", "data.yaml: nc is 3, but 2 classes have names; correct"),
        (f"{SPLIT}nc: 1\nnames: [a, b]\n", "data.yaml: nc is 1, but 2 classes have names"),
        (f"{SPLIT}nc: two\nnames: [a, b]\n", "nc: expected the number of classes, got 'two'"),
        (f"{SPLIT}names: {{0: a, 2: b}}\n", "without gaps, got none for 1: {'0': 'a', '2': 'b'}"),
        (f"{SPLIT}names: [a]\nnames: [b]\n", "data.yaml, line 3: 'names' is in line 2 already"),
        (f"{SPLIT}names:\n  0: a\n  0: b\n", "data.yaml, line 4: '0' is in line 3 already"),
        (f"{SPLIT}names: {{0: a, 1: b, 1: c}}\n", "data.yaml, line 2: '1' is in line 2 already"),
        (f"{SPLIT}kpt_shap: [3, 2]\nnames: [a]\n", "'kpt_shap'; did you mean 'kpt_shape'?"),
        (f"{SPLIT}keypoint_shape: [3, 2]\nnc: 1\n", "did you mean 'kpt_shape'?"),
        (f"{SPLIT}nmaes: [a]\n", "unknown key 'nmaes'; did you mean 'names'?"),
        (f"{SPLIT}nc: 0\n", "nc: expected the number of classes, got '0'"),
        (f"{SPLIT}names: []\n", "expected a list of up to 65536 names of classes"),
        (f"train: {'x' * 300}\n", "expected a folder of images, or a .txt with the path"),
        ("trian: images/train\nnames: [a]\n", "unknown key 'trian'; did you mean 'train'?"),
        (f"{SPLIT}vall: images/val\nnames: [a]\n", "unknown key 'vall'; did you mean 'val'?"),
        ("Train: images/train\nnames: [a]\n", "unknown key 'Train'; did you mean 'train'?"),
        (f"{SPLIT}classes: [a]\n", "unknown key 'classes'; did you mean 'names'?"),
        (f"{SPLIT}path: [a]\nnames: [a]\n", "data.yaml: path: expected one folder, got ['a']"),
        ("train: images\\train\nnames: [a]\n", "folders are separated by / here, not by a back"),
        ("path: ../gone\ntrain: a\nnames: [a]\n", "there is no folder '../gone', which path names"),
    ],
)
def test_a_data_yaml_that_is_refused(yolo, data, said):
    code, out = yolo(data, {"labels/train/0.txt": BOX})
    assert (code, said in out) == (2, True), out


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (f"path: ../gone\n{SPLIT}names: [a]\n", "there is no folder '../gone', which path names"),
        (f"path: ~/y\n{SPLIT}names: [a]\n", "; ~ is not expanded here: write the path of the"),
        (f"path: $DATA/y\n{SPLIT}names: [a]\n", "; variables are not expanded here"),
        (f"path: .\n{SPLIT}names: [Cat, cat]\n", "the classes 'Cat' and 'cat' differ only in case"),
        (f"{SPLIT}nc: 1\nnames: [a]\n", "1 images without a file of labels: packed without"),
        (f"{SPLIT}nc: 1\n", "1 images without a file of labels"),
        (f"{SPLIT}names: {{1: b, 0: a}}\n", "a: 1, b: 0"),
        (f"{SPLIT}nc: 1\npatch: 9\n", "the key 'patch' is not read; did you mean 'path'?"),
        (f"{SPLIT}nc: 1\ntests: a\n", "the key 'tests' is not read; did you mean 'test'?"),
        (f"{SPLIT}nc: 1\n{OTHERS}", "1 images without a file of labels"),
        (f"{SPLIT}names: [a]\nname: my photos\nversion: 2\nroboflow: {{x: 1}}\n", "a: 1"),
    ],
)
def test_a_data_yaml_that_is_packed_with_a_line_about_it(yolo, data, said):
    code, out = yolo(data, {"labels/train/0.txt": BOX})
    assert (code, said in out) == (0, True), out
    assert ("warning" in out) == any(one in out for one in ("differ", "which path", "not read"))


@pytest.mark.parametrize(
    ("label", "flags", "said"),
    [
        ("1 0.5 0.5 0.2 0.2", [], "line 1: expected a class from 0 to 0, got 1"),
        ("0 10 5 4 2", [], "line 1: expected parts of the image's sides, from 0 to 1, got 10; div"),
        ("0 10 5 4 2", ["--clip"], "divide numbers in pixels by the image's width and height"),
        ("0 10 1 15 1 15 5", ["--clip", "--masks", "semantic"], "from 0 to 1, got 15"),
        (
            "0 0.5 0.5 0.2 0.2 0.9",
            [],
            "5 numbers after the class; if the fifth is a confidence",
        ),
        ("0 0.9 0.5 0.4 0.2", [], "is outside of the image"),
        ("0 0,5 0,5 0,1 0,2", [], "line 1: expected numbers, got '0 0,5"),
    ],
)
def test_labels_that_are_bad(yolo, label, flags, said):
    code, out = yolo(f"{SPLIT}nc: 1\n", {"labels/train/0.txt": label}, *flags)
    assert (code, said in out) == (1, True), out
    assert "labels/train/0.txt: line 1" in out


def test_labels_behind_links_and_absolute_paths(yolo, tmp_path):
    """Links to folders are followed for labels as for images; a split may be an absolute path."""
    root = tmp_path / "y"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/2.txt").write_text(BOX * 3)
    for folder in ("images", "labels"):
        (root / folder / "train").mkdir(parents=True, exist_ok=True)
        (root / folder / "train/more").symlink_to(tmp_path / "elsewhere")
    Image.new("RGB", (20, 10)).save(tmp_path / "elsewhere/2.png")
    data = f"train: {root}/images/train\nnames: [a]\n"
    code, out = yolo(data, {"labels/train/0.txt": BOX, "labels/train/.hidden/1.txt": BOX})
    assert (code, "packed 3 samples" in out, "a: 4" in out) == (0, True, True), out
    assert "ignored: 1 images without a file of labels" in out


@pytest.mark.parametrize("place", [".", "./", "./photos"])
def test_images_and_labels_in_one_folder(yolo, tmp_path, place):
    folder = tmp_path / "y" / place
    folder.mkdir(parents=True)
    Image.new("RGB", (20, 10)).save(folder / "0.png")
    (folder / "0.txt").write_text(BOX)
    (tmp_path / "y/labels/train").mkdir(parents=True)
    for number in range(2):
        (tmp_path / f"y/labels/train/{number}.txt").write_text(BOX)
    code, out = yolo(f"train: {place}\nnames: [a]\n", {})
    counted = "a: 3" if place[-1] != "s" else "a: 1"
    assert (code, counted in out, "without" in out) == (0, True, False), out
    assert ".txt files" not in out


def test_labels_of_other_images_alone_are_refused(yolo):
    code, out = yolo(f"{SPLIT}names: [a]\n", {"labels/train/7.txt": BOX}, "--skip-bad")
    assert (code, "none of its 2 images has a file of labels" in out) == (2, True), out


def test_outlines_without_masks_are_boxes_and_counted(yolo, tmp_path):
    labels = {"labels/train/0.txt": "0 0.1 0.1 0.5 0.1 0.5 0.5\n" + BOX, "labels/train/1.txt": ""}
    code, out = yolo(f"{SPLIT}names: [a]\n", labels)
    told = "outlines packed as the boxes around them, which --masks would paint (1 in all)"
    assert (code, told in out) == (0, True), out
    with open_dataset(tmp_path / "packed") as dataset:
        fields = dataset.schema.field("boxes").items.fields
        boxes = unpack_items(fields, dataset.read("boxes", 0))["xyxy"]
    assert boxes.tolist() == [[2, 1, 10, 5], [8, 4, 12, 6]]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("labels/0.txt", "expected labels/train/0.txt for images/train/0.png;"),
        ("labels/train/0.TXT", "got 1 .TXT files among the labels"),
        ("labels/train/0.xml", "got 1 .xml files among the labels"),
        ("images/train/0.txt", "got 1 .txt files; an empty file says that an image has no obj"),
    ],
)
def test_images_of_which_none_has_labels_are_refused(yolo, place, said):
    code, out = yolo(f"{SPLIT}names: [a]\n", {place: BOX})
    assert (code, "none of its 2 images has a file of labels" in out) == (2, True), out
    assert said in out


@pytest.mark.parametrize(
    ("names", "code", "said"),
    [
        ("a\n\nb\n", 2, "classes.txt, line 2 is blank, but each line is the name of a class"),
        ("\na\n", 2, "classes.txt, line 1 is blank"),
        ("a\r\nb \r\n\r\n  \r\n", 0, "a: 1, b: 0"),
    ],
)
def test_a_blank_line_among_classes_would_move_their_numbers(yolo, names, code, said):
    found, out = yolo("", {"labels/train/0.txt": BOX, "classes.txt": names}, "--split=train")
    assert (found, said in out) == (code, True), out


def test_a_list_of_another_system_says_what_its_paths_lack(yolo):
    lines = "images\\train\\0.png\nhttps://example.org/1.png\n~/2.png\nC:/3.png\na\0.png\n"
    code, out = yolo("train: list.txt\nnames: [a]\n", {"list.txt": lines})
    assert code == 1
    for said in ("not by a backslash", "it is an address", "another computer, with Windows", "NUL"):
        assert said in out
