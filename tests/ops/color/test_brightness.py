"""brightness against Pillow's ImageEnhance.Brightness, and its draws."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from stoker.ops import Brightness, ParameterError


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.8, 17.0])
def test_brightness_is_pillows_within_one_level(run_op, as_record, photo, factor):
    image = np.ascontiguousarray(photo[:90, :120])
    record = as_record(Brightness.record)
    record["apply"], record["factor"] = 1, factor
    got = run_op(Brightness(), [("image", image)], record=record).outputs[0].astype(int)
    expected = np.asarray(ImageEnhance.Brightness(Image.fromarray(image)).enhance(factor)).astype(
        int
    )
    assert np.abs(got - expected).max() <= 1
    assert factor != 1.0 or (got == image).all()


def test_factors_are_uniform_in_their_range(run_op):
    drawn = np.array([run_op.draw(Brightness((0.5, 2.5)), k, 9, 9)["factor"] for k in range(600)])
    assert 0.5 <= drawn.min() < 0.55
    assert 2.45 < drawn.max() <= 2.5


def test_range_is_checked():
    with pytest.raises(ParameterError) as caught:
        Brightness((-0.1, 1))
    assert str(caught.value) == (
        "brightness: expected factor_range to be (low, high) with low <= high, from 0 to 17, got "
        "(-0.1, 1)"
    )
