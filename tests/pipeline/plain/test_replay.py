"""A replay has every decision and value of a row, and the row's own bytes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.registry import registered
from stoker.ops.contract.states import State
from stoker.ops.contract.units import switch_of, unit_of
from stoker.pipeline import Pipeline, pipeline
from stoker.pipeline.plain.replay_row import replay
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import UnknownNameError
from stoker.rng.row import Row


@pytest.fixture(scope="module")
def plan(toys, varied):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=40)
        image, mask = toys.flip(image, mask, p=0.5)
        image = toys.shift(image) if sample.label > 2 else toys.flip(image, stream="other")
        return {"image": toys.scale(image), "mask": mask, "n": sample.label + 1}

    return bind(train.graph(), varied)


@pytest.fixture(scope="module")
def inputs(plan, photo):
    def of(label: int) -> list:
        fields = {"image": photo[0], "mask": photo[1], "label": np.int64(label)}
        return [fields[name] for name in plan.fields]

    return of


def test_outputs_are_the_rows_bytes(plan, inputs, interpret, rows):
    for label, row in enumerate(rows):
        expected = interpret(plan, row, inputs(label % 5))
        found = replay(plan, row, inputs(label % 5))
        assert [value.name for value in found.outputs] == ["image", "mask", "n"]
        for value, array in zip(found.outputs, expected, strict=True):
            assert value.array.dtype == array.dtype
            assert value.array.tobytes() == array.tobytes()
            assert not value.array.flags.writeable


def test_every_step_has_its_values(plan, inputs, photo):
    row = next(
        row
        for row in (Row(3, k, 1) for k in range(50))
        if replay(plan, row, inputs(4)).steps[1].applied
    )
    found = replay(plan, row, inputs(4))
    assert (found.seed, found.id, found.epoch, found.visit, found.view) == (3, row.id, 1, 0, 0)
    assert {value.name: value.kind for value in found.fields} == {
        "image": "image", "mask": "mask", "label": "label",
    }  # fmt: skip
    crop, flip, shift, other, scale = found.steps
    top, left = crop.parameters["top"], crop.parameters["left"]
    assert [value.name for value in crop.values] == ["image", "mask"]
    for value, source in zip(crop.values, photo, strict=True):
        assert np.array_equal(value.array, source[top : top + 40, left : left + 40])
    for value, before in zip(flip.values, crop.values, strict=True):
        assert np.array_equal(value.array, before.array[:, ::-1])
        assert value.of == before.number
    by = np.uint8(shift.parameters["by"])
    assert np.array_equal(shift.values[0].array, flip.values[0].array + by)
    assert (other.made, other.applied, other.parameters, other.values) == (False, False, {}, ())
    assert other.why.startswith(f"its branch was not taken: the condition at {__file__}:")
    assert other.why.endswith(" was True")
    assert np.array_equal(scale.values[0].array, shift.values[0].array.astype(np.float32) * 2)
    assert scale.values[0].of == shift.values[0].number
    assert [value.of for value in found.outputs] == [
        scale.values[0].number, flip.values[1].number, None,
    ]  # fmt: skip
    assert (crop.op, crop.stream, crop.settings) == ("toy_crop", "toy_crop", {"side": 40})
    assert (Path(crop.file).name, crop.line > 0) == ("conftest.py", True)  # where the toys are
    assert crop.units == {"top": "px", "left": "px"}


def test_the_branch_that_was_taken_decides_what_was_made(plan, inputs):
    found = replay(plan, Row(3, 1, 1), inputs(0))
    assert [step.made for step in found.steps] == [True, True, False, True, True]
    assert found.steps[2].why.endswith(" was False")
    assert found.steps[4].values[0].of == found.steps[3].values[0].number


def test_a_probability_that_is_not_hit_is_told(plan, inputs):
    seen = {}
    for k in range(40):
        step = replay(plan, Row(3, k, 1), inputs(4)).steps[1]
        assert step.made
        assert step.applied == bool(step.parameters["flip"])
        seen[step.applied] = step.why
    assert seen == {True: "", False: "its probability was not hit"}


def test_a_freeze_holds_the_stream_still(plan, inputs):
    freeze = {"toy_crop": 7}
    found = [replay(plan, Row(3, k, 1), inputs(4), freeze).steps[0].parameters for k in (1, 2)]
    assert found[0] == found[1]
    assert replay(plan, Row(3, 1, 1), inputs(4)).steps[0].parameters != found[0]
    with pytest.raises(UnknownNameError, match=r"there is no stream 'crop'"):
        replay(plan, Row(3, 1, 1), inputs(4), {"crop": 7})


def test_half_precision_values_are_kept_as_such(varied, photo):
    @pipeline
    def half(sample):
        image = ops.center_crop(sample.image, size=8)
        mean, std = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
        return {"image": ops.normalize(image, mean=mean, std=std, dtype="float16", layout="CHW")}

    found = replay(bind(half.graph(), varied), Row(0, 0, 0), [photo[0]])
    (value,) = found.steps[-1].values
    assert value.array.dtype == np.float16
    assert value.array.tobytes() == found.output("image").tobytes()
    with pytest.raises(KeyError, match="absent"):
        found.output("absent")


def test_an_op_whose_probability_is_not_hit_was_not_applied(photo):
    image = np.ascontiguousarray(photo[0][:24, :30])
    state = State.fixed("image", "uint8", image.shape)
    with_p = [cls for cls in registered().values() if "p" in cls.__dataclass_fields__]
    tried = [cls for cls in with_p if "image" in cls.kernels and _has_defaults(cls)]
    assert len(tried) > 15
    for cls in tried:
        plan = bind(_applying(cls(p=0.0)).graph(), {"image": state})
        step = replay(plan, Row(0, 0, 0), [image]).steps[0]
        assert (step.op, step.made, step.applied) == (cls.name, True, False)
        assert step.why == "its probability was not hit"


def _applying(op) -> Pipeline:
    @pipeline
    def one(sample):
        return {"image": ops.center_crop(op(sample.image), size=8)}

    return one


def _has_defaults(cls) -> bool:
    fields = dataclasses.fields(cls)
    return all(f.default is not dataclasses.MISSING or f.name == "p" for f in fields)


def test_an_op_without_a_switch_that_does_something_was_applied(varied, photo):
    @pipeline
    def out(sample):
        return {"image": ops.resize(ops.zoom_out(sample.image, p=1.0), size=(8, 8))}

    step = replay(bind(out.graph(), varied), Row(0, 0, 0), [photo[0][:90, :90]]).steps[0]
    assert (switch_of(ops.ZoomOut(p=1.0)), step.applied) == (None, True)


def test_units():
    assert unit_of(ops.GaussianNoise(), "sigma") == "gray levels"
    assert unit_of(ops.GaussianBlur(), "sigma") == "px"
    assert unit_of(ops.Rotate(10), "angle") == "degrees"
    assert unit_of(ops.Brightness(), "factor") == ""
