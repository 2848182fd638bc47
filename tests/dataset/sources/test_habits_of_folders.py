"""Image folders as people have them: read as meant, told in one line, or refused with a remedy.

All through `stoker pack`, in the process of the tests.
"""

import io
import os

import numpy as np
import pytest
from PIL import Image

from stoker.dataset import open_dataset

DARK = Image.new("RGB", (9, 8), (10, 20, 30))


def coded(image: Image.Image, form: str, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


PNG, JPEG = coded(DARK, "PNG"), coded(DARK, "JPEG")
BOTH = {"cat/0.png": PNG, "dog/1.png": PNG}


@pytest.fixture
def folder(tmp_path, pack):
    """folder({path: bytes}, *flags, links=) -> (exit code, all that it said)."""

    def run(files: dict[str, bytes], *flags: str, links: dict[str, str] | None = None):
        for name, data in files.items():
            path = tmp_path / "s" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not name.endswith("/"):
                path.write_bytes(data)
            else:
                path.mkdir()
        for name, target in (links or {}).items():
            os.symlink(target, tmp_path / "s" / name)
        return pack("s", *flags)

    return run


def classes(tmp_path) -> list[str]:
    """The class of each sample."""
    with open_dataset(tmp_path / "packed") as dataset:
        names = dataset.schema.field("label").classes
        return [names[int(dataset.read("label", number))] for number in range(len(dataset))]


@pytest.mark.parametrize(
    ("files", "found", "said"),
    [
        (("Cat/0.png", "cat/1.png"), ["Cat", "cat"], "the classes 'Cat' and 'cat' differ only in"),
        (("cat /0.png", "cat/1.png"), ["cat", "cat "], "the classes 'cat' and 'cat ' differ only"),
        (
            ("caf\u00e9/0.png", "cafe\u0301/1.png"),
            ["cafe\u0301", "caf\u00e9"],
            "the classes 'cafe\\u0301' and 'caf\\xe9' differ only in case, blanks or Unicode form",
        ),
        (
            ("bird/", "cat/0.png", "dog/1.png", "fish/notes.txt"),
            ["cat", "dog"],
            "2 folders have no image, so they are not classes, such as bird; to give them num",
        ),
        (
            ("cat/0.jpg", "cat/0.png", "dog/1.png"),
            ["cat", "cat", "dog"],
            "1 names are those of several images, such as cat/0.jpg and cat/0.png; each file is",
        ),
        (("cat/0.PNG", "dog/1.JPG"), ["cat", "dog"], "packed 2 samples"),
        (("cat/caf\u00e9.png", "cat/cafe\u0301.png", "d/0.png"), ["cat", "cat", "d"], "packed 3"),
        (
            ("@eaDir/0.png", "__MACOSX/0.png", "$RECYCLE.BIN/1.png", "cat/0.png", "dog/1.png"),
            ["cat", "dog"],
            "ignored: 1 folders of the system (@eaDir)",
        ),
        (
            ("cat/.ipynb_checkpoints/0.png", "cat/Thumbs.db", "cat/0.png", "dog/desktop.ini"),
            ["cat"],
            "ignored: 1 .db files ignored: 1 .ini files ignored: 1 hidden files or folders",
        ),
        (("cat/0.png ", "cat/1.png~", "cat/2.png"), ["cat"], "ignored: 1 .png~ files"),
    ],
)
def test_folders_that_are_packed(folder, tmp_path, files, found, said):
    code, out = folder({name: JPEG if "jpg" in name.lower() else PNG for name in files})
    assert (code, said in out) == (0, True), out
    assert classes(tmp_path) == found


@pytest.mark.parametrize(
    ("files", "flags", "said"),
    [
        (("0.jpg", "0.png", "1.jpg", "1.png"), "--kind folder", "(0.jpg and 0.png), which may be"),
        (("a/0.jpg", "a/0.png"), "--kind folder", "such as a/0.jpg and a/0.png"),
        (("data/cat/0.png", "data/dog/1.png"), "--kind folder", "may be the classes (cat, dog); "),
        (("x/y/a/0.png", "x/y/b/1.png"), "--kind folder", "all images are in x/y/, whose folders"),
        (("JPEGImages/0.jpg",), "--kind folder", "all images are in JPEGImages/, which would be"),
        (("images/val/0.png", "images/train/0.png"), "--kind parallel", "look like splits, not"),
        (("train/a/0.png", "val/a/0.png", "x/1.png"), "--kind folder", "splits (train, val), not"),
    ],
)
def test_folders_that_may_be_something_else(folder, files, flags, said):
    data = {name: JPEG if name.endswith("jpg") else PNG for name in files}
    code, out = folder(data)
    assert (code, said.removeprefix("such as ") in out) == (2, True), out
    code, out = folder(data, *flags.split())
    assert (code, f"packed {len(files)} samples" in out) == (0, True), out


def test_links(folder, tmp_path):
    """Links to folders are followed; circles are counted; a link without an end is a bad sample."""
    links = {"cat/here": ".", "dog/up": "..", "cow": "../elsewhere"}
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/2.png").write_bytes(PNG)
    code, out = folder(BOTH, links=links)
    assert (code, "ignored: 2 links to a folder that they are in" in out) == (0, True), out
    assert classes(tmp_path) == ["cat", "cow", "dog"]
    code, out = folder(BOTH, "--overwrite", links={"cat/1.png": "1.png", "dog/2.png": "/no/2.png"})
    assert (code, "2 of 5 samples of" in out) == (1, True), out
    assert "cat/1.png: it cannot be read: Too many levels of symbolic links" in out
    assert "dog/2.png: it cannot be read: No such file or directory" in out


def frames(form: str) -> bytes:
    images = [Image.new("RGB", (9, 8), (level, 0, 0)) for level in (0, 90, 180)]
    return coded(images[0], form, save_all=True, append_images=images[1:])


DEEP = Image.fromarray(np.full((8, 9), 60_000, np.uint16))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.gif", frames("GIF"), "a.gif: it is a GIF of 3 frames; store the frame you want by its"),
        ("a.webp", frames("WEBP"), "it is a WebP of 3 frames"),
        ("a.png", frames("PNG"), "it is a PNG of 3 frames"),
        ("a.tif", frames("TIFF"), "it is a TIFF of 3 frames"),
        ("a.tif", coded(DEEP, "TIFF"), "mode I;16, which does not fit 8 bits per channel; pack it"),
        ("a.png", coded(DEEP, "PNG"), "16 bits per channel, but the field has 8: pack one channel"),
        ("a.png", b"", "a.png: it is empty"),
        ("a.png", b"<html>404</html>", "expected a JPEG, PNG, BMP, GIF, TIFF, WebP or PNM, but it"),
    ],
)
def test_files_that_are_bad_samples(folder, name, data, said):
    code, out = folder({**BOTH, f"cat/{name}": data})
    assert (code, said in out, "1 of 3 samples" in out) == (1, True, True), out


