"""The segmentation example: its data are aligned, its preview is true, its whole course runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from warm import Script

EXAMPLE = Path(__file__).parents[2] / "examples" / "segmentation"


def run(*arguments: str, cwd: Path) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the demo in small, once for all tests; return its folder and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    out = folder / "demo"
    some = ("--pairs", "48", "--epochs", "2")
    return out, run(str(EXAMPLE / "demo.py"), "--out", str(out), *some, cwd=folder)


@pytest.fixture(scope="module")
def data(demo: tuple[Path, str]) -> Path:
    """Return the folder of the images and masks that the demo made."""
    return demo[0] / "source"


@pytest.mark.slow
def test_every_image_has_its_mask(data: Path) -> None:
    images = sorted(p.relative_to(data / "images") for p in data.glob("images/*/*.jpg"))
    masks = sorted(p.relative_to(data / "masks") for p in data.glob("masks/*/*.png"))
    assert [p.with_suffix("") for p in images] == [p.with_suffix("") for p in masks]
    assert len(images) == 48
    classes = json.loads((data / "classes.json").read_text())
    assert sorted({p.parts[0] for p in images}) == sorted(classes["labels"])
    sizes = set()
    for image, mask in zip(images, masks, strict=True):
        with Image.open(data / "images" / image) as one, Image.open(data / "masks" / mask) as two:
            assert one.size == two.size
            assert (one.mode, two.mode) == ("RGB", "L")
            assert all(400 <= side <= 600 for side in one.size)
            assert np.asarray(two).max() < classes["mask_classes"]
            sizes.add(one.size)
    assert len(sizes) > 20


@pytest.mark.slow
def test_masks_follow_the_pixels(data: Path) -> None:
    """Within an image, knowing a pixel's mask class tells much about its color."""
    explained = []
    for path in data.glob("images/*/*.jpg"):
        with Image.open(path) as image:
            pixels = np.asarray(image, np.float64).mean(axis=2)
        with Image.open(data / "masks" / path.parent.name / f"{path.stem}.png") as image:
            mask = np.asarray(image)
        within = sum(pixels[mask == k].var() * (mask == k).mean() for k in np.unique(mask))
        explained.append(1 - within / pixels.var())
    assert np.median(explained) > 0.4


def test_the_preview_shows_the_images_and_their_masks(tmp_path: Path) -> None:
    code = (
        "import numpy as np, preview, segmentation\n"
        "gray = np.full((8, 3, 16, 16), 0.5, np.float32)\n"
        "mean = np.float32(segmentation.MEAN)[:, None, None]\n"
        "std = np.float32(segmentation.STD)[:, None, None]\n"
        "masks = np.zeros((8, 16, 16), np.uint8)\n"
        f"preview.write({str(tmp_path / 'sheet.png')!r}, (gray - mean) / std, masks)\n"
        "print(*preview.PALETTE[0])\n"
    )
    with Script("-c", code, cwd=EXAMPLE, stdout=subprocess.PIPE) as drawing:
        printed = drawing.communicate(timeout=60)[0]
    assert drawing.returncode == 0
    color = np.array(printed.split(), np.float64)
    with Image.open(tmp_path / "sheet.png") as image:
        pixels = np.asarray(image).astype(np.float64)
    assert pixels.shape == (2 * 20, 4 * 36, 3)
    assert np.abs(pixels[:16, :16] - 127.5).max() <= 1
    assert np.abs(pixels[:16, 16:32] - (127.5 + color) / 2).max() <= 1


@pytest.mark.slow
def test_the_demo_runs_and_leaves_nothing(demo: tuple[Path, str]) -> None:
    """Every step, the same digests, no process left (the fixture agrees)."""
    out, text = demo
    losses = [float(found) for found in re.findall(r"images/s, loss ([\d.]+)", text)]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    digests = re.findall(r"workers?: +([0-9a-f]{32})", text)
    assert len(digests) == 2
    assert digests[0] == digests[1]
    assert "no process is left" in text
    with Image.open(out / "preview.png") as image:
        assert image.size[0] > 512
        assert len(image.getcolors(2**24) or []) > 1000
