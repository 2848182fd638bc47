"""gaussian_blur against OpenCV in float64, and its draws and errors."""

import cv2
import numpy as np
import pytest

from stoker.ops import GaussianBlur, ParameterError


@pytest.mark.parametrize("sigma", [0.1, 0.8, 2.0, 9.0])
@pytest.mark.parametrize("size", [1, 3, 5, 23])
def test_gaussian_blur_is_the_exact_one_within_rounding(run_op, as_record, noise, size, sigma):
    record = as_record(GaussianBlur.record)
    record["apply"], record["sigma"] = 1, sigma
    for shape in ((40, 50, 3), (6, 31, 3), (12, 12, 1)):
        image = noise(shape)
        got = run_op(GaussianBlur(size), [("image", image)], record=record).outputs[0]
        window = cv2.getGaussianKernel(size, sigma, cv2.CV_64F)
        border = cv2.BORDER_REFLECT_101
        exact = cv2.sepFilter2D(image.astype(float), -1, window, window, borderType=border)
        assert np.abs(got - exact.reshape(shape)).max() <= 0.51 + size / 1024


def test_flat_images_stay(run_op, as_record):
    record = as_record(GaussianBlur.record)
    record["apply"], record["sigma"] = 1, 3.0
    for level in (0, 1, 128, 255):
        image = np.full((9, 70, 3), level, np.uint8)
        got = run_op(GaussianBlur(63), [("image", image)], record=record).outputs[0]
        assert (got == image).all()


def test_sigma_is_uniform_in_its_range(run_op):
    op = GaussianBlur(5, (0.5, 2.5))
    drawn = np.array([run_op.draw(op, k, 9, 9)["sigma"] for k in range(600)])
    assert 0.5 <= drawn.min() < 0.55
    assert 2.45 < drawn.max() <= 2.5


def test_parameters_are_checked():
    with pytest.raises(ParameterError) as caught:
        GaussianBlur(4)
    assert str(caught.value) == "gaussian_blur: expected kernel_size to be odd, got 4"
    with pytest.raises(ParameterError) as caught:
        GaussianBlur(65)
    assert str(caught.value) == (
        "gaussian_blur: expected kernel_size to be an integer from 1 to 63, got 65"
    )
    with pytest.raises(ParameterError, match="expected sigma_range to be"):
        GaussianBlur(5, (0, 1))
