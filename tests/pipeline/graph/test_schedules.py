"""Parameters and conditions that follow the place in the stream: ctx.epoch, ctx.step, progress."""

from __future__ import annotations

import numpy as np
import pytest

from stoker import ops
from stoker.order.compose import dataset_order
from stoker.order.rank_rows import steps_per_epoch
from stoker.pipeline import Row, one_of, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.graph.schedule import facts_read
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.replay_row import replay
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, UsageError
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import row_table
from stoker.server.rows.schedules import try_schedules

PLACES = [(0, 0, 0.0), (0, 3, 0.1), (3, 1, 0.4), (3, 2, 0.5), (9, 4, 1.0), (0, 0, 0.0)]


@pytest.fixture(scope="module")
def fields(photo):
    return {"image": photo[0][:60, :80].copy(), "label": np.int64(4)}


def rotated_by(degrees, fields, row):
    """The same pipeline with a number in the place of the formula."""

    @pipeline
    def plain(sample):
        return {"image": ops.rotate(sample.image, degrees=degrees)}

    return plain(fields, **row)["image"]


def row_at(place, number=7):
    epoch, step, part = place
    return Row(5, number, epoch, 0, 0, step, part)


def test_a_parameter_is_that_of_the_rows_place(fields, both):
    @pipeline
    def train(sample, ctx):
        slope = 2 * ctx.epoch + ctx.step // 2
        most = 5.0 if ctx.epoch < 1 else 5 + 20 * ctx.progress + slope
        return {"image": ops.rotate(sample.image, degrees=(-most, most)), "most": most}

    plan = train.plan_for(fields)
    results = both(plan, [row_at(place) for place in PLACES], [fields["image"]])
    for (epoch, step, part), (image, most) in zip(PLACES, results, strict=True):
        expected = 5.0 if epoch < 1 else 5 + 20 * part + (2 * epoch + step // 2)
        assert most == expected
        row = {"seed": 5, "id": 7, "epoch": epoch}
        assert np.array_equal(image, rotated_by((-expected, expected), fields, row))
    # The order of the places has no part in it: the last is the first again.
    assert results[0][0].tobytes() == results[-1][0].tobytes()
    assert facts_read(train.graph()) == {"epoch", "step", "progress"}


def test_conditions_and_choices_follow_it(fields, both):
    @pipeline
    def train(sample, ctx):
        image = sample.image
        if ctx.progress >= 0.5 and ctx.step > 2:
            image = ops.invert(image, p=1.0)
        image = one_of(
            image,
            choices=[None, ops.VerticalFlip(1.0)],
            weights=[1 - ctx.progress, ctx.progress],
        )
        return {"image": image, "late": ctx.progress > 0.3}

    plan = train.plan_for(fields)
    results = both(plan, [row_at(place) for place in PLACES], [fields["image"]])
    for (_, step, part), (image, late) in zip(PLACES, results, strict=True):
        expected = 255 - fields["image"] if part >= 0.5 and step > 2 else fields["image"]
        flipped = part == 1.0 or (part > 0 and np.array_equal(image, expected[::-1]))
        assert np.array_equal(image, expected[::-1] if flipped else expected)
        assert late == (part > 0.3)


def test_in_process_frozen_and_without_pixels(fields):
    @pipeline
    def train(sample, ctx):
        image = ops.rotate(sample.image, degrees=(40 * ctx.progress, 40.0))
        return {"image": image, "number": ctx.step}

    out = train(fields, seed=5, id=7, step=9, progress=1.0)
    assert out["number"] == 9
    assert np.array_equal(out["image"], rotated_by((40.0, 40.0), fields, {"seed": 5, "id": 7}))
    plan = train.plan_for(fields)
    (drawn,) = (e for e in decide(plan, row_at((0, 0, 1.0)), {}) if e["stream"] == "rotate")
    assert drawn["record"]["angle"] == 40.0
    frozen = [
        decide(plan, row_at((epoch, 0, 0.25), epoch), {}, freeze={"rotate": 3})[0]["record"]
        for epoch in range(3)
    ]
    assert frozen[0] == frozen[1] == frozen[2]  # a freeze holds the draw; the range still follows
    with pytest.raises(UsageError, match=r"reads ctx.progress, so the length .* pass total_epochs"):
        train(fields, step=1)
    with pytest.raises(
        UsageError, match=r"reads ctx.step, which this row does not have: pass step"
    ):
        train(fields, progress=0.5)


def test_a_replay_tells_the_parameters_of_the_rows_place(fields):
    @pipeline
    def train(sample, ctx):
        return {"image": ops.rotate(sample.image, degrees=(0, 10 + 10 * ctx.progress))}

    plan = train.plan_for(fields)
    for part in (0.0, 0.5):
        (step,) = replay(plan, row_at((1, 2, part)), [fields["image"]]).steps
        assert step.settings["degrees"] == [0, 10 + 10 * part]
        assert step.parameters["angle"] <= 10 + 10 * part


def test_identity_and_data(fields):
    def made(formula):
        @pipeline
        def train(sample, ctx):
            return {"image": ops.invert(sample.image, p=formula(ctx))}

        return train

    one, other = made(lambda ctx: ctx.progress), made(lambda ctx: ctx.progress / 2)
    graph = one.graph()
    again = Graph.from_data(graph.to_data())
    assert pipeline_id(again) == one.pipeline_id != other.pipeline_id
    assert made(lambda ctx: ctx.progress).pipeline_id == one.pipeline_id
    plan = bind(again, {"image": one.plan_for(fields).inputs[0]})
    outputs = [np.zeros((60, 80, 3), np.uint8)]
    Interpreter(plan).run(row_at((0, 0, 1.0)), [fields["image"]], outputs)
    assert np.array_equal(outputs[0], 255 - fields["image"])
    plain = made(lambda c: 0.5).graph().to_data()
    assert all("varies" not in node for node in plain["nodes"])  # older ids stay as they are


def test_two_calls_share_a_decision(fields):
    @pipeline
    def train(sample, ctx):
        flip = ops.HorizontalFlip(ctx.progress)
        image = flip(sample.image)
        again = ops.horizontal_flip(sample.image, p=ctx.progress, stream="horizontal_flip")
        return {"image": image, "again": again}

    draws = [n for n in train.graph().to_data()["nodes"] if n["node"] == "draw"]
    assert len(draws) == 1


def test_what_schedules_refuse(fields):
    def refused(message, body, error=BuildError):
        with pytest.raises(error, match=message):
            pipeline(lambda sample, ctx: {"image": body(sample, ctx)}).plan_for(fields)

    why = r"test_schedules.py:\d+: center_crop: parameter 'size' differs from .*; .* ctx.ep"
    refused(why, lambda s, c: ops.center_crop(s.image, size=s.label))
    refused(why, lambda s, c: ops.center_crop(s.image, size=c.integer(1, 5)))
    refused(why, lambda s, c: ops.center_crop(s.image, size=c.view))
    refused(why, lambda s, c: ops.center_crop(s.image, size=c.epoch * s.image.height))
    refused(
        r"test_schedules.py:\d+: invert: invert: expected p to be a number from 0 to 1, got 2.0",
        lambda s, c: ops.invert(s.image, p=2 + c.progress),
    )
    refused(
        r"resize: expected size to be \(height, width\)",
        lambda s, c: ops.resize(s.image, size=c.progress),
    )


def spec_of(**changes):
    base = {"dataset": "content:" + "0" * 32, "dataset_rows": 100, "pipeline": "0" * 32}
    return StreamSpec(**base, **{"batch_size": 8, "total_epochs": 20} | changes)


def test_progress_is_what_is_done_of_all():
    spec = spec_of()
    steps = steps_per_epoch(spec)
    assert steps == 12
    progress = dataset_order(spec).progress
    assert progress(0, 0) == 0.0
    assert progress(7, 5) == (7 * 12 + 5) / 240
    assert progress(19, 11) == 239 / 240
    assert progress(20, 0) == progress(99, 3) == 1.0
    assert dataset_order(spec_of(total_epochs=None)).progress(3, 1) is None


def tried(plan, spec):
    try_schedules(plan, spec, dataset_order(spec))


def test_schedules_are_tried_when_a_stream_opens(fields):
    @pipeline
    def late(sample, ctx):
        return {"image": ops.invert(sample.image, p=ctx.epoch / 12)}

    with pytest.raises(
        BuildError,
        match=r"test_schedules.py:\d+: at epoch 13, step 0, progress 0.65 its schedule gives "
        r"invert p=1.08\d*: invert: expected p to be a number from 0 to 1",
    ):
        tried(late.plan_for(fields), spec_of())
    tried(late.plan_for(fields), spec_of(total_epochs=12))

    @pipeline
    def endless(sample, ctx):
        return {"image": ops.invert(sample.image, p=ctx.progress)}

    with pytest.raises(UsageError, match=r"reads ctx.progress, so the length .* pass total_epochs"):
        tried(endless.plan_for(fields), spec_of(total_epochs=None))

    @pipeline
    def growing(sample, ctx):
        return {"image": ops.gaussian_blur(sample.image, kernel_size=3 + 2 * ctx.epoch)}

    kept = r"decides the size or the memory of an op cannot follow a schedule"
    with pytest.raises(BuildError, match=kept):
        growing.plan_for(fields)

    @pipeline
    def later(sample, ctx):
        size = 5 if ctx.epoch == 37 else 3  # none of the places that are tried when it is bound
        return {"image": ops.gaussian_blur(sample.image, kernel_size=size)}

    tried(later.plan_for(fields), spec_of(total_epochs=33))
    with pytest.raises(BuildError, match=kept):
        tried(later.plan_for(fields), spec_of(total_epochs=38))


def test_chunks_of_rows_say_no_step(fields, located):
    @pipeline
    def train(sample, ctx):
        return {"image": ops.invert(sample.image, p=ctx.progress)}

    engine = compile_plan(train.plan_for(fields))
    with pytest.raises(UsageError, match="run_rows: the pipeline follows a schedule"):
        engine.run_rows(row_table([row_at(PLACES[0])]), located([], np.zeros(1, np.int64)), [])
