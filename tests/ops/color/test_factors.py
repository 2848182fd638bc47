"""Ops of one number: compared with Pillow's ImageEnhance, their draws and ranges."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from stoker.ops import (
    Brightness,
    ChannelDrop,
    Contrast,
    Gamma,
    Hue,
    ParameterError,
    Saturation,
)

ENHANCERS = [
    (Brightness, ImageEnhance.Brightness),
    (Contrast, ImageEnhance.Contrast),
    (Saturation, ImageEnhance.Color),
]


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.8, 17.0])
@pytest.mark.parametrize(("op", "enhancer"), ENHANCERS)
def test_it_is_pillows_within_one_level(run_op, as_record, photo, op, enhancer, factor):
    image = np.ascontiguousarray(photo[:90, :120])
    record = as_record(op.record)
    record["apply"], record["factor"] = 1, factor
    got = run_op(op(), [("image", image)], record=record).outputs[0].astype(int)
    expected = np.asarray(enhancer(Image.fromarray(image)).enhance(factor)).astype(int)
    assert np.abs(got - expected).max() <= 1
    assert factor != 1.0 or (got == image).all()


@pytest.mark.parametrize(
    ("op", "drawn", "low", "high"),
    [
        *[(op, "factor", 0.5, 2.5) for op, _ in ENHANCERS],
        (Gamma, "gamma", 0.5, 2.5),
        (Hue, "turn", -0.2, 0.4),
    ],
)
def test_draws_are_uniform_in_their_range(run_op, op, drawn, low, high):
    values = np.array([run_op.draw(op((low, high)), k, 9, 9)[drawn] for k in range(600)])
    edge = (high - low) / 40
    assert low <= values.min() < low + edge
    assert high - edge < values.max() <= high
    assert abs(values.mean() - (low + high) / 2) < 2 * edge


@pytest.mark.parametrize(
    ("op", "given", "expected"),
    [
        (Brightness, (-0.1, 1), "factor_range to be (low, high) with low <= high, from 0 to 17"),
        (Gamma, (0, 1), "gamma_range to be (low, high) with low <= high, above 0 and at most 16"),
        (Hue, (0.2, 0.1), "turn_range to be (low, high) with low <= high, from -0.5 to 0.5"),
        (ChannelDrop, (0, 1),
         "count_range to be (low, high), integers with 1 <= low <= high <= 3"),
    ],
)  # fmt: skip
def test_ranges_that_are_refused(op, given, expected):
    with pytest.raises(ParameterError) as caught:
        op(given)
    assert str(caught.value) == f"{op.name}: expected {expected}, got {given}"
