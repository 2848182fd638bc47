# ruff: noqa: RET503, RET505, SIM102, SIM108, SIM201 - the forms of `if` are what is tested
"""`if` on values of a sample: rewriting, joins, only the taken branch runs, what is refused."""

from __future__ import annotations

import functools
import importlib.util
import threading

import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.states import State
from stoker.pipeline import Row, branching, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError

NIGHT = [(np.bool_(night), np.int64(label)) for night in (False, True) for label in (-1, 2, 9)]


def inputs_of(plan, photo, night, label, weight=0.25):
    fields = {
        "image": photo[0],
        "mask": photo[1],
        "label": label,
        "is_night": night,
        "weight": np.float32(weight),
    }
    return [fields[name] for name in plan.fields]


def nodes(graph, kind):
    """Return all nodes of a kind, also those inside of blocks."""
    found = []

    def walk(block):
        for node in block:
            found.extend([node] if node["node"] == kind else [])
            if node["node"] == "if":
                walk(node["then"]["nodes"])
                walk(node["else"]["nodes"])

    walk(graph.to_data()["nodes"])
    return found


def test_the_example_of_the_design(toys, varied, photo, both):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=40)
        kind = 0
        if sample.is_night and not sample.label == 2:
            image = toys.shift(image, most=200.0)
            kind = 1
        elif 0 < sample.label < 5:
            image = toys.scale(image)
            kind = 2.5
        tail = toys.flip(image) if False else image
        return {"image": tail, "mask": mask, "kind": kind}

    plan = bind(train.graph(), varied)
    assert [(o.dtype, o.shape) for o in plan.outputs] == [
        ("float32", (40, 40, 3)), ("uint8", (40, 40)), ("float64", ())
    ]  # fmt: skip
    for night, label in NIGHT:
        row = Row(3, int(label) + 5, 0)
        inputs = inputs_of(plan, photo, night, label)
        ((image, mask, kind),) = both(plan, [row], inputs)
        expected = 1.0 if night and label != 2 else 2.5 if 0 < label < 5 else 0.0
        assert kind == expected
        probe = Interpreter(plan)
        probe.run(row, inputs, [image, mask, kind])
        made = {r["op"]: r["record"] for r in probe.records()}
        assert set(made) - {"to_float"} == {"toy_crop"} | {
            1.0: {"toy_shift"},
            2.5: {"toy_scale"},
        }.get(expected, set())
        box = made["toy_crop"]
        crop = photo[0][box["top"] : box["top"] + 40, box["left"] : box["left"] + 40]
        if expected == 1.0:
            crop = crop + np.uint8(made["toy_shift"]["by"])
        floats = crop.astype(np.float32) * 2 if expected == 2.5 else np.float32(crop / 255)
        assert np.array_equal(image, floats)  # levels that meet an image of floats become 0 to 1


def test_only_the_taken_branch_runs(toys, varied, photo, rows):
    """A draw of a branch that is not taken leaves its record as it was."""

    @pipeline
    def train(sample):
        image = toys.crop(sample.image, side=24)
        if sample.is_night:
            image = toys.shift(image)
        return {"image": image}

    plan = bind(train.graph(), varied)
    fast = compile_plan(plan)
    out = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    night = Row(1, 11, 0)
    fast.run(night, inputs_of(plan, photo, np.bool_(True), np.int64(0)), out)
    drawn = fast.records()
    for row in rows:
        fast.run(row, inputs_of(plan, photo, np.bool_(False), np.int64(0)), out)
        by = {r["op"]: r["record"] for r in fast.records()}
        assert by["toy_shift"] == {r["op"]: r["record"] for r in drawn}["toy_shift"]
    assert by["toy_crop"] != drawn[0]["record"]


