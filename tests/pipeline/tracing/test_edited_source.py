"""Files that are edited between their import and the trace of a pipeline."""

import importlib
import re
import sys
from types import ModuleType

import numpy as np
import pytest

from stoker.protocol.errors import BuildError

TEXT = """
from stoker import ops
from stoker.pipeline import one_of, pipeline


def choose(image):
    return ops.invert(image, p=1.0) if image.mean() < 128 else image


def double(image):
    return ops.center_crop(ops.pad(image, padding=1), size=2)


@pipeline
def train(sample):
    image = sample.image
    if sample.flag:
        image = ops.horizontal_flip(image, p=1.0)
    return {"image": image}


@pipeline
def chosen(sample):
    return {"image": one_of(sample.image, choices=[choose, choose])}


@pipeline
def doubled(sample):
    return {"image": one_of(sample.image, choices=[double, double])}


@pipeline
class Flip:
    def define(self, sample):
        image = ops.vertical_flip(sample.image, p=1.0) if sample.flag else sample.image
        return {"image": image}
"""
MISLEADING = (
    TEXT.replace("horizontal_flip", "vertical_flip")
    .replace("vertical_flip(sample.image", "horizontal_flip(sample.image")
    .replace("< 128", "< 0")
)
"""The same lines with other code, which a trace would take for the code that was imported."""
IMAGE = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)


@pytest.fixture(params=[MISLEADING, "# one more line\n" + TEXT, "", "def (:", TEXT])
def module(request, tmp_path, monkeypatch) -> ModuleType:
    """A module whose file is another one since its import; the last one is not."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "edited_source", raising=False)
    (tmp_path / "edited_source.py").write_text(TEXT)
    module = importlib.import_module("edited_source")
    (tmp_path / "edited_source.py").write_text(request.param)
    module.is_edited = request.param != TEXT
    yield module
    sys.modules.pop("edited_source", None)


def test_a_pipeline_is_the_one_that_was_imported(module):
    for flag in (True, False):
        given = {"image": IMAGE, "flag": np.bool_(flag)}
        flipped = IMAGE[:, ::-1] if flag else IMAGE
        assert np.array_equal(module.train(given)["image"], flipped)
        turned = IMAGE[::-1] if flag else IMAGE
        assert np.array_equal(module.Flip()(given)["image"], turned)


def test_a_function_without_branches_needs_no_source(module):
    assert np.array_equal(module.doubled({"image": IMAGE})["image"], IMAGE)


def test_a_function_with_branches_is_refused(module):
    if not module.is_edited:
        assert np.array_equal(module.chosen({"image": IMAGE})["image"], 255 - IMAGE)
        return
    file = re.escape(module.__file__)
    with pytest.raises(BuildError, match=rf"{file}:6: the file was edited after choose was import"):
        module.chosen({"image": IMAGE})
