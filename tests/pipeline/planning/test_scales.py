"""Numbers of another scale than an op expects are refused when a pipeline is bound."""

import numpy as np
import pytest

from stoker import ops
from stoker.ops import State
from stoker.ops.contract.states import OTHER, UNKNOWN, with_span
from stoker.pipeline import bind, pipeline
from stoker.protocol.errors import BuildError

FLOATS = State.fixed("image", "float32", (8, 8, 3))
FIELDS = {
    "levels": State.fixed("image", "uint8", (8, 8, 3)),
    "wide": State.fixed("image", "uint16", (8, 8, 3)),
    "signed": State.fixed("image", "int16", (8, 8, 3)),
    "unit": with_span(FLOATS, (0.0, 1.0001)),
    "other": with_span(FLOATS, (-3.0, 900.0)),
    "small": with_span(FLOATS, (-3.0, 3.0)),
    "unknown": with_span(FLOATS, None),
    "label": with_span(State.fixed("label", "int64", ()), (-1, 9)),
    "flag": State.fixed("scalar", "bool", ()),
}
COLORS = [
    ops.Autocontrast(), ops.Brightness(), ops.ColorJitter(0.2), ops.Contrast(), ops.FromFloat(),
    ops.Gamma(), ops.GaussianNoise(), ops.Grayscale(), ops.Hue(), ops.Invert(), ops.RgbShift(),
    ops.RgbToHsv(), ops.RgbToYcbcr(), ops.SaltAndPepper(), ops.Saturation(), ops.Sharpness(),
    ops.Solarize(),
]  # fmt: skip


def built(define):
    return bind(pipeline(define).graph(), FIELDS)


@pytest.mark.parametrize("op", COLORS, ids=lambda op: op.name)
def test_ops_of_floats_from_0_to_1_refuse_others(op):
    with pytest.raises(BuildError, match=rf"{op.name} expects floats from 0 to 1.* -3 to 900 in"):
        built(lambda s: {"image": op(s.other)})
    for field in ("unit", "unknown"):
        built(lambda s, field=field: {"image": op(s[field])})


def test_other_floats_stay_so_until_an_op_of_a_user():
    def moved(sample):
        return ops.channel_shuffle(ops.gaussian_blur(ops.random_crop(sample.other, size=4)))

    plan = built(lambda s: {"image": moved(s)})
    assert plan.states[plan.stores[0]].scale == OTHER
    with pytest.raises(BuildError, match="invert expects floats from 0 to 1"):
        built(lambda s: {"image": ops.invert(moved(s))})

    def joined(sample):
        image = ops.horizontal_flip(sample.other) if sample.flag else sample.unit
        return {"image": ops.invert(image)}

    with pytest.raises(BuildError, match="invert expects floats from 0 to 1"):
        built(joined)

    def own(sample):
        image = ops.python(window, sample.other, randomness="none")
        return {"image": ops.invert(image)}

    plan = built(own)
    assert plan.states[plan.stores[0]].scale == UNKNOWN


def window(image):
    return np.clip(image / 900, 0, 1)


@pytest.mark.parametrize(
    ("field", "mean", "std"),
    [
        ("levels", (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)),
        ("levels", 0.5, 127.5),
        ("levels", -127.5, 0.5),
        ("wide", 32767.0, 0.5),
        ("unit", 127.5, 127.5),
    ],
)
def test_a_mean_of_levels_is_refused(field, mean, std):
    with pytest.raises(BuildError, match=r"are on the scale of levels.* divide both by 255"):
        built(lambda s: {"image": ops.normalize(s[field], mean=mean, std=std)})


@pytest.mark.parametrize(
    ("field", "mean", "std"),
    [
        ("levels", 0.0, 1.0), ("other", 40.0, 400.0), ("other", 0.0, 1.0), ("small", 0.5, 0.5),
        ("unknown", -500.0, 400.0), ("unknown", 0.5, 0.5),
    ],
)  # fmt: skip
def test_a_mean_on_the_scale_of_the_image_is_built(field, mean, std):
    built(lambda s: {"image": ops.normalize(s[field], mean=mean, std=std)})