def test_python_conditions_stay_python(toys):
    calls = []

    def traced(flag, limit):
        @pipeline
        def train(sample):
            image = sample.image
            if flag and limit > 3:
                image = toys.flip(image)
                calls.append("flip")
            elif not flag:
                return {"image": toys.crop(image), "early": sample.label}
            for turn in range(3):
                if turn == 1:
                    continue
                if turn == 2:
                    break
            size = 8 if limit else 16
            return {"image": toys.crop(image, side=size)}

        return train.graph()

    assert [n["op"] for n in nodes(traced(True, 4), "draw")] == ["toy_flip", "toy_crop"]
    assert [n["op"] for n in nodes(traced(True, 0), "draw")] == ["toy_crop"]
    assert nodes(traced(True, 0), "draw")[0]["params"] == {"side": 16}
    assert len(traced(False, 1).outputs) == 2
    assert calls == ["flip"]


def test_early_returns(toys, varied, photo, both):
    """`return` in an `if` ends the function there, as in Python, in pipelines and in helpers."""

    @branching
    def level(sample):
        if sample.label < 0:
            return -1
        twice = 2 * sample.label
        if twice > 10:
            return 10
        elif sample.is_night:
            return twice
        else:
            twice = twice + 1
        return twice

    @pipeline
    def train(sample):
        image = toys.crop(sample.image, side=16)
        if sample.is_night and sample.label == 2:
            return {"image": image, "level": level(sample)}
        image = toys.scale(image)
        if False:
            return {"never": image}
        return {"image": image, "level": level(sample)}

    plan = bind(train.graph(), varied)
    for night, label in NIGHT:
        row = Row(3, int(label) + 5, 0)
        ((image, found),) = both(plan, [row], inputs_of(plan, photo, night, label))
        expected = -1 if label < 0 else min(10, 2 * label if night or label > 5 else 2 * label + 1)
        assert found == expected
        probe = Interpreter(plan)
        probe.run(row, inputs_of(plan, photo, night, label), [image, found])
        assert ("toy_scale" in {r["op"] for r in probe.records()}) == (not (night and label == 2))


def test_early_returns_of_python_values(toys):
    """A condition on Python values keeps Python's ways, loops and all."""

    @branching
    def first_even(numbers, flag):
        if flag is None:
            return "none"
        for number in numbers:
            if number % 2:
                continue
            if number > 100:
                break
            flag = number
        else:
            return "ended"
        if flag:
            return flag

    for numbers, flag in (([1], None), ([1, 4], 3), ([102], 7), ([102], 0), ([4, 102], 1)):
        plain = first_even.__wrapped__(numbers, flag)
        assert first_even(numbers, flag) == plain


def test_containers_helpers_partials_and_identity(toys, varied, photo, both):
    @branching
    def maybe(pair, sample):
        if sample.weight > 0.5:
            pair = {"image": toys.shift(pair["image"]), "tags": (1, sample.label)}
        else:
            pair = {"image": pair["image"], "tags": (2, 7)}
        return pair

    def body(side, sample):
        untouched = sample.label
        image = toys.crop(sample.image, side=side)
        if sample.is_night:
            untouched = sample.label
        pair = maybe({"image": image}, sample)
        return {
            "image": pair["image"],
            "tag": pair["tags"][0],
            "l": pair["tags"][1],
            "u": untouched,
        }

    graph = pipeline(functools.partial(body, 16)).graph()
    assert len(nodes(graph, "if")) == 1
    plan = bind(graph, varied)
    for weight, tag, label in ((0.75, 1, 4), (0.25, 2, 7)):
        inputs = inputs_of(plan, photo, np.bool_(True), np.int64(4), weight)
        ((_, got, last, same),) = both(plan, [Row(0, 1, 2)], inputs)
        assert (got, last, same) == (tag, label, 4)


