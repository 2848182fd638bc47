"""median_blur against OpenCV, bit for bit, and its limits."""

import cv2
import numpy as np
import pytest

from stoker.ops import MedianBlur


@pytest.mark.parametrize("size", [1, 3, 5, 15])
def test_median_blur_is_opencvs(run_op, as_record, noise, size):
    record = as_record(MedianBlur.record)
    record["apply"], record["size"] = 1, size
    for shape in ((20, 33, 3), (4, 31, 3), (5, 3, 1), (17, 9, 4)):
        for source in (noise(shape), noise(shape, classes=3), np.full(shape, 255, np.uint8)):
            got = run_op(MedianBlur((1, 15)), [("image", source)], record=record).outputs[0]
            assert (got == cv2.medianBlur(source, size).reshape(shape)).all()


def test_windows_of_5_hold_every_kind_of_tie(run_op, as_record, noise):
    record = as_record(MedianBlur.record)
    record["apply"], record["size"] = 1, 5
    for classes in (2, 4, 9, 256):
        image = noise((150, 170, 3), classes=classes)
        got = run_op(MedianBlur(), [("image", image)], record=record).outputs[0]
        assert (got == cv2.medianBlur(image, 5)).all()
