"""hue against the standard library's colorsys, and its draws."""

import colorsys

import numpy as np
import pytest

from stoker.ops import Hue


@pytest.mark.parametrize("turn", [-0.5, -0.1, 0.0, 0.3])
def test_hue_is_colorsyss_within_rounding(run_op, as_record, noise, turn):
    image = noise((20, 30, 3))
    record = as_record(Hue.record)
    record["apply"], record["turn"] = 1, turn
    got = run_op(Hue(), [("image", image)], record=record).outputs[0]
    turned = [
        colorsys.hsv_to_rgb((h + turn) % 1.0, s, v)
        for h, s, v in (colorsys.rgb_to_hsv(*p) for p in image.reshape(-1, 3) / 255)
    ]
    assert np.abs(got - np.array(turned).reshape(image.shape) * 255).max() <= 0.51
