"""grid_distortion against OpenCV's remap over NumPy's piecewise linear map, and its edges."""

import cv2
import numpy as np

from stoker.ops import GridDistortion


def decision(as_record, across, down):
    record = as_record(GridDistortion.record)
    record["apply"] = 1
    record["across"][: len(across)], record["down"][: len(down)] = across, down
    return record


def exact(size, stretches):
    """Positions of pixel centres, in pixels, by numpy.interp."""
    sizes = 1 + np.array(stretches)
    knots = np.concatenate([[0], np.cumsum(sizes) / sizes.sum()]) * size
    ticks = np.linspace(0, size, len(sizes) + 1)
    return np.interp(np.arange(size) + 0.5, ticks, knots) - 0.5


def test_pixels_are_opencvs_within_rounding(run_op, as_record, photo):
    image = np.ascontiguousarray(photo[100:201, 150:283])
    across, down = (0.3, -0.25, 0.1, -0.9, 0.9), (-0.2, 0.3, 0.0, 0.15, -0.1)
    op = GridDistortion(5)
    got = run_op(op, [("image", image)], record=decision(as_record, across, down)).outputs[0]
    x, y = np.meshgrid(exact(133, across), exact(101, down))
    maps = x.astype(np.float32), y.astype(np.float32)
    border = cv2.BORDER_REPLICATE
    expected = cv2.remap(image.astype(np.float32), *maps, cv2.INTER_LINEAR, borderMode=border)
    # OpenCV rounds places to 1/32 of a pixel, here it is 1/2048.
    assert np.abs(got - expected).max() <= 9
    assert np.abs(got - expected).mean() < 0.5


def test_no_stretch_changes_nothing_and_nothing_enters(run_op, as_record, noise):
    image = noise((37, 51, 3))
    op = GridDistortion(16)
    same = run_op(op, [("image", image)], record=decision(as_record, (), ())).outputs[0]
    assert (same == image).all()
    mask = np.full((37, 51), 9, np.uint8)
    for key in range(10):
        out = run_op(GridDistortion(7, (-0.9, 0.9), p=1), [("mask", mask)], key).outputs[0]
        assert (out == 9).all()


def test_only_given_cells_count(run_op, as_record, noise):
    image, record = noise((37, 51, 3)), decision(as_record, [0.2] * 16, [0.1] * 16)
    first = run_op(GridDistortion(4), [("image", image)], record=record).outputs[0]
    record["across"][4:] = -0.8
    again = run_op(GridDistortion(4), [("image", image)], record=record).outputs[0]
    assert (first == again).all()
