"""Defocus: OpenCV's filter2D with the kernel that Albumentations' Defocus builds."""

import cv2
import numpy as np
import pytest

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import Defocus, ParameterError
from stoker.ops.filters.defocus import fill_disk, window_side


def disk(radius: int, alias_blur: float) -> np.ndarray:
    """Return the kernel, with OpenCV, divided by its sum, which mirroring makes more than 1."""
    half = max(8, radius)
    y, x = np.mgrid[-half : half + 1, -half : half + 1]
    flat = (x**2 + y**2 <= radius**2).astype(np.float32)
    side = 3 if radius <= 8 else 5
    soft = cv2.GaussianBlur(flat / flat.sum(), (side, side), sigmaX=alias_blur)
    return soft / soft.sum()


CASES = [(1, 0.1), (3, 0.5), (8, 0.3), (9, 0.5), (10, 2.0), (31, 10.0)]


@pytest.mark.parametrize(("radius", "alias_blur"), CASES)
def test_weights_are_those_of_opencv(radius, alias_blur):
    weights = np.zeros(window_side(radius) ** 2, np.int64)
    fill_disk(radius, alias_blur, weights)
    expected = disk(radius, alias_blur)
    assert weights.sum() == 2**24
    assert weights.min() >= 0
    assert (weights == weights[::-1]).all()
    got = weights.reshape(expected.shape) / 2**24
    np.testing.assert_allclose(got, expected, rtol=0, atol=weights.size * 2.0**-24)


@pytest.mark.parametrize(("radius", "alias_blur"), CASES[:5])
def test_photographs_are_as_opencv(run_op, photo, radius, alias_blur):
    image = photo[:90, :120].copy()
    op = Defocus((radius, radius), (alias_blur, alias_blur), p=1)
    expected = cv2.filter2D(image, -1, disk(radius, alias_blur))
    got = run_op(op, [("image", image)]).outputs[0]
    assert np.abs(got.astype(int) - expected).max() <= 1
    floats = image.astype(np.float32) / np.float32(255)
    got = run_op(op, [("image", floats)]).outputs[0]
    expected = cv2.filter2D(floats, -1, disk(radius, alias_blur))
    assert np.abs(got - expected).max() <= 2e-5


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(3, 5, 1), (1, 1, 3), (40, 7, 5)])
def test_compiled_is_plain_for_any_shape(run_op, noise, shape, dtype):
    image = noise(shape).astype(dtype)
    for key in range(4):
        op = Defocus((1, 12), (0.1, 3), p=0.9)
        fast, slow = (
            run_op(op, [("image", image)], key, arithmetic=how).outputs[0].tobytes()
            for how in (COMPILED, PLAIN)
        )
        assert fast == slow


def test_draws_are_uniform_in_their_ranges(run_op):
    op = Defocus((2, 5), (0.2, 0.4), p=0.5)
    records = [run_op.draw(op, key, 10, 10) for key in range(600)]
    radii = np.bincount([int(record["radius"]) for record in records], minlength=6)
    blurs = np.array([float(record["alias_blur"]) for record in records])
    assert radii[:2].sum() == 0
    assert radii[2:].min() > 110
    assert 0.2 <= blurs.min() < blurs.max() < 0.4
    assert abs(blurs.mean() - 0.3) < 0.01


def test_a_flat_image_stays_and_without_chance_nothing_changes(run_op, photo):
    flat = np.full((30, 41, 3), 255, np.uint8)
    assert (run_op(Defocus(p=1), [("image", flat)]).outputs[0] == 255).all()
    assert (run_op(Defocus(p=0), [("image", photo)]).outputs[0] == photo).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Defocus((0, 3)),
            "defocus: expected radius_range to be (low, high), integers with 1 <= low <= high <= "
            "31, got (0, 3)",
        ),
        (
            lambda: Defocus((10, 3)),
            "defocus: expected radius_range to be (low, high), integers with 1 <= low <= high <= "
            "31, got (10, 3)",
        ),
        (
            lambda: Defocus((3.0, 5)),
            "defocus: expected radius_range to be (low, high), integers with 1 <= low <= high <= "
            "31, got (3.0, 5)",
        ),
        (
            lambda: Defocus(alias_blur_range=(0, 0.5)),
            "defocus: expected alias_blur_range to be (low, high) with low <= high, from 0.001 "
            "to 10, got (0, 0.5)",
        ),
    ],
)
def test_messages(make, message):
    with pytest.raises(ParameterError) as caught:
        make()
    assert str(caught.value) == message
