"""Every message of ops, once, as a user sees it."""

import dataclasses
import inspect

import numpy as np
import pytest

from stoker import ops
from stoker.ops import Op, ParameterError, State, StateError, lookup, make, register
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError, UnknownNameError

IMAGE = State("image", "uint8", (None, None, 3), (400, 500, 3))
MASK = State("mask", "uint8", (None, None), (400, 500))

PARAMETERS = [
    (
        lambda: ops.HorizontalFlip(2),
        "horizontal_flip: expected p to be a number from 0 to 1, got 2",
    ),
    (
        lambda: ops.HorizontalFlip(float("nan")),
        "horizontal_flip: expected p to be a number from 0 to 1, got nan",
    ),
    (
        lambda: ops.Resize((0, 0)),
        "resize: expected size to be (height, width), from 1 to 65535, got (0, 0)",
    ),
    (
        lambda: ops.CenterCrop((3, 4, 5)),
        "center_crop: expected size to be an integer, or (height, width), from 1 to 65535, got "
        "(3, 4, 5)",
    ),
    (
        lambda: ops.Resize((5, 5), "lanczos3"),
        "resize: expected interpolation to be one of nearest, bilinear, bicubic, lanczos, "
        "area, got 'lanczos3'",
    ),
    (
        lambda: ops.RandomResizedCrop(9, scale=(1, 0.5)),
        "random_resized_crop: expected scale to be (low, high) with low <= high, above 0 and at "
        "most 1, got (1, 0.5)",
    ),
    (
        lambda: ops.RandomResizedCrop(9, ratio=(0, 1)),
        "random_resized_crop: expected ratio to be (low, high) with low <= high, above 1.52588e-05 "
        "and at most 65535, got (0, 1)",
    ),
    (
        lambda: ops.RandomCrop(9, padding=-1),
        "random_crop: expected padding to be an integer, or (height, width), from 0 to 65535, got "
        "-1",
    ),
    (
        lambda: ops.RandomCrop(9, fill=65536),
        "random_crop: expected fill to be an integer from 0 to 255 (65535 for images of uint16, "
        "-32768 to 32767 for int16), or a float for images of floats, or one for each channel, got "
        "65536",
    ),
    (
        lambda: ops.RandomCrop(9, mask_fill=0.5),
        "random_crop: expected mask_fill to be an integer from -2147483648 to 2147483647, got 0.5",
    ),
    (
        lambda: ops.Normalize(mean="x"),
        "normalize: expected mean to be a number, or one for each of at most 16 channels, got 'x'",
    ),
    (
        lambda: ops.Normalize(std=0),
        "normalize: expected std to be a positive number, or one for each of at most 16 channels, "
        "got 0",
    ),
    (
        lambda: ops.Normalize(dtype="float64"),
        "normalize: expected dtype to be one of float32, float16, got 'float64'",
    ),
    (
        lambda: ops.Normalize(layout="NCHW"),
        "normalize: expected layout to be one of HWC, CHW, got 'NCHW'",
    ),
    (
        lambda: ops.ColorJitter(hue=0.6),
        "color_jitter: expected hue to be a number from 0 to 0.5, got 0.6",
    ),
    (
        lambda: ops.ColorJitter(brightness=True),
        "color_jitter: expected brightness to be a number from 0 to 16, got True",
    ),
    (
        lambda: make("resize", {"width": 5}),
        "resize: Resize.__init__() got an unexpected keyword argument 'width'",
    ),
]

