"""box_blur against OpenCV, bit for bit, and its draws and errors."""

import cv2
import numpy as np
import pytest

from stoker.ops import BoxBlur, ParameterError


@pytest.mark.parametrize("size", [1, 3, 7, 31, 63])
def test_box_blur_is_opencvs(run_op, as_record, noise, size):
    record = as_record(BoxBlur.record)
    record["apply"], record["size"] = 1, size
    for shape in ((64, 70, 3), (6, 31, 3), (5, 3, 1), (64, 65, 4)):
        image = noise(shape)
        op = BoxBlur((1, 63))
        for source in (image, np.full(shape, 255, np.uint8)):
            got = run_op(op, [("image", source)], record=record).outputs[0]
            if size // 2 < min(shape[:2]):  # OpenCV mirrors once only
                assert (got == cv2.blur(source, (size, size)).reshape(shape)).all()


def test_every_size_of_the_range_is_drawn(run_op):
    op = BoxBlur((3, 9))
    drawn = [int(run_op.draw(op, k, 9, 9)["size"]) for k in range(200)]
    assert set(drawn) == {3, 5, 7, 9}
    assert min(drawn.count(size) for size in (3, 5, 7, 9)) > 25


def test_parameters_are_checked():
    with pytest.raises(ParameterError) as caught:
        BoxBlur((3, 4))
    assert str(caught.value) == "box_blur: expected size_range to be two odd numbers, got (3, 4)"
    with pytest.raises(ParameterError) as caught:
        BoxBlur((3, 65))
    assert str(caught.value) == (
        "box_blur: expected size_range to be (low, high), integers with 1 <= low <= high <= 63, "
        "got (3, 65)"
    )
