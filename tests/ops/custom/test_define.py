"""Ops out of one function: what they are, that they keep the contract, and what is refused."""

import dataclasses
import importlib

import numpy as np
import pytest

from stoker import ops
from stoker.ops import ParameterError, define, vertical_flip
from stoker.ops.contract.registry import make
from stoker.ops.testing import check_op
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.protocol.errors import BuildError


@pytest.fixture(scope="module")
def defined(user_folder):
    return importlib.import_module("defined_ops")


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(5).integers(0, 256, (17, 23, 3), np.uint8)


def test_it_is_an_op_class(defined, fresh_names):
    fog = defined.fog
    assert [(f.name, f.default) for f in dataclasses.fields(fog)] == [("most", 128), ("least", 0)]
    assert (fog.name, fog.version, fog.random, fog.kinds()) == ("fog", 1, True, ("image",))
    assert fog.__doc__ == "Levels move toward white."
    assert fog(90) == fog(most=90) != fog(91)
    assert defined.turn_over.version == 3
    assert defined.turn_over.kinds() == ("boxes", "image", "keypoints", "mask")
    assert "fog" not in ops.registered()
    fresh_names("defined_ops")
    assert make("defined_ops:fog", {"most": 7, "least": 2}) == fog(7, 2)


@pytest.mark.slow
def test_they_keep_the_contract(defined):
    check_op(defined.fog(most=255), rows=3)
    check_op(defined.turn_over(), rows=3)
    check_op(defined.turn_over(upside=False), rows=3)


@pytest.mark.slow
def test_pixels_and_decisions(defined, image):
    @pipeline
    def train(sample):
        fogged = defined.fog(most=200, least=20)(sample.image)
        turned, mask, boxes = defined.turn_over()(sample.image, sample.mask, sample.boxes)
        return {
            "fog": fogged, "turned": turned, "mask": mask, "boxes": boxes,
            "twice": defined.doubled()(sample.vector),
        }  # fmt: skip

    fields = {
        "image": image,
        "mask": image[..., 0].copy(),
        "boxes": {"xyxy": np.array([[2, 3, 9, 5]], np.float32)},
        "vector": np.arange(5, dtype=np.float32),
    }
    for number in range(8):
        haze = defined.fog(most=200, least=20).sample(17, 23, seed=2, id=number)["haze"]
        assert 20 <= haze <= 200
        level = image.astype(int)
        plain, fast = (train(fields, seed=2, id=number, compiled=c) for c in (False, True))
        for made in (plain, fast):
            assert np.array_equal(made["fog"], level + ((255 - level) * haze >> 8))
            assert np.array_equal(made["turned"], image[::-1])
            assert np.array_equal(made["mask"], image[::-1, :, 0])
            assert made["boxes"]["xyxy"].tolist() == [[2, 12, 9, 14]]
            assert made["twice"].tolist() == [0, 2, 4, 6, 8]


def test_a_function_that_cannot_be_compiled_is_named(defined, image):
    @pipeline
    def train(sample):
        return {"image": defined.wrong()(sample.image)}

    with pytest.raises(BuildError) as caught:
        compile_plan(train.plan_for({"image": image}))
    message = str(caught.value)
    assert "test_define.py:" in message
    assert "op 'wrong' on image uint8[17x23x3]" in message
    assert "defined_ops.py:" in message


def masked(op):
    """Plan a pipeline that gives a mask to an op."""
    train = pipeline(lambda sample: {"mask": op(sample.mask)})
    return train.plan_for({"mask": np.zeros((17, 23), np.uint8)})


def closes_over(name):
    def function(src, dst, params, record, scratch):
        dst[...] = name

    return function


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d: define(size=(1, 2)), BuildError,
         "parameter 'size': expected a default that is a bool"),
        (lambda d: define(record=1), BuildError, "parameter 'record': .* that name is in use"),
        (lambda d: define()(closes_over(3)), BuildError, "a kernel must not close over variables"),
        (lambda d: d.fog(most=1.5), ParameterError, "fog: expected most to be an integer from"),
        (lambda d: d.fog(mots=1), TypeError, "unexpected keyword argument 'mots'"),
        (lambda d: masked(d.fog()), BuildError,
         "fog has no rule for a mask; it has rules for: image"),
        (lambda d: d.fog.draws(a=int), BuildError, "fog: draws: .* it already draws"),
        (lambda d: d.fog.rule("image"), BuildError, "fog: rule for 'image': has one already"),
        (lambda d: d.fog.rule("video"), BuildError,
         "rule for 'video': expected one of image, mask, array"),
        (lambda d: d.fog.rule("boxes"), BuildError,
         r'fog: boxes follow the map of @fog.rule\("forward"\)'),
        (lambda d: d.turn_over(upside=1), ParameterError,
         "turn_over: expected upside to be True or False, got"),
        (lambda d: d.wrong.draws(a=str), BuildError,
         "wrong: draws: expected once the fields .* got {'a'"),
        (lambda d: d.wrong.draws(), BuildError, "wrong: draws: .* got no field"),
    ],
)  # fmt: skip
def test_mistakes_in_definitions_and_calls(defined, call, error, message):
    with pytest.raises(error, match=message):
        call(defined)


def test_ours_do_the_same(defined, image):
    """A vertical flip by a decorated function and ours."""
    both = pipeline(
        lambda s: {"a": defined.turn_over()(s.image), "b": vertical_flip(s.image, p=1.0)}
    )
    made = both({"image": image})
    assert np.array_equal(made["a"], made["b"])