def test_or_ternary_and_chains(toys, varied, photo, both):
    @pipeline
    def train(sample):
        a = 10 if sample.label < 0 or sample.is_night else sample.label
        b = (sample.label > 1) and (sample.weight or False)
        c = not sample.label
        return {"a": a, "b": b, "c": c, "d": 1 < sample.label <= 2, "e": -sample.label // 2 % 5}

    plan = bind(train.graph(), varied)
    assert [o.dtype for o in plan.outputs] == ["int64", "bool", "bool", "bool", "int64"]
    for night, label in NIGHT:
        inputs = inputs_of(plan, photo, night, label)
        ((a, b, c, d, e),) = both(plan, [Row(0, 1, 2)], inputs)
        assert a == (10 if label < 0 or night else label)
        assert (b, c, d) == (label > 1, label == 0, 1 < label <= 2)
        assert e == -int(label) // 2 % 5


def refused(message, body, states=None):
    with pytest.raises(BuildError, match=message) as caught:
        bind(pipeline(body).graph(), states or {})
    assert "test_branches.py:" in str(caught.value)


def returns(sample):
    for _ in range(2):
        if sample.is_night:
            return {"image": sample.image}
    return {"image": ops.horizontal_flip(sample.image)}


def both_go_on(sample):
    if sample.is_night:
        if sample.label:
            return {"x": sample.label}
    return {"x": sample.label + 1}


def other_fields(sample):
    if sample.is_night:
        return {"x": sample.label}
    return {"x": sample.label, "y": sample.label}


def sometimes_nothing(sample):
    if sample.is_night:
        return {"x": sample.label}


def loops(sample):
    n = sample.label
    while n > 0:
        n = n - 1
    return {"n": n}


def unset(sample):
    if sample.is_night:
        image = ops.horizontal_flip(sample.image)
    return {"image": image}


def unlike(sample):
    if sample.is_night:
        side = "8"
    else:
        side = sample.label
    return {"x": sample.label + side}


def unlike_dicts(sample):
    made = {"a": sample.label} if sample.is_night else {"a": sample.label, "b": sample.weight}
    return {"x": made["a"]}


def unlike_orders(sample):
    made = {"a": sample.label, "b": 1} if sample.is_night else {"b": 1, "a": sample.label}
    return {"x": made["a"]}


def leaks(sample):
    kept = threading.local()
    if sample.is_night:
        setattr(kept, "image", ops.horizontal_flip(sample.image))  # noqa: B010
    return {"image": kept.image}


def sets_an_entry(sample):
    made = {"x": sample.label, "size": 8}
    if sample.is_night:
        made["size"] = 16
    return made


def appends(sample):
    made = [sample.label]
    if sample.is_night:
        inner = [sample.weight]
        inner.append(sample.label)
        made.extend(inner)
    return {"x": made[-1]}


def changes_below(sample):
    made = {"x": {"y": sample.label}}
    if sample.is_night:
        pass
    else:
        made["x"]["y"] += 1
    return made["x"]


def extends(sample):
    made = [sample.label]
    if sample.is_night:
        made += [1]
    return {"x": made[0]}


def changes_after_a_return(sample):
    made = {"x": sample.label}
    if sample.is_night:
        return made
    made["x"] = sample.weight
    return made


def unmarked(value):
    return 1 if value else 2


def helped(sample):
    return {"x": sample.label + unmarked(sample.is_night)}


def parameter(sample):
    size = 5 if sample.is_night else 4
    return {"image": ops.center_crop(sample.image, size=size)}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            returns,
            r"an `if` on field 'is_night'.* contains break, .* a return from a loop .* after",
        ),
        (
            both_go_on,
            r"an `if` on field 'is_night'.* whose branches may both continue: assign to",
        ),
        (
            other_fields,
            r"what is returned cannot be used: .* give a dict of 'x' and a dict of 'x', 'y'",
        ),
        (sometimes_nothing, r"what is returned cannot be used: .* give a dict of 'x' and NoneType"),
        (loops, r"`while` on the result of 'gt'.*loop over a Python range"),
        (
            unset,
            r"variable 'image' cannot be used: only one branch of an `if` sets it \(.*py:\d+\)",
        ),
        (unlike, r"variable 'side' .* give str and TracedValue, which cannot join"),
        (
            unlike_dicts,
            r"variable 'the ternary' .* give a dict of 'a' and a dict of 'a', 'b', which cannot",
        ),
        (
            unlike_orders,
            r"'the ternary' .* give a dict of 'a', 'b' and a dict of 'b', 'a', which cannot join",
        ),
        (
            leaks,
            r"output 'image': the result of horizontal_flip was made inside a branch of an",
        ),
        (sets_an_entry, r"a branch on field 'is_night'.* changes 'made' in place\. Every branch"),
        (
            appends,
            r"changes 'made' in place.* assign a new object in the branch, such as \{\*\*old",
        ),
        (changes_below, r"changes 'made' in place"),
        (extends, r"changes 'made' in place"),
        (changes_after_a_return, r"changes 'made' in place"),
        (helped, r"field 'is_night' is decided for each sample, so Python .* put @branching over"),
        (
            parameter,
            r"center_crop: parameter 'size' differs from sample to sample; .* with an `if`",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_refused_by_line(body, message):
    refused(message, body)


def calls_itself(sample):
    return calls_itself(sample)


def counts_down(value):
    return counts_down(value - 1) if value > 0 else value


class Named:
    SIDE = 8

    def define(self, sample):
        return {"x": sample.label + Named.SIDE}


def test_functions_know_their_own_names():
    """A name that a function of a module calls is looked up in the module."""
    refused(
        r"calls_itself: the function, or one of its helpers, calls itself without end", calls_itself
    )
    marked = branching(counts_down)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "counts_down", marked)
        assert marked(3) == 0
        refused(r"nested deeper than 16", lambda s: {"x": marked(s.label)})
    (added,) = nodes(pipeline(Named)().graph(), "expr")
    assert added["op"] == "add"


