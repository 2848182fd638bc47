"""Branches that join images of several scales: levels, floats from 0 to 1, normalized floats."""

import numpy as np
import pytest
from skimage import data

from stoker import ops
from stoker.pipeline import explain, pipeline, random_apply
from stoker.protocol.errors import BuildError
from stoker.rng.row import Row

PHOTO = np.ascontiguousarray(data.coffee()[40:72, 100:140])
MEAN, STD = np.float32(ops.Normalize().mean), np.float32(ops.Normalize().std)
UNIT = (PHOTO / 255).astype(np.float32)
FLAT = PHOTO.astype(np.float32)


def normalized(image):
    """Normalize independently of the op, in float64."""
    return (image / 255.0 - MEAN) / STD


@pytest.fixture
def outputs(both):
    """outputs(pipe, **fields) -> name -> value of the row, equal in both engines."""

    def run(pipe, **fields):
        given = {"image": PHOTO, **{name: np.bool_(flag) for name, flag in fields.items()}}
        plan = pipe.plan_for(given)
        (row,) = both(plan, [Row(1, 2, 3)], [given[name] for name in plan.fields])
        return dict(zip([output.name for output in plan.outputs], row, strict=True))

    return run


def test_levels_that_meet_floats_are_divided(outputs):
    @pipeline
    def train(sample):
        image = sample.image
        if sample.a:
            image = ops.to_float(image)
        if sample.b:
            image = ops.invert(image, p=1.0)
        return {"image": image}

    for a in (True, False):
        assert (outputs(train, a=a, b=False)["image"] == UNIT).all()
        found = outputs(train, a=a, b=True)["image"]
        np.testing.assert_allclose(found, 1 - UNIT, atol=1e-7)


@pytest.mark.parametrize("floats_first", [True, False])
def test_the_order_of_the_branches_does_not_matter(outputs, floats_first):
    @pipeline
    def train(sample):
        if sample.a:
            image = ops.to_float(sample.image) if floats_first else sample.image
        else:
            image = sample.image if floats_first else ops.to_float(sample.image)
        return {"image": ops.normalize(image)}

    for a in (True, False):
        np.testing.assert_allclose(outputs(train, a=a)["image"], normalized(PHOTO), atol=2e-6)


def test_three_branches_and_a_nested_one(outputs):
    @pipeline
    def train(sample):
        image, mask = sample.image, ops.to_gray(sample.image)
        if sample.a:
            if sample.b:
                image = ops.to_float(image)
        elif sample.b:
            image = ops.horizontal_flip(image, p=1.0)
        return {"image": image, "gray": mask}

    for a, b in [(True, True), (True, False), (False, True), (False, False)]:
        found = outputs(train, a=a, b=b)
        assert (found["image"] == (UNIT[:, ::-1] if b and not a else UNIT)).all()
        assert found["gray"].dtype == np.uint8


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_a_stored_image_that_is_normalized_keeps_its_numbers(outputs, dtype, layout):
    @pipeline
    def train(sample):
        image = sample.image
        if not sample.normalized:
            image = ops.normalize(image, dtype=dtype, layout=layout)
        return {"image": image}

    axes = (2, 0, 1) if layout == "CHW" else (0, 1, 2)
    kept = outputs(train, normalized=True)["image"]
    assert kept.dtype == np.dtype(dtype)
    assert (kept == FLAT.transpose(axes)).all()
    made = outputs(train, normalized=False)["image"]
    exact = normalized(PHOTO).transpose(axes)
    np.testing.assert_allclose(made, exact, atol=2e-6 if dtype == "float32" else 2e-3)


def test_floats_that_meet_a_normalized_image_keep_their_numbers(outputs):
    @pipeline
    def train(sample):
        image = ops.to_float(sample.image)
        if sample.a:
            image = ops.normalize(image, layout="CHW")
        return {"image": image}

    assert (outputs(train, a=False)["image"] == UNIT.transpose(2, 0, 1)).all()


def test_a_policy_may_normalize(outputs):
    @pipeline
    def train(sample):
        return {"image": random_apply(sample.image, apply=ops.Normalize(), p=0.5)}

    found = outputs(train)["image"]
    exact = [FLAT, normalized(PHOTO)]
    assert any(np.allclose(found, one, atol=2e-6) for one in exact)


def test_planar_images_join_by_their_meaning(outputs):
    @pipeline
    def train(sample):
        image = ops.to_float(sample.image)
        return {"planes": ops.layout(image) if sample.a else ops.layout(sample.image)}

    for a in (True, False):
        assert (outputs(train, a=a)["planes"] == UNIT.transpose(2, 0, 1)).all()


def test_arrays_that_are_no_images_join_by_value(both):
    @pipeline
    def train(sample):
        values = ops.cast(sample.values, dtype="float32")
        if sample.a:
            values = sample.values
        return {"numbers": values}

    values = np.arange(6, dtype=np.uint8)
    for a in (True, False):
        given = {"values": values, "a": np.bool_(a)}
        plan = train.plan_for(given)
        ((found,),) = both(plan, [Row(1, 2, 3)], [given[name] for name in plan.fields])
        assert found.tolist() == values.tolist()