def test_a_fill_of_levels_is_refused_for_floats():
    with pytest.raises(BuildError, match=r"fill=\(114,\) is a level from 0 to 255"):
        built(lambda s: {"image": ops.pad(s.unit, padding=1, fill=114)})
    for field in ("other", "unknown"):
        built(lambda s, field=field: {"image": ops.pad(s[field], padding=1, fill=-1000.0)})
    for drop in (ops.channel_drop, ops.grid_mask):
        with pytest.raises(BuildError, match=r"fill=\(114,\) is a level from 0 to 255"):
            built(lambda s, drop=drop: {"image": drop(ops.to_float(s.levels), fill=114)})
        built(lambda s, drop=drop: {"image": drop(ops.to_float(s.levels), fill=(0, 0.5, 1))})


@pytest.mark.parametrize("op", [ops.Pad(1, fill=-1), ops.ChannelDrop(fill=(0.5, 0, -0.25))])
def test_a_negative_fill_is_refused_for_floats_from_0_to_1(op):
    for made in (lambda s: ops.to_float(s.levels), lambda s: windowed(s.signed), lambda s: s.unit):
        with pytest.raises(BuildError, match=r"fill=.* is below 0, .* before window or to_float"):
            built(lambda s, made=made: {"image": op(made(s))})
    for field in ("other", "unknown"):
        built(lambda s, field=field: {"image": op(s[field])})


@pytest.mark.parametrize(
    ("refused", "built_as"),
    [
        (ops.Clip(10, 200), ops.Clip(0, 255)), (ops.Clip(1, 1), ops.Clip(0.99, 2)),
        (ops.Clip(-9, 0), ops.Clip(-9, 0.01)), (ops.Window(128, 100), ops.Window(128, 255)),
        (ops.Window(-200, 400), ops.Window(0.5, 0.1)),
    ],
)  # fmt: skip
def test_bounds_of_levels_are_refused_for_floats(refused, built_as):
    for made in (lambda s: ops.to_float(s.levels), lambda s: windowed(s.signed), lambda s: s.unit):
        message = f"{refused.name} with .* makes all pixels equal: the image has floats from 0 to 1"
        with pytest.raises(BuildError, match=message):
            built(lambda s, made=made: {"image": refused(made(s))})
        built(lambda s, made=made: {"image": built_as(made(s))})
    for field in ("levels", "wide", "signed", "other", "unknown"):
        op = ops.Window(128, 100) if field in ("levels", "wide") else refused
        if op.name == "window" or field != "levels":
            built(lambda s, op=op, field=field: {"image": op(s[field])})


def test_an_op_of_a_user_may_make_any_floats_of_int16():
    def own(sample):
        image = ops.python(hounsfield, sample.signed, randomness="none", dtype="float32")
        image = ops.pad(ops.clip(image, low=-1000, high=1000), padding=1, fill=100)
        return {"image": ops.normalize(image, mean=40, std=400)}

    built(own)
    with pytest.raises(BuildError, match="are on the scale of levels"):
        built(lambda s: {"image": ops.normalize(windowed(s.signed), mean=40, std=400)})


def hounsfield(image):
    return image.astype(np.float32)


def windowed(image):
    return ops.window(image, center=40, width=400)


def test_enough_classes_are_built():
    built(lambda s: {"label": ops.one_hot(s.label, classes=10)})
    built(lambda s: {"label": ops.one_hot(s.label + 1, classes=3)})  # of any number


def test_in_process_the_numbers_of_the_sample_decide():
    brighter = pipeline(lambda s: {"image": ops.brightness(s.image, p=1.0)})
    image = np.full((4, 4, 3), 0.25, np.float32)
    assert brighter({"image": image})["image"].shape == (4, 4, 3)
    for run in (brighter, lambda sample: brighter.batch([{"image": image}, sample])):
        with pytest.raises(BuildError, match="brightness expects floats from 0 to 1"):
            run({"image": image * 900})
    with pytest.raises(BuildError, match="classes=1, but the label has 2 classes"):
        pipeline(lambda s: {"y": ops.one_hot(s.y, classes=1)})({"y": 1}, classes={"y": ["a", "b"]})
