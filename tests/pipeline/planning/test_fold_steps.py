"""Folds in a pipeline: both engines, what is drawn, where results lie, and what is refused."""

import numpy as np
import pytest

from stoker import ops
from stoker.ops import State
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.replay_row import replay
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.showing.explain_plan import explain
from stoker.protocol.errors import BuildError, SampleError


def image_of(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


@pipeline
def several(sample):
    flipped = ops.horizontal_flip(sample.image, p=0.5)
    image = ops.random_blend(sample.image, flipped, ops.invert(sample.image, p=1.0), alpha=0.5)
    if sample.label > 2:
        image = ops.blend(image, flipped, weights=(3, 1))
    small = [ops.resize(v, size=(12, 12)) for v in (image, flipped)]
    half = [ops.normalize(v, dtype="float16", layout="CHW") for v in small]
    return {
        "mixed": ops.stack(*small),
        "half": ops.stack(*half),
        "labels": ops.stack(sample.label * 3, sample.label * 2),
    }


@pytest.fixture(scope="module")
def mixed():
    """A plan of `several` over images of up to 40x40."""
    image = State("image", "uint8", (None, None, 3), (40, 40, 3))
    return bind(several.graph(), {"image": image, "label": State.fixed("label", "int64", ())})


def fields(plan, number):
    rng = np.random.default_rng(number)
    height, width = rng.integers(5, 40, 2)
    image = rng.integers(0, 256, (height, width, 3), np.uint8)
    return [{"image": image, "label": np.int64(number % 6)}[name] for name in plan.fields]


def test_engines_agree(mixed, both):
    seen = set()
    for number in range(12):
        row = Row(5, number, 1)
        for outputs in both(mixed, [row], fields(mixed, number)):
            seen.add(outputs[0].tobytes())
            guarded = [np.zeros(o.shape, o.dtype) for o in mixed.outputs]
            Guarded(mixed).run(row, fields(mixed, number), guarded)
            assert [a.tobytes() for a in guarded] == [a.tobytes() for a in outputs]
    assert len(seen) == 12


def test_the_last_fold_writes_the_slot_itself(mixed):
    text = explain(mixed)
    assert "random_blend d" in text
    stacks = [line for line in text.splitlines() if "= stack d" in line]
    assert len(stacks) == 3
    assert all("in the row of output" in line for line in stacks)
    assert " of v" in stacks[0]
    assert ", v" in stacks[0]


def test_decisions_and_replay_show_the_weights(mixed):
    row = Row(5, 4, 1)
    given = dict(zip(mixed.fields, fields(mixed, 4), strict=True))
    size = given["image"].shape[:2]
    told = decide(mixed, row, {"image": size}, {"label": int(given["label"])})
    drawn = {entry["op"]: entry["record"] for entry in told}
    steps = {step.op: step for step in replay(mixed, row, fields(mixed, 4)).steps}
    assert steps["random_blend"].parameters == drawn["random_blend"]
    assert sum(drawn["random_blend"]["weights"]) == 65536
    (value,) = steps["random_blend"].values
    assert value.array.shape[:2] == size
    frozen = Interpreter(mixed, {"random_blend": 3})
    records = set()
    for number in range(4):
        outputs = [np.zeros(o.shape, o.dtype) for o in mixed.outputs]
        frozen.run(Row(5, number, number), fields(mixed, number), outputs)
        records |= {str(r["record"]) for r in frozen.records() if r["op"] == "random_blend"}
    assert len(records) == 1


def test_a_blend_may_follow_a_schedule():
    @pipeline
    def train(sample, ctx):
        return {"image": ops.blend(sample.a, sample.b, weights=(1.0 - ctx.progress, ctx.progress))}

    a, b = np.full((4, 5, 3), 200, np.uint8), np.zeros((4, 5, 3), np.uint8)
    for compiled in (False, True):
        got = [
            int(train({"a": a, "b": b}, progress=part, compiled=compiled)["image"][0, 0, 0])
            for part in (0.0, 0.25, 1.0)
        ]
        assert got == [200, 150, 0]


def test_images_of_one_row_must_be_of_one_size():
    @pipeline
    def train(sample):
        return {"image": ops.resize(ops.blend(sample.a, sample.b, weights=(1, 1)), size=(4, 4))}

    free = State("image", "uint8", (None, None, 3), (40, 40, 3))
    plan = bind(train.graph(), {"a": free, "b": free})
    outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    Interpreter(plan).run(Row(1, 2, 3), [image_of((7, 8, 3)), image_of((7, 8, 3), 1)], outputs)
    with pytest.raises(SampleError, match="blend on field 'a' and field 'b'"):
        Interpreter(plan).run(Row(1, 2, 3), [image_of((7, 8, 3)), image_of((7, 9, 3))], outputs)


def test_a_graph_holds_a_fold_as_one_apply(mixed):
    """And an apply of several results is still several applies."""
    nodes = mixed.graph.to_data(sites=False)["nodes"]
    applies = [node for node in nodes if node["node"] == "apply"]
    assert all(node["results"] == 1 for node in applies)
    assert sorted(len(node["to"]) for node in applies)[-4:] == [2, 2, 2, 3]
    again = Graph.from_data(mixed.graph.to_data())
    assert pipeline_id(again) == mixed.pipeline_id
    data = mixed.graph.to_data()
    fold = next(node for node in data["nodes"] if node["node"] == "apply" and len(node["to"]) == 3)
    fold["results"] = 2
    with pytest.raises(
        BuildError, match=r"one result for each of 3 values .* or one for all of them, got 2"
    ):
        Graph.from_data(data)


def test_the_order_of_values_counts():
    def stacked(first, second):
        return pipeline(lambda s: {"x": ops.stack(s[first], s[second])}).pipeline_id

    assert len({stacked("a", "b"), stacked("b", "a"), stacked("a", "a")}) == 3


def test_an_op_of_one_value_makes_no_one_of_several():
    data = pipeline(lambda s: {"x": ops.stack(s.a, s.b)}).graph().to_data()
    draw = next(node for node in data["nodes"] if node["node"] == "draw")
    draw.update(op="invert", params={"p": 1.0}, stream="s")
    fields = dict.fromkeys("ab", State.fixed("image", "uint8", (8, 8, 3)))
    with pytest.raises(
        BuildError, match="invert takes one value per result; it cannot merge 2 values into one"
    ):
        bind(Graph.from_data(data), fields)


def test_a_blend_is_the_weighted_mean_rounded_once():
    images = [image_of((50, 41, 3), seed) for seed in range(5)]
    weights = (0.5, 0.125, 0.25, 0.0625, 0.0625)  # exact in units of 2**-16

    @pipeline
    def train(sample):
        values = [sample[f"i{number}"] for number in range(5)]
        return {"image": ops.blend(*values, weights=weights)}

    fields = {f"i{number}": image for number, image in enumerate(images)}
    mean = sum(w * image.astype(np.float64) for w, image in zip(weights, images, strict=True))
    assert np.array_equal(train(fields)["image"], np.floor(mean + 0.5))
    same = train(dict.fromkeys(fields, images[0]))["image"]
    assert np.array_equal(same, images[0])


def test_a_call_is_refused_by_line():
    def refused(message, body):
        with pytest.raises(BuildError, match=r"test_fold_steps.py:\d+: " + message):
            pipeline(lambda sample: {"x": body(sample)}).plan_for(
                {"image": image_of((8, 8, 3)), "mask": image_of((8, 8))}
            )

    refused(r"stack on image uint8\[8x8x3\]: stack makes one", lambda s: ops.stack(s.image))
    refused(
        r"stack on image uint8\[8x8x3\] and mask uint8\[8x8\]: stack: expected values of one kind",
        lambda s: ops.stack(s.image, s.mask),
    )
    refused("random_blend: expected count", lambda s: ops.random_blend(s.image))
    refused("blend: expected weights", lambda s: ops.blend(s.image, s.image, weights=(1,)))
    with pytest.raises(BuildError, match=r"blend: expected fields of a sample.*got nothing"):
        ops.blend(weights=(1, 1))
