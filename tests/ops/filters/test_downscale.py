"""Downscale: two resizes of Pillow, with the sizes and interpolations of Albumentations'."""

import cv2
import numpy as np
import pytest
from PIL import Image

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import Downscale, ParameterError, Resize

FILTERS = {
    "nearest": Image.NEAREST,
    "bilinear": Image.BILINEAR,
    "bicubic": Image.BICUBIC,
    "lanczos": Image.LANCZOS,
}


def test_it_is_two_resizes_of_pillow(run_op, photo):
    height, width = photo.shape[:2]
    for down, up in (("nearest", "bilinear"), ("bilinear", "nearest"), ("lanczos", "bicubic")):
        op = Downscale((0.3, 0.3), down, up, p=1)
        small = (int(width * 0.3 + 0.5), int(height * 0.3 + 0.5))
        expected = Image.fromarray(photo).resize(small, FILTERS[down])
        expected = np.asarray(expected.resize((width, height), FILTERS[up]))
        got = run_op(op, [("image", photo)]).outputs[0]
        assert np.abs(got.astype(int) - expected).max() <= 1


def test_area_down_is_opencvs(run_op, photo):
    image = photo[:200, :240].copy()
    small = cv2.resize(image, None, fx=0.35, fy=0.35, interpolation=cv2.INTER_AREA)
    assert small.shape == (70, 84, 3)
    expected = np.asarray(Image.fromarray(small).resize((240, 200), Image.BILINEAR))
    op = Downscale((0.35, 0.35), down="area", up="bilinear", p=1)
    got = run_op(op, [("image", image)]).outputs[0]
    assert np.abs(got.astype(int) - expected).max() <= 2  # one level for each of two resizes


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_it_is_two_calls_of_resize(run_op, noise, dtype):
    """Of any number of channels, sides that become one pixel, and both engines."""
    for shape, channels in (((31, 57), 5), ((2, 90), 1), ((1, 1), 3)):
        image = noise((*shape, channels)).astype(dtype)
        for key in range(6):
            op = Downscale((0.01, 1.0), "area", "lanczos", p=1)
            fast, slow = (
                run_op(op, [("image", image)], key, arithmetic=how) for how in (COMPILED, PLAIN)
            )
            scale = float(fast.record["scale"])
            size = tuple(max(int(side * scale + 0.5), 1) for side in shape)
            small = run_op(Resize(size, "area"), [("image", image)]).outputs[0]
            expected = run_op(Resize(shape, "lanczos"), [("image", small)]).outputs[0]
            assert fast.outputs[0].tobytes() == expected.tobytes() == slow.outputs[0].tobytes()


def test_the_scale_is_uniform_in_its_range(run_op):
    op = Downscale((0.2, 0.6), p=0.5)
    records = [run_op.draw(op, key, 10, 10) for key in range(400)]
    scales = np.array([float(record["scale"]) for record in records])
    assert scales.min() >= 0.2
    assert scales.max() < 0.6
    assert abs(scales.mean() - 0.4) < 0.02
    assert 150 < sum(int(record["apply"]) for record in records) < 250


def test_without_chance_or_at_scale_one_nothing_changes(run_op, photo):
    for op in (Downscale(p=0), Downscale((1, 1), "lanczos", "area", p=1)):
        assert (run_op(op, [("image", photo)]).outputs[0] == photo).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Downscale((0, 0.5)),
            "downscale: expected scale_range to be (low, high) with low <= high, above 0 and at "
            "most 1, got (0, 0.5)",
        ),
        (
            lambda: Downscale(0.25),
            "downscale: expected scale_range to be (low, high) with low <= high, above 0 and at "
            "most 1, got 0.25",
        ),
        (
            lambda: Downscale((2, 4)),
            "downscale: expected scale_range to be (low, high) with low <= high, above 0 and at "
            "most 1, got (2, 4)",
        ),
        (
            lambda: Downscale(down="INTER_AREA"),
            "downscale: expected down to be one of nearest, bilinear, bicubic, lanczos, area, got "
            "'INTER_AREA'",
        ),
        (
            lambda: Downscale(up=1),
            "downscale: expected up to be one of nearest, bilinear, bicubic, lanczos, area, got 1",
        ),
    ],
)
def test_messages(make, message):
    with pytest.raises(ParameterError) as caught:
        make()
    assert str(caught.value) == message
