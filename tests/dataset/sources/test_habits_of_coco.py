"""COCO files as people have them: read as meant, told in one line, or refused with a remedy.

All through `stoker pack`, in the process of the tests.
"""

import json
from typing import Any

import pytest
from PIL import Image

from stoker.dataset import open_dataset

CATEGORIES = [{"id": 1, "name": "cat"}]
BOX = {"id": 1, "image_id": 0, "category_id": 1, "bbox": [1, 1, 2, 2]}


@pytest.fixture
def coco(tmp_path, pack):
    """coco(parts, *flags) -> (exit code, all that it said), of four images in c/val2017."""

    def run(parts: dict[str, Any], *flags: object) -> tuple[int, str]:
        (tmp_path / "c/val2017").mkdir(parents=True)
        (tmp_path / "c/annotations").mkdir()
        for number in range(4):
            Image.new("RGB", (9, 8)).save(tmp_path / f"c/val2017/{number}.png")
        file = tmp_path / "c/annotations/instances_val2017.json"
        file.write_text(json.dumps(parts))
        return pack("c/annotations/instances_val2017.json", *flags)

    return run


def images(*names: str) -> list[dict[str, Any]]:
    return [
        {"id": number, "file_name": name, "width": 9, "height": 8}
        for number, name in enumerate(names or [f"{number}.png" for number in range(4)])
    ]


@pytest.mark.parametrize("categories", [CATEGORIES, []])
def test_a_file_of_images_alone_is_packed_without_boxes(tmp_path, coco, categories):
    code, out = coco(
        {"info": {}, "annotation_info": {}, "images": images(), "categories": categories}
    )
    assert (code, "json has no annotations: its images are packed with their ids" in out) == (0, 1)
    with open_dataset(tmp_path / "packed") as dataset:
        assert [field.name for field in dataset.schema.fields[:2]] == ["image", "image_id"]
        assert "boxes" not in {field.name for field in dataset.schema.fields}
        assert [int(dataset.read("image_id", number)) for number in range(len(dataset))] == [
            *range(4)
        ]


@pytest.mark.parametrize(
    ("parts", "flags", "said"),
    [
        ({}, ["--masks", "semantic"], "has no annotations to paint; leave --masks out"),
        ({"anotations": [BOX]}, [], "unknown key 'anotations'; did you mean 'annotations'?"),
        ({"annotations": None}, [], "Expected `array`, got `null` - at `$.annotations`; captions"),
        ({"annotations": [{"id": 1, "image_id": 0, "caption": "a"}]}, [], "captions, panoptic"),
        ({"annotations": [], "categories": []}, [], "expected images and categories, got none"),
        ({"images": images("a.png", "b.png")}, [], "none of 2 images, such as a.png, is in"),
        ({"images": images("v\\0.png", "v\\1.png")}, [], "not by a backslash"),
        ({"images": images("https://a.org/0.png")}, [], "it is an address: download the file"),
        ({"images": images("x" * 300)}, [], "is in none of"),
        (
            {"annotations": [{**BOX, "bbox": [0.1, 0.1, 0.5, 0.5]}]},
            [],
            "no box reaches beyond one pixel, such as [0.1, 0.1, 0.5, 0.5] of annotation 1",
        ),
        ({}, ["--images", "nowhere"], "--images: there is no folder nowhere"),
        ({}, ["--images", "/proc/sys"], "none of 4 images, such as 0.png, is in /proc/sys; name"),
    ],
)
def test_files_that_are_refused(coco, parts, flags, said):
    code, out = coco({"images": images(), "categories": CATEGORIES, **parts}, *flags)
    assert (code, said in out) == (2, True), out


@pytest.mark.parametrize(
    ("names", "flags", "code", "said"),
    [
        (["gone.png", "1.png", "2.png"], [], 1, "1 of 3 samples of"),
        (["gone.png", "1.png", "2.png"], ["--skip-bad"], 0, "left out as bad: 1 samples"),
        (
            ["0.png", "gone.png" * 40, "a\0.png"],
            [],
            1,
            "a\0.png: it cannot be read: its name has a",
        ),
        (["val2017/0.png", "val2017/1.png"], [], 0, "packed 2 samples"),
        (["0.png", "0.png", "1.png"], [], 0, "1 files are the images of several ids, such as 0.p"),
    ],
)
def test_images_are_found_though_the_first_is_missing(coco, names, flags, code, said):
    parts = {"images": images(*names), "categories": CATEGORIES, "annotations": []}
    found, out = coco(parts, *flags)
    assert (found, said in out) == (code, True), out
    assert ("gone.png: it cannot be read: No such file or directory" in out) == (
        names[0] == "gone.png"
    )


def test_a_part_of_a_download_is_packed(tmp_path, coco):
    """Its only image is none of those that are looked for first."""
    names = [*(f"gone{number}.png" for number in range(301)), "0.png"]
    parts = {"images": images(*names), "categories": CATEGORIES, "annotations": []}
    code, out = coco(parts, "--images", tmp_path / "c/val2017", "--skip-bad")
    assert (code, "packed 1 samples" in out) == (0, True), out


@pytest.mark.parametrize(
    ("name", "said"),
    [("cat", "2 categories are named 'cat'"), ("Cat", "the classes 'cat' and 'Cat' differ only")],
)
def test_categories_of_one_name_are_told(coco, name, said):
    categories = [*CATEGORIES, {"id": 2, "name": name}]
    code, out = coco({"images": images(), "categories": categories, "annotations": [BOX]})
    assert (code, said in out) == (0, True), out