def test_a_normalized_image_is_moved_but_not_recolored(outputs):
    @pipeline
    def moves(sample):
        image = ops.normalize(sample.image)
        return {"image": ops.horizontal_flip(image, p=1.0)}

    np.testing.assert_allclose(outputs(moves)["image"], normalized(PHOTO)[:, ::-1], atol=2e-6)
    for recolor in (ops.invert, ops.normalize, ops.sharpness):

        @pipeline
        def recolors(sample, recolor=recolor):
            image = ops.normalize(sample.image)
            if sample.a:
                image = ops.vertical_flip(image, p=1.0)
            return {"image": recolor(image)}

        with pytest.raises(
            BuildError,
            match=rf"test_join_scales.py:\d+: .*call {recolor.__name__} before normalize",
        ):
            outputs(recolors, a=True)


def test_an_error_at_a_join_names_both_ops_and_both_lines(outputs):
    @pipeline
    def train(sample):
        if sample.a:
            image = ops.cast(sample.image, dtype="int32")
        else:
            image = ops.resize(sample.image, size=(8, 8))
        return {"image": image}

    message = (
        r"test_join_scales.py:\d+: the branches cannot join: array int32\[.*\] from cast at "
        r".*test_join_scales.py:\d+ and image uint8\[8x8x3\] from resize at .*scales.py:\d+"
    )
    with pytest.raises(BuildError, match=message):
        outputs(train, a=True)


def test_explain_shows_the_conversion():
    @pipeline
    def train(sample):
        image = sample.image
        if sample.a:
            image = ops.to_float(image)
        return {"image": image}

    told = explain(train.plan_for({"image": PHOTO, "a": np.bool_(True)}))
    assert told.count("to_float") >= 2


WIDE = PHOTO.astype(np.uint16) * np.uint16(257)
"""The photograph with levels of 16 bits: divided by 65535 it is UNIT."""


def test_levels_of_16_bits_that_meet_floats_are_divided_by_65535(both):
    @pipeline
    def train(sample):
        image = sample.image
        if sample.a:
            image = ops.to_float(image)
        planar = ops.layout(ops.to_float(sample.image))
        if sample.a:
            planar = ops.layout(sample.image)
        return {"image": image, "planar": planar}

    for a in (True, False):
        given = {"image": WIDE, "a": np.bool_(a)}
        plan = train.plan_for(given, kinds={"image": "image"})
        ((image, planar),) = both(plan, [Row(1, 2, 3)], [given[name] for name in plan.fields])
        assert np.array_equal(image, UNIT)
        assert np.array_equal(planar, UNIT.transpose(2, 0, 1))


def test_levels_of_8_bits_cast_to_uint16_are_still_divided_by_255(outputs):
    @pipeline
    def train(sample):
        image = ops.cast(sample.image, dtype="uint16")
        if sample.a:
            image = ops.layout(ops.layout(ops.to_float(sample.image)), order="HWC")
        return {"image": image}

    for a in (True, False):
        assert np.array_equal(outputs(train, a=a)["image"], UNIT)


SIGNED = PHOTO.astype(np.int16) * np.int16(200) - np.int16(30000)
JOINING = {
    "signed": lambda s: s.signed,
    "planes": lambda s: ops.layout(s.signed),
    "cast": lambda s: ops.cast(s.signed, dtype="int32"),
    "normalized": lambda s: ops.normalize(s.signed, mean=40, std=400, layout="HWC"),
    "own": lambda s: ops.python(as_floats, s.signed, randomness="none", dtype="float32"),
    "window": lambda s: ops.window(s.signed, center=0, width=400),
    "half": lambda s: ops.cast(ops.window(s.signed, center=0, width=400), dtype="float16"),
    "levels": lambda s: s.image,
    "wide": lambda s: s.deep,
}


def as_floats(image):
    return image.astype(np.float32)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("window", "signed", "floats from 0 to 1"), ("half", "signed", "floats from 0 to 1"),
        ("window", "planes", "floats from 0 to 1"), ("cast", "window", "floats from 0 to 1"),
        ("signed", "levels", "levels from 0 to 255"), ("wide", "signed", "levels from 0 to 65535"),
        ("normalized", "signed", ""), ("signed", "own", ""), ("own", "window", ""),
        ("signed", "planes", ""),
    ],
)  # fmt: skip
def test_numbers_of_int16_join_neither_levels_nor_floats_from_0_to_1(one, other, told):
    @pipeline
    def train(sample):
        image = JOINING[one](sample)
        if sample.a:
            image = JOINING[other](sample)
        return {"image": image}

    given = {"image": PHOTO, "deep": WIDE, "signed": SIGNED, "a": np.bool_(True)}
    kinds = {"deep": "image", "signed": "image"}
    if not told:
        train.plan_for(given, kinds=kinds)
        return
    message = rf"numbers of int16, the other {told}: call ops.window\(.*\) in both branches"
    with pytest.raises(BuildError, match=message):
        train.plan_for(given, kinds=kinds)


@pytest.mark.parametrize("later", ["image", "cast"])
def test_levels_that_cannot_join_name_the_remedy(later):
    @pipeline
    def train(sample):
        image = sample.image
        if sample.a:
            image = sample.deep
        return {"image": image}

    @pipeline
    def casting(sample):
        image = ops.layout(ops.to_float(sample.image))
        if sample.a:
            image = ops.layout(ops.cast(sample.deep, dtype="int32"))
        return {"image": image}

    given = {"image": PHOTO, "deep": WIDE, "a": np.bool_(True)}
    pipe = train if later == "image" else casting
    message = {
        "image": "one has levels from 0 to 255, the other from 0 to 65535: call to_float in both",
        "cast": "levels from 0 to 65535 that were cast to int32, .*: call to_float before cast",
    }[later]
    with pytest.raises(BuildError, match=message):
        pipe.plan_for(given, kinds={"deep": "image"})
