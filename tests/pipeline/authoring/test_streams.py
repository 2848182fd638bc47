"""Decisions of ops: streams, the ways to synchronize them, stability under edits, freeze."""

from __future__ import annotations

import numpy as np
import pytest

from stoker import ops
from stoker.pipeline import Graph, Row, pipeline, scope, shared_views
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, UnknownNameError, UsageError


def decisions(pipe, fields, rows, freeze=None):
    """Return stream -> the records of all rows."""
    plan = pipe.plan_for(fields)
    engine = Interpreter(plan, freeze)
    outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    made: dict[str, list] = {}
    for row in rows:
        engine.run(row, [fields[name] for name in plan.fields], outputs)
        for entry in engine.records():
            if entry["stream"] is not None:
                made.setdefault(entry["stream"], []).append(tuple(entry["record"].items()))
    return made


@pytest.fixture(scope="module")
def fields(photo):
    return {"image": photo[0], "mask": photo[1], "label": np.int64(4)}


def test_inserting_removing_reordering_leaves_draws_alone(toys, fields, rows):
    @pipeline
    def base(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=48)
        image, mask = toys.flip(image, mask)
        return {"image": toys.shift(image), "mask": mask}

    @pipeline
    def inserted(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=48)
        image = toys.shift(image, stream="before")
        image, mask = toys.flip(image, mask)
        return {"image": toys.shift(image), "mask": mask}

    @pipeline
    def reordered(sample):
        image = toys.shift(sample.image)
        image, mask = toys.crop(image, sample.mask, side=48)
        return {"mask": toys.flip(mask), "image": image}

    first, second, third = (decisions(p, fields, rows) for p in (base, inserted, reordered))
    assert set(first) == {"toy_crop", "toy_flip", "toy_shift"}
    assert {k: v for k, v in second.items() if k != "before"} == first
    assert second["before"] != first["toy_shift"]
    assert third == first
    assert all(len(set(made)) > 1 for made in first.values())


def test_three_ways_to_synchronize_are_one_graph(toys):
    @pipeline
    def joint(sample):
        image, mask = toys.flip(sample.image, sample.mask, stream="both")
        return {"image": image, "mask": mask}

    @pipeline
    def instance(sample):
        flip = toys.Flip()
        image = flip(sample.image, stream="both")
        return {"image": image, "mask": flip(sample.mask)}

    @pipeline
    def named(sample):
        image = toys.flip(sample.image, stream="both")
        return {"image": image, "mask": toys.flip(sample.mask, stream="both")}

    data = joint.graph().to_data(sites=False)
    assert sum(node["node"] == "draw" for node in data["nodes"]) == 1
    assert data == instance.graph().to_data(sites=False) == named.graph().to_data(sites=False)
    assert joint.pipeline_id == instance.pipeline_id == named.pipeline_id


@pytest.mark.parametrize("way", ["op", "instance", "stream"])
def test_synchronized_geometry(way, photo, rows, both):
    """The mask is made of the image, so any difference in geometry shows in the pixels."""
    image = photo[0]
    mask = np.ascontiguousarray(image[..., 0])

    @pipeline
    def train(sample):
        if way == "op":
            a, b = ops.random_crop(sample.image, sample.mask, size=64, stream="c")
            a, b = ops.horizontal_flip(a, b)
        elif way == "instance":
            crop, flip = ops.RandomCrop(64), ops.HorizontalFlip()
            a, b = flip(crop(sample.image)), flip(crop(sample.mask))
        else:
            a = ops.random_crop(sample.image, size=64, stream="c")
            b = ops.random_crop(sample.mask, size=64, stream="c")
            a, b = (ops.horizontal_flip(v, stream="f") for v in (a, b))
        return {"image": a, "mask": b}

    plan = train.plan_for({"image": image, "mask": mask})
    results = both(plan, rows, (image, mask))
    assert all(np.array_equal(a[..., 0], b) for a, b in results)
    assert len({a.tobytes() for a, _ in results}) == len(rows)


def test_two_calls_with_one_default_name(toys):
    @pipeline
    def train(sample):
        image = toys.flip(sample.image)
        return {"image": toys.flip(image)}

    with pytest.raises(BuildError) as caught:
        train.graph()
    message = str(caught.value)
    assert message.count("conftest.py:") == 2
    for part in (
        "toy_flip: the default stream name 'toy_flip' is taken by the call at",
        "If both calls should make the same decision",
        "if each should decide for itself",
        "with scope('...')",
    ):
        assert part in message
    assert caught.value.details["stream"] == "toy_flip"


def test_scope_and_stream_keep_calls_apart(toys, fields, rows):
    @pipeline
    def train(sample):
        image = toys.flip(sample.image)
        with scope("left"), scope("again"):
            image = toys.flip(image)
        image = toys.flip(image, stream="mine")
        return {"image": toys.crop(image, side=16)}

    made = decisions(train, fields, rows)
    assert set(made) == {"toy_flip", "left/again/toy_flip", "mine", "toy_crop"}
    flips = [tuple(made[name]) for name in ("toy_flip", "left/again/toy_flip", "mine")]
    assert len(set(flips)) == 3


