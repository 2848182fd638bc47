"""motion_blur against OpenCV: along rows and columns bit for bit, else within rounding."""

import cv2
import numpy as np
import pytest

from stoker.ops import MotionBlur


def blurred(run_op, as_record, image, size, angle):
    record = as_record(MotionBlur.record)
    record["apply"], record["size"], record["angle"] = 1, size, angle
    return run_op(MotionBlur((1, 63)), [("image", image)], record=record).outputs[0]


@pytest.mark.parametrize("size", [3, 9, 31])
def test_along_rows_and_columns_it_is_a_box(run_op, as_record, noise, size):
    image = noise((40, 50, 3))
    for angle, box in ((0, (size, 1)), (180, (size, 1)), (90, (1, size)), (-270, (1, size))):
        assert (blurred(run_op, as_record, image, size, angle) == cv2.blur(image, box)).all()


def line(size, angle):
    """A line of points in float64, each shared by the four pixels around it."""
    window = np.zeros((size + 2, size + 2))
    for i in range(-(size // 2), size // 2 + 1):
        x = size // 2 + 1 + i * np.cos(np.deg2rad(angle))
        y = size // 2 + 1 - i * np.sin(np.deg2rad(angle))
        left, top = int(np.floor(x)), int(np.floor(y))
        for row, column in np.ndindex(2, 2):
            share = (1 - abs(y - top - row)) * (1 - abs(x - left - column))
            if share > 0:
                window[top + row, left + column] += share / size
    return window[1:-1, 1:-1]


@pytest.mark.parametrize("angle", [20, 45, 77.5, 123, 170, -30])
@pytest.mark.parametrize("size", [3, 7, 21])
def test_any_direction_is_the_exact_sum_within_rounding(run_op, as_record, noise, size, angle):
    image = noise((40, 50, 3))
    window = line(size, angle)
    assert window.sum() == pytest.approx(1)
    expected = cv2.filter2D(image.astype(float), -1, window, borderType=cv2.BORDER_REFLECT_101)
    got = blurred(run_op, as_record, image, size, angle)
    assert np.abs(got - expected).max() <= 1.5  # places are rounded to 1/256 of a pixel
    assert np.abs(got - expected).mean() < 0.3


def test_direction_and_length_are_drawn(run_op):
    op = MotionBlur((3, 7), 0.5, (10, 20))
    records = [run_op.draw(op, k, 9, 9) for k in range(300)]
    angles = np.array([record["angle"] for record in records])
    assert 10 <= angles.min() < 10.3
    assert 19.7 < angles.max() <= 20
    assert {int(record["size"]) for record in records} == {3, 5, 7}
