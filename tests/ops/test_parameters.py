"""Declared parameters: from one annotation follow check, run-time form, function and help."""

from typing import Annotated, Any

import numpy as np
import pytest

from stoker import ops
from stoker.ops import Op, ParameterError, register
from stoker.ops.contract import registry
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import refuse
from stoker.ops.contract.parameters import (
    ChannelNumbers,
    ClassNumbers,
    Ends,
    Flag,
    Interval,
    Levels,
    MaskClass,
    Number,
    OwnRule,
    ParameterRule,
    SidePair,
    Span,
    Spread,
    Whole,
    WholeSpan,
    Word,
)
from stoker.pipeline import pipeline


def turns(op: str, value: object) -> int:
    """Check a parameter as an op does that has a rule of its own."""
    if value not in range(4):
        raise refuse(op, "x_range", "from 0 to 3", value)
    return value


OWN = OwnRule(turns, "from 0 to 3", (("turns", "u1"),), lambda value: (value,))
PADDED = [7.0, 8.0, *[0.0] * 14]
RULES = [
    (Number(0, 2), 1, 1.0, {"x_range": 1.0}, -1, "a number from 0 to 2"),
    (Whole(1, 9), 3, 3, {"x_range": 3}, 3.5, "an integer from 1 to 9"),
    (Flag(), True, True, {"x_range": 1}, 1, "True or False"),
    (Word(("a", "b")), "b", "b", {"x_range": 1}, "c", "one of a, b"),
    (Span(-2, 2), (1, 2), (1.0, 2.0), {"x_low": 1.0, "x_high": 2.0}, (2, 1), "from -2 to 2"),
    (Interval(0, 1), [0.5, 1], (0.5, 1.0), {"x_low": 0.5, "x_high": 1.0}, (0, 1), "above 0"),
    (WholeSpan(1, 9), (3, 3), (3, 3), {"x_low": 3, "x_high": 3}, (3, 10), "integers with 1"),
    (Spread(90), 30, (-30.0, 30.0), {"x_low": -30.0, "x_high": 30.0}, 91, "a number from 0 to 90"),
    (SidePair(1), 5, (5, 5), {"x_range_y": 5, "x_range_x": 5}, 0, "an integer, or (height, width)"),
    (Levels(), (7, 8), (7, 8), {"x_range": PADDED}, 70000, "an integer from 0 to 255"),
    (ChannelNumbers(), (1, 2), (1.0, 2.0), {"x_range": [1.0, 2.0] * 8}, "x", "a number, or one"),
    (
        ClassNumbers(3),
        (5, 2, 5),
        (2, 5),
        {"x_range": [2, 5, 0], "x_range_count": 2},
        1.5,
        "a class",
    ),
    (OWN, 3, 3, {"turns": 3}, "x", "from 0 to 3"),
    (MaskClass(), 9, 9, {"x_range": [9]}, 1.5, "an integer from -2147483648"),
]


@pytest.mark.parametrize(
    ("rule", "given", "kept", "stored", "wrong", "expected"),
    RULES,
    ids=[type(rule).__name__ for rule, *_ in RULES],
)
def test_one_declaration_is_the_check_and_the_run_time_form(
    rule, given, kept, stored, wrong, expected
):
    @register_nowhere
    class Declared(Op):
        x_range: Annotated[Any, rule, "what it is"]

    made = Declared(given)
    assert made.x_range == kept
    assert type(made.x_range) is type(kept)
    found = made.params()
    assert found.dtype == Declared.parameters
    assert {name: found[name].tolist() for name in found.dtype.names} == stored
    with pytest.raises(ParameterError) as error:
        Declared(wrong)
    assert str(error.value).startswith("declared: expected x_range to be ")
    assert expected in str(error.value)
    assert str(error.value).endswith(f"got {wrong!r}")
    assert f"x_range: what it is; {rule.text}." in function(Declared).__doc__


def register_nowhere(cls):
    """Make an op class as `register` does, without a place in the registry."""
    try:
        return register(cls)
    finally:
        registry._OPS.pop(cls.__name__.lower(), None)


def test_every_rule_is_in_the_table():
    ours = {cls for cls in subclasses(ParameterRule) if cls.__module__ == ParameterRule.__module__}
    assert {type(rule) for rule, *_ in RULES} == ours - {Ends}


def subclasses(cls):
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


def test_size_is_stored_as_height_and_width():
    assert ops.RandomResizedCrop((3, 4)).params()[["height", "width"]].item() == (3, 4)


def test_an_op_of_a_module_with_text_annotations_is_declared_too():
    @register_nowhere
    class Textual(Op):
        part_range: "Annotated[Any, Span(0, 1), 'a part']"

    assert Textual((0, 1)).params()[["part_low", "part_high"]].item() == (0.0, 1.0)


def test_an_op_that_asks_for_its_layout_too_early_still_gets_its_own():
    """What is declared is found once for each class, but not before its decorator."""

    class Later(ops.RandomResizedCrop):
        name = "later"
        p: Annotated[float, Number(0.0, 1.0), "the probability"] = 0.5

    assert "p" not in Later.parameters.names
    assert "p" in register_nowhere(Later).parameters.names
    assert Later(4, p=0.25).params()["p"] == 0.25


def test_a_parameter_without_a_rule_is_neither_checked_nor_stored():
    @register_nowhere
    class Bare(Op):
        anything: Any = None

    assert Bare("x").params().dtype == np.dtype([("none", "u1")])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda image: ops.rgb_shift(image, red=(1, 2)),
            "rgb_shift() got an unexpected keyword argument 'red'; expected red_range, "
            "green_range, blue_range, p, stream, relative",
        ),
        (
            lambda image: ops.horizontal_flip(image, swaps="names"),
            "horizontal_flip() got an unexpected keyword argument 'swaps'; did you mean 'swap'?",
        ),
        (
            lambda image: ops.random_resized_crop(image, scale=(0.5, 1)),
            "random_resized_crop() needs the keyword argument 'size'",
        ),
    ],
)
def test_a_wrong_keyword_of_a_function_is_named(call, message):
    train = pipeline(lambda sample: {"image": call(sample.image)})
    with pytest.raises(TypeError) as error:
        train({"image": np.zeros((8, 8, 3), np.uint8)})
    assert str(error.value) == message


def test_help_says_what_each_parameter_means():
    for cls, parameter in ((ops.RgbShift, "red_range"), (ops.RandomCrop, "size")):
        doc = getattr(ops, cls.name).__doc__
        assert doc.startswith(cls.__doc__.splitlines()[0])
        assert f"    {parameter}: " in doc
    for resize in (ops.random_resized_crop, ops.resize, ops.resize_short, ops.resize_long):
        assert '`decode="scaled"`' in resize.__doc__.splitlines()[0]
        assert "    interpolation: " in resize.__doc__
    assert "With `expand`" not in ops.rotate.__doc__
    assert "with `expand`" in ops.rotate.__doc__
