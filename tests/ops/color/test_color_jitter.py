"""color_jitter against Pillow's ImageEnhance and torchvision's float formulas, step by step."""

import colorsys
import itertools

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from stoker.ops import ColorJitter
from stoker.ops.color.color_jitter import write_order
from stoker.ops.kernels.color import luma, plain_luma

STEPS = ("brightness", "contrast", "saturation", "hue")
ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "saturation": ImageEnhance.Color,
}
FACTORS = [0.0, 0.3, 0.999, 1.0, 1.37, 2.5]


def record_with(as_record, order=range(4), **changes):
    record = as_record(ColorJitter.record)
    for step in STEPS:
        record[step] = changes.get(step, 0.0 if step == "hue" else 1.0)
    record["order"] = list(order)
    return record


def torchvision(image: np.ndarray, step: str, factor: float) -> np.ndarray:
    """torchvision 0.2x, transforms._functional_tensor, in float64 without the final truncation."""
    pixels = image.astype(float)
    gray = pixels @ [0.2989, 0.587, 0.114]
    if step == "brightness":
        return np.clip(factor * pixels, 0, 255)
    if step == "contrast":
        return np.clip(factor * pixels + (1 - factor) * gray.mean(), 0, 255)
    if step == "saturation":
        return np.clip(factor * pixels + (1 - factor) * gray[..., None], 0, 255)
    flat = pixels.reshape(-1, 3) / 255
    turned = [
        colorsys.hsv_to_rgb((h + factor) % 1.0, s, v)
        for h, s, v in (colorsys.rgb_to_hsv(*p) for p in flat)
    ]
    return np.array(turned).reshape(pixels.shape) * 255


def picture(photo, noise):
    """A photograph's middle next to noise and all corners of the color cube."""
    cube = np.array(list(itertools.product((0, 1, 127, 128, 254, 255), repeat=3)), np.uint8)
    parts = (photo[100:140, 200:260], noise((40, 60, 3)), np.resize(cube, (40, 60, 3)))
    return np.ascontiguousarray(np.concatenate(parts))


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("step", STEPS[:3])
def test_steps_are_torchvisions_and_pillows(run_op, as_record, photo, noise, step, factor):
    image = picture(photo, noise)
    record = record_with(as_record, **{step: factor})
    got = run_op(ColorJitter(), [("image", image)], record=record).outputs[0].astype(int)
    rounding = 0.51 + 0.54 * abs(1 - factor)  # of the result, and of the gray it blends with
    assert np.abs(got - torchvision(image, step, factor)).max() <= rounding
    enhanced = np.asarray(ENHANCERS[step](Image.fromarray(image)).enhance(factor)).astype(int)
    assert np.abs(got - enhanced).max() <= 1


@pytest.mark.parametrize("turn", [-0.5, -0.2, -1 / 6, 0.0, 0.01, 1 / 3, 0.5])
def test_hue_within_one_of_torchvision(run_op, as_record, photo, noise, turn):
    image = picture(photo, noise)
    record = record_with(as_record, hue=turn)
    got = run_op(ColorJitter(), [("image", image)], record=record).outputs[0]
    assert np.abs(got - torchvision(image, "hue", turn)).max() <= 0.51
    assert (got.max(-1) == image.max(-1)).all()
    assert (got.min(-1) == image.min(-1)).all()


def test_gray_is_pillows(noise):
    image = noise((64, 64, 3))
    expected = np.asarray(Image.fromarray(image).convert("L"))
    assert (plain_luma(image.astype(np.int64))[..., 0] == expected).all()
    assert int(luma(*np.uint8([255, 255, 255]))) == 255


def test_factors_of_one_change_nothing(run_op, noise):
    image = noise((40, 50, 3))
    for key in range(5):
        assert (run_op(ColorJitter(), [("image", image)], key).outputs[0] == image).all()


def test_order_matters_and_is_kept(run_op, as_record, photo):
    image = np.ascontiguousarray(photo[:64, :64])
    changes = {"brightness": 1.6, "contrast": 0.5, "saturation": 1.9, "hue": 0.3}
    results = set()
    for order in itertools.permutations(range(4)):
        record = record_with(as_record, order, **changes)
        got = run_op(ColorJitter(), [("image", image)], record=record).outputs[0]
        expected = image
        for step in order:
            single = record_with(as_record, **{STEPS[step]: changes[STEPS[step]]})
            expected = run_op(ColorJitter(), [("image", expected)], record=single).outputs[0]
        assert (got == expected).all()
        results.add(got.tobytes())
    assert len(results) > 12


def test_orders_are_the_permutations_in_lexicographic_order():
    for number, expected in enumerate(itertools.permutations(range(4))):
        order = np.zeros(4, np.uint8)
        write_order(number, order)
        assert tuple(order) == expected


def test_draws_lie_in_their_ranges(run_op):
    op = ColorJitter(0.4, 1.5, 0.1, 0.25)
    records = np.array([run_op.draw(op, k, 9, 9) for k in range(600)])
    for step, low, high in (
        ("brightness", 0.6, 1.4),
        ("contrast", 0.0, 2.5),
        ("saturation", 0.9, 1.1),
        ("hue", -0.25, 0.25),
    ):
        values = records[step]
        assert low <= values.min() < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < values.max() <= high
    assert len({tuple(order) for order in records["order"]}) == 24


def test_one_channel_has_brightness_and_contrast_only(run_op, as_record, noise):
    image = noise((20, 30, 1))
    record = record_with(as_record, saturation=0.1, hue=0.4)
    assert (run_op(ColorJitter(), [("image", image)], record=record).outputs[0] == image).all()
    record = record_with(as_record, brightness=0.5)
    assert (run_op(ColorJitter(), [("image", image)], record=record).outputs[0] != image).any()