def clear(mode: str) -> Image.Image:
    """An image with an alpha channel, or a transparent color of its palette."""
    return DARK.convert("RGBA") if mode == "RGBA" else DARK.quantize(2)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("0.jpg", PNG, "packed 1 samples"),
        ("0.png", JPEG, "packed 1 samples"),
        (
            "0.png",
            coded(DARK, "WEBP", lossless=True),
            "WebP re-encoded as PNG without loss: 1 file",
        ),
        ("0.png", coded(clear("RGBA"), "PNG"), "transparency present: stored, but ignored when de"),
        (
            "0.png",
            coded(clear("P"), "PNG", transparency=0),
            "transparency present: stored, but ign",
        ),
        ("0.gif", coded(clear("P"), "GIF", transparency=0), "GIF re-encoded as PNG without its tr"),
        ("0.tif", coded(clear("RGBA"), "TIFF"), "TIFF re-encoded as PNG without its transparency"),
        ("0.jpg", coded(DARK.convert("CMYK"), "JPEG"), "JPEG stored unchanged, so its crops are"),
    ],
)
def test_files_that_are_packed_by_what_they_hold(folder, tmp_path, name, data, said):
    code, out = folder({name: data})
    assert (code, said in out) == (0, True), out
    with open_dataset(tmp_path / "packed") as dataset:
        stored = bytes(dataset.read("image", 0))
    with Image.open(io.BytesIO(stored)) as image:
        assert np.abs(np.asarray(image.convert("RGB")).astype(int) - DARK).max() <= 12


@pytest.mark.parametrize(
    ("image", "mask", "shown"),
    [
        ("A", "a", "'masks/a.png'"),
        ("caf\u00e9", "cafe\u0301", "'masks/cafe\\u0301.png'"),
        ("a ", "a", "'masks/a.png'"),
        ("a", "a_mask", "'masks/a_mask.png'"),
        ("img_7", "mask_7", "'masks/mask_7.png'"),
    ],
)
def test_partners_whose_names_only_look_the_same(folder, image, mask, shown):
    gray = coded(Image.new("L", (9, 8)), "PNG")
    code, out = folder({f"images/{image}.jpg": JPEG, f"masks/{mask}.png": gray})
    told = f"{shown} may be meant, whose name differs in a word, case, blanks or Unicode form; ren"
    assert (code, told in out) == (1, True), out


def test_clips_with_frames_of_one_name_and_classes_that_look_alike(folder):
    files = {f"{name}/v/f_{number}.png": PNG for name in ("Run", "run") for number in range(2)}
    code, out = folder({**files, "run/v/f_0.jpg": JPEG}, "--kind", "clips")
    assert (code, "the classes 'Run' and 'run' differ only in case" in out) == (0, True), out
    assert "1 names are those of several images, such as run/v/f_0.jpg and run/v/f_0.png" in out
