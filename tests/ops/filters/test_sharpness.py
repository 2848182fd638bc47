"""sharpness against Pillow's ImageEnhance."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter

from stoker.ops import Sharpness


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.8, 17.0])
def test_sharpness_is_pillows_within_one_level(run_op, as_record, photo, noise, factor):
    record = as_record(Sharpness.record)
    record["apply"], record["factor"] = 1, factor
    for image in (np.ascontiguousarray(photo[:90, :120]), noise((3, 9, 3)), noise((2, 9, 3))):
        got = run_op(Sharpness(), [("image", image)], record=record).outputs[0].astype(int)
        expected = ImageEnhance.Sharpness(Image.fromarray(image)).enhance(factor)
        assert np.abs(got - np.asarray(expected).astype(int)).max() <= 1
        assert factor != 1.0 or (got == image).all()


def test_factor_0_is_pillows_smooth_filter(run_op, as_record, noise):
    record = as_record(Sharpness.record)
    record["apply"] = 1
    image = noise((60, 70, 3))
    got = run_op(Sharpness(), [("image", image)], record=record).outputs[0]
    assert (got == np.asarray(Image.fromarray(image).filter(ImageFilter.SMOOTH))).all()


def test_division_by_13_is_exact():
    sums = np.arange(13 * 255 + 1)
    assert ((sums + 6) * 5042 >> 16 == (sums + 6) // 13).all()
