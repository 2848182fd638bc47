"""Packing folders of frames: order, numbers, classes; and folders that may be clips or classes."""

import numpy as np
import pytest
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import UsageError

CLIPS = Options(workers=1, kind="clips")


def make(root, names):
    """Images whose first pixel is their place in the list."""
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(root / name)
    return root


def packed(source, dest, options=CLIPS):
    pack(source, dest, options)
    with open_dataset(dest) as dataset:
        names = [field.name for field in dataset.schema.fields]
        rows = [
            (
                dataset.source(row),
                *(dataset.read(name, row).item() for name in names if name != "image"),
            )
            for row in range(len(dataset))
        ]
        return names, rows, dataset.schema


def test_numbers_in_names_count_as_numbers(tmp_path):
    names = [f"walk/b/img_{n}.png" for n in (10, 2, 1)] + ["run/a/3.png", "run/a/20.png"]
    fields, rows, schema = packed(make(tmp_path / "s", names), tmp_path / "d")
    assert fields == ["image", "clip", "frame", "label"]
    assert schema.field("label").classes == ("run", "walk")
    assert rows == [
        ("run/a/3.png", 0, 0, 0), ("run/a/20.png", 0, 1, 0), ("walk/b/img_1.png", 1, 0, 1),
        ("walk/b/img_2.png", 1, 1, 1), ("walk/b/img_10.png", 1, 2, 1),
    ]  # fmt: skip


def test_clips_without_classes_and_deeper_folders(tmp_path):
    fields, rows, _ = packed(
        make(tmp_path / "s", ["a/1.png", "b/1.png", "a/2.png"]), tmp_path / "d"
    )
    assert fields == ["image", "clip", "frame"]
    assert rows == [("a/1.png", 0, 0), ("a/2.png", 0, 1), ("b/1.png", 1, 0)]
    deep = make(tmp_path / "t", ["x/one/p/1.png", "x/one/1.png", "x/one-/1.png"])
    _, rows, _ = packed(deep, tmp_path / "e")
    assert [row[:2] for row in rows] == [
        ("x/one/1.png", 0),
        ("x/one/p/1.png", 1),
        ("x/one-/1.png", 2),
    ]


@pytest.mark.parametrize(
    "names",
    [
        [f"run/a/{n:03}.png" for n in range(4)] + [f"walk/b/{n:03}.png" for n in range(3)],
        [f"a/frame_{n}.png" for n in range(8, 12)] + [f"b/frame_{n}.png" for n in range(3)],
    ],
)
def test_numbered_images_in_folders_are_asked_about(tmp_path, names):
    source = make(tmp_path / "s", names)
    with pytest.raises(UsageError, match=r"--kind clips` packs frames, in order, .*--kind folder`"):
        pack(source, tmp_path / "d", Options(workers=1))
    fields, rows, _ = packed(source, tmp_path / "e", Options(workers=1, kind="folder"))
    assert fields == ["image", "label"]
    assert len(rows) == len(names)


@pytest.mark.parametrize(
    "names",
    [
        [f"cat/{n:03}.png" for n in range(4)] + [f"dog/{n:03}.png" for n in range(4)],
        [f"cat/big/{name}.png" for name in ("a1", "b7", "c3")],
        [f"cat/big/{n}.png" for n in (1, 2, 9)],
        ["cat/frame_1.png", "dog/other.png", "dog/frame.png"],
    ],
)
def test_other_folders_are_classes_as_before(tmp_path, names):
    fields, rows, _ = packed(make(tmp_path / "s", names), tmp_path / "d", Options(workers=1))
    assert fields == ["image", "label"]
    assert len(rows) == len(names)
