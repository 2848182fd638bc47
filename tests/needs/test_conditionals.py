"""Needs of users for conditionals: plain Python, only the taken branch runs, targets follow."""

from collections import Counter

import numpy as np
import pytest
from skimage import data

from stoker import ops
from stoker.pipeline import Row, one_of, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.replay_row import replay

ROWS = [Row(seed=3, id=number, epoch=number % 2) for number in range(40)]


@pytest.fixture(scope="module")
def fields():
    photo = data.coffee()[:48, :64].copy()
    return {"image": photo, "mask": photo[..., 0].copy()}


@pytest.fixture(scope="module")
def plan(fields, counted):
    """Of five choices one inverts the image and one turns image and mask; three do nothing."""

    def invert(image, mask):
        return ops.python(counted.inverted, image, randomness="none"), mask

    def turn(image, mask):
        return ops.python(counted.turned, image, mask, randomness="none")

    @pipeline
    def train(sample, ctx):
        image, mask = sample.image, sample.mask
        if image.mean() > 0 and ctx.chance(0.6):
            image, mask = one_of(image, mask, choices={"invert": invert, "turn": turn, "no": None})
        return {"image": image, "mask": mask}

    return train.plan_for(fields)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [Interpreter, compile_plan])
def test_only_what_was_chosen_runs_and_targets_follow(engine, plan, fields, counted):
    ready = engine(plan)
    counted.calls.clear()  # of the trials at build
    inputs = [fields[name] for name in plan.fields]
    seen: Counter[str] = Counter()
    for row in ROWS:
        image, mask = (np.zeros(o.shape, o.dtype) for o in plan.outputs)
        ready.run(row, inputs, [image, mask])
        seen[what_was_done(image, mask, fields)] += 1
    assert seen.keys() == {"inverted", "turned", "untouched"}
    assert counted.calls == {"inverted": seen["inverted"], "turned": 2 * seen["turned"]}


def what_was_done(image, mask, fields):
    """Tell what a row is, bit for bit; fails for everything else."""
    made = {
        "untouched": (fields["image"], fields["mask"]),
        "inverted": (255 - fields["image"], fields["mask"]),
        "turned": (fields["image"][::-1, ::-1], fields["mask"][::-1, ::-1]),
    }
    (name,) = (
        name
        for name, (left, right) in made.items()
        if np.array_equal(image, left) and np.array_equal(mask, right)
    )
    return name


def test_the_choice_is_in_the_trace(plan, fields):
    inputs = [fields[name] for name in plan.fields]
    for row in ROWS:
        found = replay(plan, row, inputs)
        calls = [step for step in found.steps if step.op in {"inverted", "turned"}]
        done = what_was_done(found.output("image"), found.output("mask"), fields)
        assert len(calls) == 2
        assert [step.op for step in calls if step.applied] == [done] * (done != "untouched")
        passed_over = [step.why for step in calls if not step.applied]
        assert all(why.startswith("its branch was not taken") for why in passed_over)
