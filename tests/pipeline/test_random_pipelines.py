"""Random pipelines of every op there is, with branches and shared streams, on photographs.

Each is made as graph data by a seeded generator (`random_graphs`). Two things are held: the
executor computes what the interpreter computes, bit for bit, in batches too where batch ops end a
pipeline; and what happens to a mask happens to the image it was painted into. Images of floats are
made of levels on the way, and in one pipeline of four they are stored so, with infinities and NaN.
A failure names the seed. 1,000 pipelines are interpreted; STOKER_TEST_PIPELINES sets how many are
compiled as well (300 by default), STOKER_TEST_PIPELINES_FROM the first seed.
"""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest
from random_graphs import Writer
from random_row_values import of_rows
from random_steps import ARRAYS, CONVERSIONS, PARAMS, takes_floats

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops.contract.registry import lookup, registered
from stoker.ops.contract.states import State
from stoker.pipeline import Row
from stoker.pipeline.authoring.in_process_batches import Held
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.compiled.program import write_program
from stoker.pipeline.compiled.proof import prove
from stoker.pipeline.engine.mixer import Mixer
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind

FIRST = int(os.environ.get("STOKER_TEST_PIPELINES_FROM", "0"))
PIPELINES = int(os.environ.get("STOKER_TEST_PIPELINES", "300"))
INTERPRETED = 1000
TOYS = {
    "toy_flip": lambda r: {"p": 0.5},
    "toy_trim": lambda r: {},
    "toy_shift": lambda r: {"most": 90.0},
}


def test_examples_cover_all_ops():
    """A new op joins this test, unless it needs boxes or labels, takes colors, or makes few."""
    terminal = {
        "bbox_safe_random_crop",
        "clip",
        "crop_around_box",
        "crop_non_empty_mask",
        "fit_length",
        "iou_crop",
        "one_hot",
        "to_gray",
        "window",
        "toy_scale",
        "edited",
        "broken_kernel",
        "broken_draw",
    }
    known = {name for name in registered() if name.startswith("toy") or not name.startswith("x")}
    package = {n for n in known if lookup(n).__module__.startswith(("stoker.", "tests."))}
    missing = {n for n in package if lookup(n).__module__.startswith("stoker.")}
    missing -= {*PARAMS, *ARRAYS, *CONVERSIONS.values()}
    assert missing <= terminal, f"add examples for {missing - terminal}"


def sample(photo, rng, k):
    """A cut-out of the photograph and its mask, and two numbers."""
    height, width = rng.integers(48, 120, 2)
    top, left = rng.integers(0, 150, 2)
    box = np.s_[top : top + height, left : left + width]
    return {
        "image": np.ascontiguousarray(photo[0][box]),
        "mask": np.ascontiguousarray(photo[1][box]),
        "label": np.int64(k * 2),
        "weight": np.float32(0.1 * k),
    }


def stored_floats(levels, rng, k):
    """An image of floats, as measured and not as painted: every second one has awkward values."""
    image = levels / np.float32(255)
    if k % 2:
        image *= np.float32(rng.choice((1.0, -1.0, 3e4)))
        awkward = np.float32([np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-40, -2, 1, 3e38])
        where = rng.uniform(size=image.shape) < rng.choice((0.0, 0.002, 0.05))
        image[where] = rng.choice(awkward, np.count_nonzero(where))
    return image


def computed(engine, row, fields):
    """Outputs of a row by name."""
    plan = engine.plan
    outputs = [np.full(o.shape, 77, o.dtype) for o in plan.outputs]
    engine.run(row, [fields[name] for name in plan.fields], outputs)
    return dict(zip((o.name for o in plan.outputs), outputs, strict=True))


def batch(engine, samples, *, arithmetic=PLAIN):
    """The rows of a batch of all the samples, each its outputs by name."""
    held = Held(engine, samples, range(len(samples)), Row(seed=len(samples), id=0, epoch=1))
    return list(held.mixed(Mixer(engine, arithmetic=arithmetic)))


