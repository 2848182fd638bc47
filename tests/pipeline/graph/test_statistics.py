"""`mean`, `max`, `min` of an image in conditions and outputs: exact, in both engines."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.states import State
from stoker.pipeline import Row, pipeline
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, UsageError


@pipeline
def measured(sample):
    image, mask = sample.image, sample.mask
    bright = image.mean()
    if bright > 100 or mask.max() - mask.min() < 3:
        image = ops.invert(image, p=1.0)
    return {
        "image": ops.center_crop(image, size=16),
        "numbers": 1000 * bright,
        "max": image.max(),
        "min": mask.min(),
    }


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
def test_exact_on_both_engines(dtype, both, rows, photo):
    rng = np.random.default_rng(5)
    most = np.iinfo(dtype).max
    states = {
        "image": State("image", "uint8", (None, None, 3), (64, 64, 3)),
        "mask": State("mask", dtype, (None, None), (64, 64)),
    }
    plan = bind(measured.graph(), states)
    inverted = 0
    for row in rows[:6]:
        height, width = rng.integers(20, 64, 2)
        image = (photo[0][:height, :width] // rng.integers(1, 4)).astype(np.uint8)
        mask = rng.integers(most - 5, most, (height, width), endpoint=True).astype(dtype)
        ((_, numbers, greatest, least),) = both(plan, [row], [image, mask])
        mean = Fraction(int(image.astype(object).sum()), image.size)
        assert numbers == 1000 * float(mean)
        bright = mean > 100 or int(mask.max()) - int(mask.min()) < 3
        assert greatest == (255 - int(image.min()) if bright else image.max())
        assert least == mask.min()
        inverted += bright
    assert 0 < inverted < 6


@pipeline
def measured_floats(sample):
    image = sample.image
    if image.mean() > 0.5 or image.max() - image.min() < 0.25:
        image = ops.invert(image, p=1.0)
    return {"mean": image.mean(), "max": image.max(), "min": image.min()}


def test_floats_on_both_engines(both, rows):
    draw = np.random.default_rng(6)
    state = State("image", "float32", (None, None, 3), (70, 64, 3))
    plan = bind(measured_floats.graph(), {"image": state})
    inverted = 0
    for number, row in enumerate(rows[:6]):
        height, width = (1, 1) if number == 0 else draw.integers(2, 64, 2)
        image = draw.random((height, width, 3), np.float32) * np.float32(number % 3)
        ((mean, most, least),) = both(plan, [row], [image])
        lanes = [sum(image.ravel()[k::8].tolist()) for k in range(8)]
        while len(lanes) > 1:
            lanes = [a + b for a, b in zip(lanes[::2], lanes[1::2], strict=True)]
        if lanes[0] / image.size > 0.5 or image.max() - image.min() < 0.25:
            image = 1 - image
            inverted += 1
        assert (most, least) == (image.max(), image.min())
        assert abs(mean - image.astype(float).mean()) < 1e-12
    assert 0 < inverted < 6


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 0.2, 0.7], [np.float32([0.1, 0.2, 0.7]).astype(float).sum() / 3, 0.7, 0.1]),
        ([-0.0, 0.0], [0.0, 0.0, -0.0]),
        ([np.inf, 1.0], [np.inf, np.inf, 1.0]),
        ([np.inf, -np.inf], [np.nan, np.inf, -np.inf]),
        ([1.0] * 20 + [np.nan], [np.nan] * 3),
        ([-np.nan, np.inf], [np.nan] * 3),
        ([2.0**24] + [1.0] * 8, [(2**24 + 8) / 9, 2.0**24, 1.0]),
    ],
)
def test_odd_floats_on_both_engines(values, expected, both, rows):
    image = np.float32(values).reshape(1, -1, 1)
    state = State.fixed("image", "float32", image.shape)

    @pipeline
    def numbers(sample):
        image = sample.image
        return {"mean": image.mean(), "max": image.max(), "min": image.min()}

    (got,) = both(bind(numbers.graph(), {"image": state}), [rows[0]], [image])
    wanted = [expected[0], *np.float32(expected[1:]).astype(float)]
    assert np.float64(got).tobytes() == np.float64(wanted).tobytes()


def test_pixels_are_needed_for_conditions_on_them(toys, photo):
    @pipeline
    def train(sample):
        image = toys.flip(sample.image)
        half = sample.image.mean() / 2
        level = half if sample.label > 2 else 1.0
        if level > 50 and image.height > 10:
            image = toys.shift(image)
        return {"image": image, "half": half}

    plan = train.plan_for({"image": photo[0], "label": np.int64(1)})
    drawn = decide(plan, Row(1, 2, 3), {}, {"label": 1})
    assert [entry["op"] for entry in drawn] == ["toy_flip"]
    with pytest.raises(
        UsageError, match="a condition or parameter reads a number computed from pixels"
    ):
        decide(plan, Row(1, 2, 3), {}, {"label": 3})


def test_statistics_of_what_has_none(toys):
    states = {
        "image": State.fixed("image", "uint8", (8, 8, 3)),
        "label": State.fixed("label", "int64", ()),
    }

    def refused(body):
        with pytest.raises(
            BuildError,
            match=r"test_statistics.py:\d+: mean: expected an image, mask or array of "
            r"bool, uint8, .*, float64, got .*: ask for it before an op converts the levels",
        ):
            bind(pipeline(lambda sample: {"x": body(sample).mean()}).graph(), states)

    refused(lambda sample: ops.normalize(sample.image, dtype="float16"))

    @pipeline
    def of_a_number(sample):
        return {"x": sample.label.mean()}

    with pytest.raises(
        BuildError, match=r"mean: expected an image, mask or array, got label int64"
    ):
        bind(of_a_number.graph(), states)
