"""Kernels by level that become one table give the bytes of the kernels one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import Writer

from stoker import ops
from stoker.ops.contract.op import State
from stoker.ops.contract.registry import lookup as op_named
from stoker.ops.kernels.simd import lookup
from stoker.pipeline import outputs, pipeline
from stoker.pipeline.compiled import program
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.proof import prove
from stoker.pipeline.compiled.sizes import SizeFinder
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.sizes import PlainSizes
from stoker.pipeline.planning.levels import levels_steps
from stoker.pipeline.planning.plan import bind
from stoker.pipeline.showing.explain import explain
from stoker.pipeline.showing.source import source
from stoker.rng.row import Row, row_table

BY_LEVEL = ("brightness", "gamma", "invert", "posterize", "solarize")
BOUND = (90, 90)
VARIED = State("image", "uint8", (None, None, 3), (*BOUND, 3))
FIXED = State.fixed("image", "uint8", (70, 61, 3))


@pytest.fixture(params=[True, False], ids=["tables", "kernels"])
def quick(request, monkeypatch):
    """As on a processor that holds tables in registers, and as on one that does not."""
    monkeypatch.setattr(lookup, "IN_REGISTERS", request.param)
    monkeypatch.setattr(program, "WORTH_A_TABLE", 0)
    return request.param


def runs(body, states):
    """The runs that are joined, each by the names of its ops."""
    plan = bind(pipeline(body).graph(), states, shortcuts=True)
    return [[one.decision.op.name for one in step.applies] for step in levels_steps(plan.steps)]


def outputs_of(engine, row, fields):
    plan = engine.plan
    outputs = [np.full(output.shape, 77, output.dtype) for output in plan.outputs]
    engine.run(row, [fields[name] for name in plan.fields], outputs)
    return [output.tobytes() for output in outputs]


def noise(seed, height, width, channels=3):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def chain(image, p=0.5, names=BY_LEVEL):
    for number, name in enumerate(names):
        image = getattr(ops, name)(image, p=p, stream=f"{name} {number}")
    return image


def test_what_is_by_level():
    """Of all ops; whether it is true of them is a part of the op contract."""
    found = {
        name
        for name in ops.registered()
        if any(kernel.by_level for kernel in op_named(name).kernels.values())
        and op_named(name).__module__.startswith("stoker.")
    }
    assert found == {*BY_LEVEL}


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("p", [0, 0.5, 1])
@pytest.mark.parametrize("freeze", [None, {"gamma 1": 5, "invert 2": "epoch"}])
def test_a_chain(quick, channels, p, freeze):
    @pipeline
    def train(sample):
        return {"image": chain(ops.center_crop(sample.image, size=(63, 41)), p)}

    states = {"image": State("image", "uint8", (None, None, channels), (*BOUND, channels))}
    short = bind(train.graph(), states, shortcuts=True)
    (step,) = levels_steps(short.steps)
    assert len(step.applies) == 5
    fast, plain = compile_plan(short, freeze), Interpreter(bind(train.graph(), states), freeze)
    for k in range(20):
        fields, row = {"image": noise(k, 1 + 4 * k, 90 - 3 * k, channels)}, Row(3, k, k % 3, k % 2)
        assert outputs_of(fast, row, fields) == outputs_of(plain, row, fields)
        drawn = [decision.index for decision in short.decisions]
        assert [fast.record_of(n) for n in drawn] == [plain.record_of(n) for n in drawn]


@pytest.fixture(scope="module")
def engines():
    @pipeline
    def train(sample):
        return {"image": outputs.as_list(chain(sample.image, names=("gamma", "brightness")))}

    graph, states = train.graph(), {"image": VARIED}
    return compile_plan(bind(graph, states, shortcuts=True)), Interpreter(bind(graph, states))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), height=st.integers(1, 90), width=st.integers(1, 90))
def test_every_size(engines, seed, height, width):
    fields, row = {"image": noise(seed, height, width)}, Row(seed, 1, 0)
    fast, plain = engines
    assert outputs_of(fast, row, fields) == outputs_of(plain, row, fields)


class Levels(Writer):
    """Pipelines of which most ops are by level."""

    def known(self, image, names):
        known = super().known(image, names)
        return [n for n in known if n in BY_LEVEL] if self.rng.uniform() < 0.8 else known


def test_random_pipelines(varied):
    """Of 400 the plans are interpreted, with branches and shared streams; programs are proved."""
    found = []
    for seed in range(400):
        graph = Graph.from_data(Levels(seed).graph())
        short, whole = bind(graph, varied, shortcuts=True), bind(graph, varied)
        prove(short, program.write_program(short, as_tables=True))
        found += [len(step.applies) for step in levels_steps(short.steps)]
        assert short.outputs == whole.outputs
        assert [d.op for d in short.decisions] == [d.op for d in whole.decisions]
        rng = np.random.default_rng(seed)
        height, width = (int(side) for side in rng.integers(48, 120, 2))
        fields = {
            "image": noise(seed, height, width),
            "mask": rng.integers(0, 9, (height, width)).astype(varied["mask"].dtype),
            "label": np.int64(seed % 12),
            "weight": np.float32(0.1 * (seed % 6)),
        }
        row = Row(seed, seed, 1)
        expected = outputs_of(Interpreter(whole), row, fields)
        assert outputs_of(Interpreter(short), row, fields) == expected, seed
    assert len(found) > 250
    assert max(found) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_pipelines_compiled(seed, varied, quick):
    """Joined, and not: one table, kernels one after the other, and the interpreter agree."""
    seeds = (s for s in range(1000 * seed, 1000 * seed + 999) if not Levels(s).floats)
    plans = ((s, Graph.from_data(Levels(s).graph())) for s in seeds)
    number, graph = next(
        (s, g) for s, g in plans if any(levels_steps(bind(g, varied, shortcuts=True).steps))
    )
    fast = compile_plan(bind(graph, varied, shortcuts=True))
    plain = Interpreter(bind(graph, varied))
    for k in range(6):
        fields = {
            "image": noise(k, 48 + 7 * k, 119 - 5 * k),
            "mask": np.full((48 + 7 * k, 119 - 5 * k), k, varied["mask"].dtype),
            "label": np.int64(2 * k),
            "weight": np.float32(0.1 * k),
        }
        row = Row(number, k, k % 2)
        assert outputs_of(fast, row, fields) == outputs_of(plain, row, fields), number


def test_schedules_and_frozen_draws_count(quick):
    @pipeline
    def train(sample, ctx):
        image = ops.gamma(sample.image, gamma_range=(0.5, 0.6 + ctx.epoch), p=1)
        image = ops.brightness(image, p=ctx.progress)
        return {"image": ops.solarize(image, threshold=100, p=0.5)}

    graph, states = train.graph(), {"image": FIXED}
    short = bind(graph, states, shortcuts=True)
    assert len(list(levels_steps(short.steps))) == 1
    fields, seen = {"image": noise(1, 70, 61)}, set()
    fast, plain = (compile_plan(short), Interpreter(bind(graph, states)))
    for epoch in range(4):
        row = Row(1, 1, epoch, progress=epoch / 4)
        found = outputs_of(fast, row, fields)
        assert found == outputs_of(plain, row, fields)
        seen.add(found[0])
    assert len(seen) > 2


def test_two_images_of_one_call(quick):
    """Each has a run of its own, by the same decisions; sizes are compared as before."""

    @pipeline
    def train(sample):
        one, two = ops.brightness(sample.image, sample.other, p=1)
        one, two = ops.gamma(one, two, p=1)
        return {"one": one, "two": two}

    states = {"image": FIXED, "other": FIXED}
    short = bind(train.graph(), states, shortcuts=True)
    assert [len(step.applies) for step in levels_steps(short.steps)] == [2, 2]
    fields, row = {"image": noise(1, 70, 61), "other": noise(2, 70, 61)}, Row(1, 2, 3)
    plain = Interpreter(bind(train.graph(), states))
    assert outputs_of(compile_plan(short), row, fields) == outputs_of(plain, row, fields)


def test_where_a_run_ends():
    def alone(sample):
        return {"image": chain(sample.image, names=("gamma",))}

    def apart(sample):
        image = ops.contrast(ops.gamma(sample.image))
        return {"image": ops.brightness(image)}

    def delivered(sample):
        image = chain(sample.image, names=("gamma", "invert"))
        return {"between": image, "image": ops.brightness(ops.posterize(image))}

    def measured(sample):
        image = ops.brightness(ops.gamma(sample.image))
        if image.mean() > 100:
            image = ops.invert(ops.solarize(image))
        return {"image": ops.posterize(image)}

    def conditional(sample):
        image = ops.gamma(sample.image)
        if sample.label > 1:
            image = ops.invert(image)
        return {"image": image}

    def floats(sample):
        image = ops.to_float(sample.image)
        return {"image": chain(image, names=("gamma", "invert", "brightness"))}

    states = {"image": FIXED, "label": State.fixed("label", "int64", ())}
    assert runs(alone, states) == runs(apart, states) == runs(conditional, states) == []
    assert runs(floats, states) == []
    assert runs(delivered, states) == [["gamma", "invert"], ["posterize", "brightness"]]
    assert runs(measured, states) == [["gamma", "brightness"], ["solarize", "invert"]]


def test_decisions_and_texts_of_a_joined_plan(quick):
    @pipeline
    def train(sample):
        return {"image": ops.resize(chain(sample.image), size=9)}

    graph, states, row = train.graph(), {"image": VARIED}, Row(1, 2, 3)
    short, whole = bind(graph, states, shortcuts=True), bind(graph, states)
    assert short.pipeline_id == whole.pipeline_id
    assert decide(short, row, {"image": (30, 40)}) == decide(whole, row, {"image": (30, 40)})
    assert "brightness d0, gamma d1, invert d2, posterize d3, solarize d4 of v0" in explain(short)
    made: dict = {}
    exec(source(short), made)
    fields = {"image": noise(3, 30, 40)}
    (expected,) = outputs_of(Interpreter(whole), row, fields)
    assert made["row"](fields, seed=1, id=2, epoch=3)["image"].tobytes() == expected


def test_sizes_of_padded_rows_are_known_before(quick):
    @pipeline
    def train(sample):
        image = ops.random_short_side_scale(sample.image, sizes=(9, 40), max_size=80)
        return {"image": outputs.pad(chain(image))}

    plans = [bind(train.graph(), {"image": VARIED}, shortcuts=short) for short in (True, False)]
    rows = row_table([Row(1, k, 0) for k in range(8)])
    sides = np.random.default_rng(1).integers(1, 90, (8, 1, 2))
    given = Row(1, 0, 0), rows, sides, ()
    short, plain = SizeFinder(plans[0]).find(*given), PlainSizes(plans[1]).find(*given)
    assert (short == plain).all()
    assert len(np.unique(short)) > 8