STATES = [
    (
        ops.ColorJitter(),
        (IMAGE, MASK),
        "color_jitter has no rule for a mask; it has rules for: image. Leave the mask out of this "
        "call",
    ),
    (
        ops.Normalize(),
        (MASK,),
        "normalize has no rule for a mask; it has rules for: image. Leave the mask out of this "
        "call",
    ),
    (
        ops.HorizontalFlip(),
        (State.fixed("label", "int64", ()),),
        "horizontal_flip has no rule for a label; it has rules for: boxes, flow, image, keypoints, "
        "mask, normals. Leave the label out of this call",
    ),
    (
        ops.Equalize(),
        (State.fixed("image", "float32", (8, 8, 3)),),
        "equalize has no rule for image float32[8x8x3]: expected an image of shape (H, W, C), "
        "dtype uint8 and 1 to 16 channels. Call equalize before the image is converted, or call "
        "from_float before it, or before what contains it (as rand_augment)",
    ),
    (
        ops.Resize((8, 8)),
        (State("mask", "int64", (None, None), (8, 8)),),
        "resize has no rule for mask int64[<=8x<=8]: expected a mask of shape (H, W) and dtype "
        "uint8, uint16, int32. Store class numbers in one of these",
    ),
    (
        ops.HorizontalFlip(),
        (State.fixed("image", "uint8", (8, 9, 3)), State.fixed("mask", "uint8", (9, 8))),
        "horizontal_flip: expected values of one size in a call, got image uint8[8x9x3] and mask "
        "uint8[9x8]. If that is intended, call the op with relative=True; or resize one of them "
        "first",
    ),
    (
        ops.ColorJitter(),
        (State.fixed("image", "uint8", (8, 8, 4)),),
        "color_jitter has no rule for image uint8[8x8x4]: expected an image of 1 (gray) or 3 "
        "channels (red, green, blue). Drop the other channels first",
    ),
    (
        ops.CenterCrop(8, fill=(1, 2)),
        (IMAGE,),
        "center_crop: expected fill to be one level or one for each channel of image "
        "uint8[<=400x<=500x3], got 2 levels (1, 2)",
    ),
    (
        ops.RandomCrop(8, mask_fill=-1),
        (MASK,),
        "random_crop: expected mask_fill from 0 to 255 for mask uint8[<=400x<=500], got -1",
    ),
    (
        ops.Normalize(mean=(1.0, 2.0)),
        (IMAGE,),
        "normalize: expected mean to be one number, or one for each channel of image "
        "uint8[<=400x<=500x3], got 2 numbers (1.0, 2.0)",
    ),
]


@pytest.mark.parametrize(("call", "message"), PARAMETERS, ids=[m[:40] for _, m in PARAMETERS])
def test_parameters(call, message):
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize(("op", "states", "message"), STATES, ids=[m[:50] for *_, m in STATES])
def test_states(op, states, message):
    with pytest.raises(StateError) as caught:
        op.declare(states)
    assert str(caught.value) == message


@pytest.mark.parametrize("given", [b"a", bytearray(b"ab"), memoryview(b"abc"), np.bytes_(b"a")])
def test_bytes_are_no_numbers(given):
    for op, name in (
        (lambda: ops.CenterCrop(8, fill=given), "center_crop: expected fill"),
        (lambda: ops.Normalize(mean=given), "normalize: expected mean"),
        (lambda: ops.Rotate(degrees=given), "rotate: expected degrees"),
    ):
        with pytest.raises(ParameterError, match=f"{name} to be numbers or text, got "):
            op()


def test_unknown_op():
    with pytest.raises(UnknownNameError) as caught:
        lookup("horizontal_flop")
    assert str(caught.value) == "there is no op 'horizontal_flop'; did you mean 'horizontal_flip'?"
    with pytest.raises(UnknownNameError, match="there is no op 'x'; there are: affine, "):
        lookup("x")


def test_registered_twice():
    class Copy(ops.HorizontalFlip):
        pass

    with pytest.raises(ValueError, match="op 'horizontal_flip' is registered twice"):
        register(Copy)


def test_registered_by_a_user_before_the_op_is_used(python):
    code = """
        from stoker import ops
        try:
            ops.register(type("Defocus", (ops.Op,), {"__module__": "mine"}))
        except ValueError as error:
            print(error)
    """
    assert "op 'defocus' is registered twice: stoker.ops.filters.defocus and " in python(code)


def test_called_on_no_value_of_a_pipeline():
    with pytest.raises(BuildError) as caught:
        ops.horizontal_flip(3, p=0.5)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "horizontal_flip: expected fields of a sample inside a function decorated with @pipeline, "
        "got int; give parameters by name: p"
    )
    with pytest.raises(BuildError, match=r"got nothing$"):
        ops.resize(size=(3, 3))


def test_a_parameter_without_its_name():
    @pipeline
    def darker(sample):
        return {"image": ops.brightness(sample.image, 0.4)}

    with pytest.raises(
        BuildError, match=r"got a field, float; give parameters by name: factor_range, p$"
    ):
        darker.graph()


def test_every_functional_form_has_the_parameters_of_its_op(examples):
    for name, choices in examples.items():
        form = getattr(ops, name)
        cls: type[Op] = lookup(name)
        parameters = inspect.signature(form).parameters
        fields = {f.name: f.default for f in dataclasses.fields(cls)}
        some = ["relative"] if {"image", "mask"} & set(cls.kinds()) else []
        other = ["expand"] if name == "rotate" else []  # chooses between two ops
        other += ["swap"] if cls.mirrors else []  # short for swap_keypoints after it
        assert list(parameters) == ["values", *fields, *other, "stream", *some]
        for parameter, default in fields.items():
            given = parameters[parameter].default
            empty = given is inspect.Parameter.empty
            assert empty == (default is dataclasses.MISSING)
            assert empty or given == default
        assert choices