def test_containers_of_a_branch_may_change(toys, varied, photo, both):
    """Objects made inside of a branch belong to it, and Python's conditions may change anything."""

    @pipeline
    def train(sample):
        made = {"x": sample.label}
        if len(made) == 1:
            made["y"] = sample.weight
        if sample.is_night:
            made, factors = dict(made), []
            factors += [2]
            made["x"] = sample.label * factors[0]
        return made

    plan = bind(train.graph(), varied)
    for night, label in NIGHT:
        inputs = inputs_of(plan, photo, night, label)
        ((x, _),) = both(plan, [Row(0, 1, 2)], inputs)
        assert x == (2 * label if night else label)


def test_equal_numbers_of_two_types_join_as_results(varied, photo, both):
    """1, True and 1.0 are equal to Python, but not one value: the wider dtype holds both."""

    @pipeline
    def train(sample):
        return {
            "integer": 1 if sample.is_night else True,
            "float": 1 if sample.is_night else 1.0,
            "wide": True if sample.is_night else 1.0,
        }

    plan = bind(train.graph(), varied)
    assert [output.dtype for output in plan.outputs] == ["int64", "float64", "float64"]
    for night in (True, False):
        (found,) = both(plan, [Row(0, 1, 2)], inputs_of(plan, photo, night, 2))
        assert found == [1, 1.0, 1.0]


def test_joins_that_cannot_be(toys, varied):
    def kinds(sample):
        return {"x": sample.image if sample.is_night else sample.mask}

    def arrays(sample):
        return {"x": sample.a if sample.is_night else sample.b}

    refused(
        r"the branches cannot join: image uint8\[<=512x<=512x3\] from .*:\d+ and mask uint8.* from "
        r".*:\d+: one is image, the other is mask",
        kinds,
        varied,
    )
    states = varied | {
        "a": State.fixed("array", "float32", (3,)),
        "b": State.fixed("array", "float32", (4,)),
    }
    refused(r"their shapes differ; give both branches one shape", arrays, states)
    halves = states | {"b": State.fixed("array", "float16", (3,))}
    refused(r"float32 and float16 cannot join|float16 and float32 cannot join", arrays, halves)