def same(one, other, seed):
    """Return whether outputs of a row are alike, byte for byte."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        left, right = np.asarray(array), np.asarray(other[name])
        assert left.shape == right.shape, (seed, name)
        assert left.tobytes() == right.tobytes(), (seed, name)


@pytest.mark.slow
@pytest.mark.timeout(420)  # where the cache is cold, kernels of a dozen ops are compiled
@pytest.mark.parametrize("seed", range(FIRST, FIRST + PIPELINES))
def test_interpreter_equals_executor(seed, photo, varied, both):
    stored = "float32" if seed % 4 == 3 else "uint8"
    graph = Writer(seed, more=TOYS, stored=stored).graph()
    states = varied | {"image": dataclasses.replace(varied["image"], dtype=stored)}
    plan = bind(Graph.from_data(graph), states)
    rng = np.random.default_rng(seed + 1000)
    samples = [sample(photo, rng, k) for k in range(6)]
    if stored == "float32":
        for k, fields in enumerate(samples):
            fields["image"] = stored_floats(fields["image"], rng, k)
    drawn = set()
    for k, fields in enumerate(samples):
        row = Row(int(rng.integers(2**63)), k, k % 3, k % 2, k)
        (arrays,) = both(plan, [row], [fields[n] for n in plan.fields])
        outputs = dict(zip((o.name for o in plan.outputs), arrays, strict=True))
        assert (outputs["label"], outputs["weight"]) == (fields["label"], fields["weight"])
        if plan.outputs[1].name == "mask":  # it is stacked, so all of it was written
            assert set(np.unique(outputs["mask"])) <= set(np.unique(fields["mask"])) | {0}
        drawn.add(outputs["image"].tobytes())
    same(computed(Guarded(plan), row, fields), outputs, seed)
    assert len(drawn) > 1 or not any(drawn.pop()), "only a crop of padding alone is always equal"
    if plan.mixes:
        plain = batch(Interpreter(plan), samples)
        for row, fast in zip(
            plain, batch(compile_plan(plan), samples, arithmetic=COMPILED), strict=True
        ):
            same(row, fast, seed)


def test_the_generator_writes_every_end(varied):
    """Batch ops in branches and without, folds, and every form, within a hundred seeds."""
    plans = [bind(Graph.from_data(Writer(seed).graph()), varied) for seed in range(100)]
    mixes = [mix.op.name for plan in plans for mix in plan.mixes]
    assert {*mixes} == {"cutmix", "mixup", "mosaic"}
    assert {form.form for plan in plans for form in plan.graph.forms} == {"pad", "ragged", "list"}
    assert max(len(plan.mixes) for plan in plans) == 3
    streams = [d.op.name for plan in plans for d in plan.decisions if d.op.folds]
    assert {"stack", "blend", "random_blend"} <= {*streams}


class Noting(Writer):
    """Notes which op is applied to images of which dtype."""

    noted = frozenset()

    def apply(self, nodes, op, params, values, fold=False):
        self.noted |= {(op.name, self.dtypes.get(values[0]))}
        return super().apply(nodes, op, params, values, fold)


def test_the_generator_draws_floats(varied):
    """Every op that takes them gets them, in 400 seeds, and what joins is what is said of it."""
    noted, joined = set(), set()
    for seed in range(400):
        writer = Noting(seed, floats=True)
        data = writer.graph()
        plan = bind(Graph.from_data(data), varied)
        noted |= writer.noted
        (image,) = (value for name, value in data["outputs"] if name == "image")
        assert plan.delivered[0].dtype == writer.dtypes[image], seed
        joined |= {
            frozenset(writer.dtypes[block["results"][0]] for block in (node["then"], node["else"]))
            for node in data["nodes"]
            if node["node"] == "if"
        }
    of_floats = {name for name, dtype in noted if dtype == "float32"}
    assert of_floats >= {name for name, example in PARAMS.items() if takes_floats(name, example)}
    assert of_floats >= {*ARRAYS, "from_float", "cutmix", "mixup", "mosaic", "stack"}
    assert of_floats.isdisjoint({"equalize", "posterize", "clahe", "jpeg_compression"})
    assert joined == {*map(frozenset, (["float32"], ["uint8"], ["uint8", "float32"]))}


def test_the_generator_draws_numbers_of_the_row(varied):
    """Every parameter that its op declares for them gets one, and numbers of draws are read."""
    taken, read = set(), set()
    for seed in range(400):
        plan = bind(Graph.from_data(Writer(seed, of_rows=True).graph()), varied)
        taken |= {(d.op.name, one.name) for d in plan.decisions for one in d.row_parameters}
        read |= {node.name for node in plan.graph.nodes if getattr(node, "op", "") == "record"}
    assert taken >= {(name, one) for name in PARAMS for one in of_rows(lookup(name))}
    assert read >= {"apply", "angle", "top"}


def paint(mask):
    """An image that says which class each pixel has, twice."""
    return np.stack([mask * 255, 255 - mask * 255, mask * 0], -1)


def levels(image):
    """The levels of an image that may be of floats."""
    return image if image.dtype == np.uint8 else np.clip(np.rint(image * 255), 0, 255)


def painted(photo, rng):
    """A mask of two classes and the image painted from it."""
    mask = (sample(photo, rng, 0)["mask"] > 3).astype(np.uint8)
    return {"image": paint(mask), "mask": mask}


@pytest.mark.slow
def test_what_is_painted_into_the_image_stays_where_the_mask_is(photo, varied):
    """Exact where ops take the nearest pixel; else wherever no filter mixed two classes."""
    compared = 0
    for seed in range(INTERPRETED):
        sharp = seed % 2 == 0
        plan = bind(Graph.from_data(Writer(seed, painted=True, sharp=sharp).graph()), varied)
        prove(plan, write_program(plan))
        rng = np.random.default_rng(seed)
        fields = sample(photo, rng, seed % 5) | painted(photo, rng)
        engine = Interpreter(plan)
        if plan.mixes:
            rows = batch(engine, [fields, fields | painted(photo, rng)])
        else:
            rows = [computed(engine, Row(seed, seed, 1), fields)]
        for done in rows:
            image, expected = levels(done["image"]), paint(done["mask"])
            pure = (image[..., 0] % 255 == 0) & (image[..., 1] == 255 - image[..., 0])
            sure = pure | sharp
            wrong = int((image[sure] != expected[sure]).any(-1).sum())
            assert wrong == 0, f"seed {seed}: {wrong} of {sure.sum()} pixels differ"
            compared += int(sure.sum())
    assert compared > 400 * INTERPRETED


def test_expressions_agree_on_awkward_numbers(both):
    """All expressions on all pairs of awkward values, against the text of the contract."""
    integers = [0, 1, -1, 2, -7, 2**62, -(2**63), 2**63 - 1, 2**53 + 1]
    floats = [0.0, -0.0, 1.5, -2.25, 1e308, -1e-320, 3.0]
    states = {
        "i": State.fixed("scalar", "int64", ()),
        "j": State.fixed("scalar", "int64", ()),
        "f": State.fixed("scalar", "float64", ()),
        "g": State.fixed("scalar", "float64", ()),
        "b": State.fixed("scalar", "bool", ()),
    }
    fields = [{"node": "input", "field": name} for name in states]
    nodes, outputs = [], []
    for op in [
        "add",
        "sub",
        "mul",
        "div",
        "floordiv",
        "mod",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "and",
        "or",
    ]:
        for args in ([0, 1], [2, 3], [0, 3], [4, 1]):
            if op in ("floordiv", "mod") and {2, 3} & set(args):
                continue
            nodes.append({"node": "expr", "op": op, "args": args, "name": ""})
            outputs.append([f"{op}{args}", len(fields) + len(nodes) - 1])
    for op, arg in (("neg", 0), ("neg", 2), ("not", 0), ("not", 2), ("not", 4)):
        nodes.append({"node": "expr", "op": op, "args": [arg], "name": ""})
        outputs.append([f"{op}{arg}", len(fields) + len(nodes) - 1])
    data = {"version": 1, "nodes": [*fields, *nodes], "outputs": outputs}
    plan = bind(Graph.from_data(data), states)
    values = [
        {
            "i": np.int64(i),
            "j": np.int64(j),
            "f": np.float64(f),
            "g": np.float64(g),
            "b": np.bool_(b),
        }
        for i in integers
        for j in integers
        for f, g, b in [
            (floats[(i + j) % 7], floats[(i - 3 * j) % 7], (i * j) % 3 == 0),
        ]
    ]
    names = [name for name, _ in outputs]
    for fields in values:
        (got,) = both(plan, [Row(0, 0, 0)], [fields[name] for name in plan.fields])
        result = dict(zip(names, got, strict=True))
        i, j = int(fields["i"]), int(fields["j"])
        wrapped = (i + j + 2**63) % 2**64 - 2**63
        assert result["add[0, 1]"] == wrapped
        assert result["floordiv[0, 1]"] == (0 if j == 0 else (i // j + 2**63) % 2**64 - 2**63)
        assert result["mod[0, 1]"] == (0 if j == 0 else i % j)
        assert result["lt[0, 1]"] == (i < j)
        assert result["eq[0, 3]"] == (float(i) == float(fields["g"]))
        assert result["and[0, 1]"] == (i != 0 and j != 0)


def alike():
    """Pairs of ops of which one's records begin as the other's do."""
    names = sorted(registered())
    for kind in ("record", "parameters"):
        fields = {
            name: [(n, dtype.fields[n]) for n in dtype.names or ()]
            for name in names
            for dtype in [getattr(lookup(name), kind)]
        }
        for one in names:
            for other in names:
                mine, theirs = fields[one], fields[other]
                if mine != theirs and theirs[: len(mine)] == mine and {one, other} <= set(PARAMS):
                    yield one, other


@pytest.mark.slow
def test_records_that_begin_alike(photo, varied, both, rows):
    """numba would take such a record for the other one, and warn: `machine_record` prevents it."""
    pairs = [pair for pair in alike() if not pair[0].startswith("toy")]
    assert ("center_crop", "letterbox") in pairs
    one, other = ("center_crop", "letterbox")
    for order in ((one, other), (other, one)):
        writer = Writer(3)
        fields = [{"node": "input", "field": f} for f in ("image", "mask", "label", "weight")]
        nodes, flow = [], (0, 1)
        for name in order:
            flow = writer.call(nodes, name, flow)
        flow = writer.call(nodes, "resize", flow, {"size": [24, 24]})
        outputs = [["image", flow[0]], ["mask", flow[1]]]
        graph = Graph.from_data({"version": 1, "nodes": [*fields, *nodes], "outputs": outputs})
        plan = bind(graph, varied)
        inputs = [np.ascontiguousarray(array[:90, :70]) for array in photo]
        both(plan, rows, inputs[: len(plan.fields)])
