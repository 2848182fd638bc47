"""Kinds of bare arrays in process: a mask never gets a new number, and what is unclear is asked."""

import numpy as np
import pytest
import skimage.data

from stoker import ops
from stoker.pipeline import pipeline
from stoker.protocol.errors import UsageError

IMAGE = skimage.data.astronaut()[:96, :128]
CLASSES = np.where(IMAGE[..., 0] > 120, 7, 0).astype(np.uint8)


@pipeline
def smaller(sample):
    image, mask = ops.resize(sample.image, sample.mask, size=(31, 45))
    return {"image": image, "mask": mask}


@pipeline
def of_target(sample):
    image, mask = ops.resize(sample.image, sample.target, size=(31, 45))
    return {"image": image, "mask": mask}


WANTED = smaller({"image": IMAGE, "mask": CLASSES})["mask"]


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int64", "int16", "uint16", "uint32"])
@pytest.mark.parametrize("deep", [False, True])
def test_a_mask_keeps_its_numbers_in_every_form(dtype, deep):
    mask = CLASSES.astype(dtype)
    got = smaller({"image": IMAGE, "mask": mask[..., None] if deep else mask})["mask"]
    assert got.shape == (31, 45)
    assert np.array_equal(got, WANTED.astype(dtype))


@pipeline
def mixed(sample):
    image, mask = ops.resize(sample.image, sample.mask, size=(31, 45))
    return {"image": ops.mixup(image), "mask": mask}


def test_frames_and_batches_keep_them_too():
    deep = CLASSES[..., None]
    frames = smaller({"image": [IMAGE] * 2, "mask": [deep] * 2})["mask"]
    rows = mixed.batch([{"image": IMAGE, "mask": deep}] * 8)
    for got in (*frames, *(row["mask"] for row in rows)):
        assert np.array_equal(got, WANTED)


@pytest.mark.parametrize("value", [CLASSES[..., None], CLASSES[..., None].copy()])
def test_gray_or_mask_must_be_said(value):
    with pytest.raises(UsageError, match=r'is uint8 of shape .*kinds=\{"target": "mask"'):
        of_target({"image": IMAGE, "target": value})
    got = of_target({"image": IMAGE, "target": value}, kinds={"target": "mask"})["mask"]
    assert np.array_equal(got, WANTED)
    gray = of_target({"image": IMAGE, "target": value}, kinds={"target": "image"})["mask"]
    assert gray.shape == (31, 45, 1)
    assert len(np.unique(gray)) > 2


@pytest.mark.parametrize("value", [IMAGE, (IMAGE[..., :1] / 255).astype(np.float32)])
def test_a_mask_with_the_shape_of_an_image_must_be_said(value):
    with pytest.raises(UsageError, match="which ops filter, or a mask"):
        smaller({"image": IMAGE, "mask": value})
    assert smaller({"image": IMAGE, "mask": value}, kinds={"mask": "image"})["mask"].ndim == 3


def test_one_pipeline_serves_both_kinds():
    fields = {"image": IMAGE, "target": CLASSES}
    mask = of_target(fields)["mask"]
    gray = of_target(fields, kinds={"target": "image"})["mask"]
    assert (mask.shape, gray.shape) == ((31, 45), (31, 45, 1))
    assert np.array_equal(of_target(fields)["mask"], WANTED)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"msk": "mask"}, "expected a field among image, mask and a kind among"),
        ({"mask": "masks"}, "got 'mask': 'masks'"),
        ({"image": "mask"}, r"a mask is whole numbers or bools of \(H, W\)"),
        ({"mask": "boxes"}, "a boxes is a dict of arrays, with xyxy or xy"),
    ],
)
def test_kinds_that_do_not_fit(kinds, message):
    with pytest.raises(UsageError, match=message):
        smaller({"image": IMAGE, "mask": CLASSES}, kinds=kinds)