def test_sizes_join_to_a_bound(toys, varied, photo, rows, both):
    """Branches of different sizes join to a size known per sample; a crop fixes it again."""

    @pipeline
    def train(sample):
        if sample.is_night:
            image = toys.crop(sample.image, side=64)
        else:
            image = toys.trim(sample.image)
        return {"image": toys.crop(image, side=32, stream="last")}

    plan = bind(train.graph(), varied)
    joined = [s for s in plan.states.values() if s.shape == (None, None, 3)]
    assert {s.bound for s in joined} >= {(512, 512, 3)}
    for night in (np.bool_(True), np.bool_(False)):
        both(plan, rows[:4], inputs_of(plan, photo, night, np.int64(0)))


def gray(image, cond):
    """Graph data: an (H, W) image joins an (H, W, 1) image."""
    return {
        "version": 1,
        "nodes": [
            {"node": "input", "field": "cond"},
            {"node": "input", "field": "flat"},
            {"node": "input", "field": "deep"},
            {
                "node": "if",
                "cond": 0,
                "then": {"nodes": [], "results": [1]},
                "else": {"nodes": [], "results": [2]},
            },
        ],
        "outputs": [["x", 3]],
    }


@pytest.mark.parametrize("kind", ["image", "array"])
def test_flat_joins_one_channel(both, kind):
    states = {
        "cond": State.fixed("scalar", "bool", ()),
        "flat": State.fixed(kind, "uint8", (5, 6)),
        "deep": State.fixed(kind, "uint8", (5, 6, 1)),
    }
    plan = bind(Graph.from_data(gray(None, None)), states)
    assert plan.outputs[0].shape == (5, 6, 1)
    flat = np.arange(30, dtype=np.uint8).reshape(5, 6)
    deep = flat[..., None] + np.uint8(100)
    fields = {"cond": np.bool_(True), "flat": flat, "deep": deep}
    ((x,),) = both(plan, [Row(0, 0, 0)], [fields[n] for n in plan.fields])
    assert np.array_equal(x[..., 0], flat)
    fields["cond"] = np.bool_(False)
    ((x,),) = both(plan, [Row(0, 0, 0)], [fields[n] for n in plan.fields])
    assert np.array_equal(x, deep)


def test_flat_arrays_join_with_their_dtypes():
    """As a caller in process gives them; an array of two sides has one channel."""

    def choose(cond, flat, deep):
        return {"x": flat if cond else deep}

    train = pipeline(lambda s: branching(choose)(s.label > 0, s.flat, s.deep))
    flat = np.arange(20, dtype=np.float32).reshape(4, 5)
    deep = np.arange(20.0).reshape(4, 5, 1) + 0.1
    for label, expected in ((1, flat[..., None].astype(np.float64)), (0, deep)):
        x = train({"label": label, "flat": flat, "deep": deep})["x"]
        assert x.dtype == np.float64
        assert np.array_equal(x, expected)
    with pytest.raises(BuildError, match="their shapes differ"):
        train({"label": 1, "flat": flat, "deep": np.repeat(deep, 2, 2)})


TWIN = """
from stoker.pipeline import pipeline

@pipeline
def twin(sample):
    while sample.label > 2:
        pass
    return {"label": sample.label}
"""


def test_equal_functions_of_two_files_are_named_by_their_own(tmp_path):
    for name in ("left", "right"):
        (tmp_path / f"{name}.py").write_text(TWIN)
        made = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        module = importlib.util.module_from_spec(made)
        made.loader.exec_module(module)
        with pytest.raises(BuildError, match=rf"{name}.py:6: `while` on "):
            module.twin.graph()
