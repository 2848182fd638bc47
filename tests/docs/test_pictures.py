"""Every op that can be seen has its picture in docs/ops.md, and it is what the op does."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from stoker.ops.contract.registry import batch_ops

MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def pictures(root) -> ModuleType:
    """The script that draws them."""
    return script(root / "docs/images/ops.py")


@pytest.fixture(scope="module")
def batch_pictures(root) -> ModuleType:
    """The script that draws those of batch ops."""
    return script(root / "docs/images/batch_ops.py")


def script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"pictures_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_op_that_can_be_seen_has_a_picture_in_its_section(root, pictures):
    files = {path.stem: path.stat().st_size for path in (root / "docs/images/ops").glob("*.jpg")}
    assert sorted(files) == pictures.pictured(), "run: python docs/images/ops.py"
    assert sum(files.values()) < MOST_BYTES
    page = (root / "docs/ops.md").read_text()
    shown = dict(re.findall(r"^## (\w+)\n\n!\[[^]]+\]\(images/ops/(\w+)\.jpg\)$", page, re.M))
    assert shown == {name: name for name in pictures.pictured()}


@pytest.mark.parametrize("name", ["rotate", "jpeg_compression", "hsv_to_rgb"])
def test_a_picture_is_what_the_op_does(root, pictures, name):
    """Within what JPEG loses."""
    with Image.open(root / f"docs/images/ops/{name}.jpg") as kept:
        difference = np.abs(np.asarray(kept, np.int64) - np.asarray(pictures.draw(name)))
    assert difference.mean() < 8, "run: python docs/images/ops.py"


def test_the_script_writes_the_pictures_asked_for(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "FOLDER", tmp_path / "ops")
    pictures.main(["invert", "resize"])
    assert sorted(path.name for path in (tmp_path / "ops").iterdir()) == [
        "invert.jpg", "resize.jpg",
    ]  # fmt: skip


def test_every_batch_op_has_a_picture_in_its_section(root, batch_pictures):
    files = sorted(path.stem for path in (root / "docs/images/batch_ops").glob("*.jpg"))
    assert files == sorted(batch_ops()) == sorted(batch_pictures.DRAWN)
    page = (root / "docs/ops.md").read_text()
    shown = re.findall(r"^### (\w+)\n\n!\[[^]]+\]\(images/batch_ops/(\w+)\.jpg\)$", page, re.M)
    assert dict(shown) == {name: name for name in files}


@pytest.mark.parametrize("name", ["cutmix", "mosaic"])
def test_a_picture_of_a_batch_op_is_what_it_does(root, batch_pictures, name):
    with Image.open(root / f"docs/images/batch_ops/{name}.jpg") as kept:
        difference = np.abs(np.asarray(kept, np.int64) - np.asarray(batch_pictures.draw(name)))
    assert difference.mean() < 8, "run: python docs/images/batch_ops.py"