def test_scope_and_stream_names_are_checked(toys):
    def graph(body):
        return pipeline(lambda sample: {"image": body(sample)}).graph()

    def scoped(sample):
        with scope("/x"):
            return toys.flip(sample.image)

    with pytest.raises(BuildError, match=r"scope: expected a name such as 'left'.*, got '/x'"):
        graph(scoped)
    with pytest.raises(
        BuildError, match=r"expected a stream name that is a string .*'stoker/', got 'stoker/order'"
    ):
        graph(lambda sample: toys.flip(sample.image, stream="stoker/order"))
    with pytest.raises(BuildError, match=r"toy_scale draws nothing, so stream='x' has no effect"):
        graph(lambda sample: toys.Scale()(sample.image, stream="x"))


def test_decision_on_two_sizes_is_refused(toys, fields):
    flip = toys.Flip()

    @pipeline
    def train(sample):
        small = toys.crop(sample.image, side=20)
        return {"image": flip(small), "mask": flip(sample.mask)}

    with pytest.raises(
        BuildError,
        match=r"toy_flip: one decision \(made at .*test_streams.py:\d+\) is applied to image "
        r"uint8\[20x20x3\] and to mask uint8\[300x451\]: .* Resize one of them first",
    ):
        train.plan_for(fields)


def test_freeze(toys, fields, rows, both):
    @pipeline
    def train(sample):
        image = toys.flip(toys.crop(sample.image, side=32))
        return {"image": toys.shift(image)}

    free = decisions(train, fields, rows)
    fixed = decisions(train, fields, rows, {"toy_crop": 7})
    assert {k: v for k, v in fixed.items() if k != "toy_crop"} == {
        k: v for k, v in free.items() if k != "toy_crop"
    }
    by_seed = {(row.seed, made) for row, made in zip(rows, fixed["toy_crop"], strict=True)}
    assert len(by_seed) == len({row.seed for row in rows})
    # f stands for (id, epoch, visit, view) = (f, 0, 0, 0)
    plain = [Row(row.seed, 7, 0, 0, 0) for row in rows]
    assert fixed["toy_crop"] == decisions(train, fields, plain)["toy_crop"]
    epochs = decisions(train, fields, rows, {"toy_crop": "epoch"})
    first = [row._replace(epoch=0) for row in rows]
    assert epochs["toy_crop"] == decisions(train, fields, first)["toy_crop"]
    assert epochs["toy_crop"] != free["toy_crop"]
    plan = train.plan_for(fields)
    for freeze in ({"toy_crop": 2**64 - 1, "toy_flip": "epoch"}, {"toy_shift": 0}):
        both(plan, rows, [fields["image"]], freeze)


@pytest.mark.parametrize("make", [Interpreter, compile_plan], ids=["interpreter", "executor"])
def test_freeze_is_checked(make, toys, fields):
    plan = pipeline(lambda s: {"image": toys.crop(s.image)}).plan_for(fields)
    with pytest.raises(UnknownNameError, match=r"there is no stream 'crop' .* there are: toy_crop"):
        make(plan, {"crop": 1})
    for bad in (-1, 2**64, True, "day"):
        with pytest.raises(UsageError, match=r"freeze\['toy_crop'\]: expected an integer in"):
            make(plan, {"toy_crop": bad})


def test_mask_never_gets_a_new_value(photo, varied, rows, both):
    @pipeline
    def train(sample):
        image, mask = ops.random_resized_crop(sample.image, sample.mask, size=(40, 56))
        image, mask = ops.horizontal_flip(image, mask)
        return {"image": image, "mask": mask}

    image, mask = photo
    plan = bind(train.graph(), varied)
    for _, got in both(plan, rows, (image, mask)):
        assert set(np.unique(got)) <= set(np.unique(mask))
        assert len(np.unique(got)) > 1


def test_views_share_what_they_are_told_to(toys, fields, both):
    """Each view flips for itself; the crop, and only that, is one for all of them."""

    @pipeline
    def train(sample):
        with shared_views():
            image = toys.crop(sample.image, side=32)
        return {"image": toys.flip(toys.shift(image))}

    @pipeline
    def apart(sample):
        return {"image": toys.flip(toys.shift(toys.crop(sample.image, side=32)))}

    views = [Row(5, 9, 1, visit, view) for visit in (0, 3) for view in range(6)]
    made, alone = (decisions(p, fields, views) for p in (train, apart))
    assert len(set(made["toy_crop"][:6])) == len(set(made["toy_crop"][6:])) == 1
    assert made["toy_crop"][0] != made["toy_crop"][6]  # another visit is another decision
    assert len(set(alone["toy_crop"])) == 12
    assert made["toy_crop"][0] == alone["toy_crop"][0]  # that of view 0
    assert (made["toy_flip"], made["toy_shift"]) == (alone["toy_flip"], alone["toy_shift"])
    both(train.plan_for(fields), views, [fields["image"]])
    assert train.pipeline_id != apart.pipeline_id
    assert pipeline_id(Graph.from_data(train.graph().to_data())) == train.pipeline_id


def test_one_stream_for_all_views_and_for_each(toys, fields):
    """The same name inside and outside are two decisions: of one key in view 0 alone."""

    @pipeline
    def train(sample):
        with shared_views():
            left = toys.shift(sample.image, stream="s")
        right = toys.shift(sample.image, stream="s")
        return {"left": toys.crop(left, side=8), "right": toys.crop(right, side=8, stream="r")}

    for view in range(4):
        first, second = decisions(train, fields, [Row(5, 9, 1, 0, view)])["s"]
        assert (first == second) == (view == 0)
