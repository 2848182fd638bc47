"""The graph as data: normal form, identity, vectors, and everything that reading refuses."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.states import State
from stoker.pipeline import Row, pipeline
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import MAX_DEPTH, MAX_NODES
from stoker.pipeline.graph.normal import normalize, pipeline_id
from stoker.pipeline.planning.planner import bind
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import BuildError, StokerError, UnknownNameError, VersionError

VECTORS = Path(__file__).parents[3] / "docs" / "contracts" / "vectors" / "graph.json"
FLIP = {"op": "horizontal_flip", "version": 1, "params": {"p": 0.5}}

CALL = {"op": "horizontal_flip", "params": {"p": 0.5}, "file": "a.py", "line": 3}


def data_of(*nodes, outputs=None):
    last = sum(len(n["to"]) if n["node"] == "apply" else 1 for n in nodes) - 1
    return {"version": 1, "nodes": list(nodes), "outputs": outputs or [["x", last]]}


def image(field="image"):
    return {"node": "input", "field": field}


def draw(of, stream="s", **changes):
    return {"node": "draw", **FLIP, "stream": stream, "of": of, **changes}


def apply(number, *to):
    return {"node": "apply", "draw": number, "to": list(to), "results": len(to)}


def test_vectors():
    """docs/contracts/vectors/graph.json: data -> normal form and id."""
    cases = json.loads(VECTORS.read_text())["cases"]
    assert len(cases) >= 4
    ids = set()
    for case in cases:
        graph = Graph.from_data(case["graph"])
        normal = normalize(graph).to_data(sites=False)
        assert normal == case["normal"], case["name"]
        assert pipeline_id(graph) == case["pipeline_id"], case["name"]
        # The rule of docs/contracts/graph.md, written down once more.
        contracts = {"random": 1, "numeric": 1, "decoder": 1}
        assert case["pipeline_id"] == canonical_digest(
            {"contracts": contracts, "graph": case["normal"]}
        )
        ids.add(case["pipeline_id"])
    same = {case["pipeline_id"] for case in cases if case["name"].startswith("same: ")}
    assert len(same) == 1
    assert len(ids) > 2


def test_round_trip_keeps_identity_and_sites(toys):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask)
        if sample.label > 2:
            image = toys.shift(image)
        return {"image": image, "mask": mask}

    graph = train.graph()
    packed = msgspec.msgpack.encode(graph.to_data())
    again = Graph.from_data(msgspec.msgpack.decode(packed))
    assert again == graph
    assert again.site(0).file == __file__
    bare = Graph.from_data(json.loads(json.dumps(graph.to_data(sites=False))))
    assert bare.sites == ()
    assert pipeline_id(bare) == pipeline_id(again) == pipeline_id(graph)
    assert str(bare.site(0)) == "a graph without sources"


def test_normal_form_is_stable_and_does_not_change_meaning(toys, varied, photo, both):
    """Statement order, helpers, dead code and unused fields do not count; names and order do."""

    @pipeline
    def first(sample):
        image, mask = toys.flip(sample.image, sample.mask)
        image, mask = toys.crop(image, mask, side=20)
        return {"image": image, "mask": mask}

    @pipeline
    def second(sample):
        _ = sample.label + 3
        unused = toys.shift(sample.image)
        flip, crop = toys.Flip(), toys.Crop(20)
        mask = sample.mask
        image = flip(sample.image)
        if sample.is_night:
            unused = toys.scale(unused)
        mask = flip(mask)
        image, mask = crop(image), crop(mask)
        return {"image": image, "mask": mask}

    @pipeline
    def third(sample):
        image, mask = toys.flip(sample.image, sample.mask)
        image, mask = toys.crop(image, mask, side=20)
        return {"mask": mask, "image": image}

    one, two, three = first.graph(), second.graph(), third.graph()
    assert one.to_data(sites=False) == two.to_data(sites=False)
    assert pipeline_id(one) == pipeline_id(two) != pipeline_id(three)
    assert normalize(one) == one
    a, b = bind(one, varied), bind(three, varied)
    row = [Row(1, 2, 3)]
    ((i1, m1),) = both(
        a, row, [dict(zip(("image", "mask"), photo, strict=True))[f] for f in a.fields]
    )
    ((m2, i2),) = both(
        b, row, [dict(zip(("image", "mask"), photo, strict=True))[f] for f in b.fields]
    )
    assert np.array_equal(i1, i2)
    assert np.array_equal(m1, m2)


def test_everything_that_decides_bytes_counts():
    base = data_of(image(), draw([0]), apply(1, 0))

    def changed(*path, to):
        data = copy.deepcopy(base)
        spot = data
        for part in path[:-1]:
            spot = spot[part]
        spot[path[-1]] = to
        return pipeline_id(Graph.from_data(data))

    ids = {
        pipeline_id(Graph.from_data(base)),
        changed("nodes", 0, "field", to="photo"),
        changed("nodes", 1, "op", to="vertical_flip"),
        changed("nodes", 1, "version", to=2),
        changed("nodes", 1, "params", to={"p": 0.25}),
        changed("nodes", 1, "stream", to="t"),
        changed("outputs", to=[["y", 2]]),
        changed("outputs", to=[["x", 2], ["y", 2]]),
        changed("outputs", to=[["y", 2], ["x", 2]]),
    }
    assert len(ids) == 9


def test_long_chains_do_not_recurse(varied):
    nodes = [image(), draw([0])]
    last = 0
    for _ in range(MAX_NODES - 2):
        nodes.append(apply(1, last))
        last = len(nodes) - 1
    graph = Graph.from_data(data_of(*nodes))
    assert len(normalize(graph).nodes) == MAX_NODES
    with pytest.raises(BuildError, match="graph:"):
        Graph.from_data(data_of(*nodes, apply(1, last)))


def nested(depth):
    block = {"nodes": [], "results": [0]}
    for _ in range(depth):
        inner = {"node": "if", "cond": 0, "then": block, "else": {"nodes": [], "results": [0]}}
        block = {"nodes": [inner], "results": [0]}
    return {"version": 1, "nodes": [image("c"), *block["nodes"]], "outputs": [["x", 0]]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "Expected `object`, got `int`"),
        ({"version": 1}, "missing required field `nodes`"),
        (data_of(image()) | {"more": 1}, "unknown field `more`"),
        (data_of({"node": "call", "f": 1}), r"Invalid value 'call' - at `\$.nodes\[0\].node`"),
        (data_of(image("")), r"length >= 1 - at `\$.nodes\[0\].field`"),
        (data_of(image(), outputs=[["x", -1]]), r">= 0 - at `\$.outputs"),
        (
            data_of(image(), outputs=[["x", 1]]),
            "output 'x' uses value 1, which is not defined before",
        ),
        (data_of(image(), outputs=[["x", 0], ["x", 0]]), "output 'x' is given twice"),
        ({"version": 1, "nodes": [], "outputs": []}, "there are no outputs"),
        (data_of(image(), apply(0, 0)), "expected a draw, got a value"),
        (data_of(image(), draw([0])), "expected a value, got a draw"),
        (data_of(image(), draw([2]), apply(1, 0)), "uses value 2, which is not defined before it"),
        (
            data_of(image(), draw([0]), apply(1, 0) | {"results": 2}),
            "one result for each of 1 values",
        ),
        (
            data_of(image(), {"node": "expr", "op": "pow", "args": [0, 0]}),
            "unknown expression 'pow'",
        ),
        (data_of(image(), {"node": "expr", "op": "add", "args": [0]}), "add got 1 values"),
        (
            data_of({"node": "const", "value": 2**63}),
            "Integer value out of range|integer of 64 bits",
        ),
        (
            data_of(image(), draw([0], params={"p": float("nan")}), apply(1, 0)),
            "expected a finite float, got nan",
        ),
        (
            data_of(image(), draw([0], params={"p": "x" * 70000}), apply(1, 0)),
            "at most 65536 bytes",
        ),
        (
            data_of(image(), draw([0], "stoker/order"), apply(1, 0)),
            "begin with 'stoker/' are reserved",
        ),
        (data_of({"node": "context", "name": "hour"}), "Invalid enum value 'hour'"),
        (
            data_of(image(), draw([0], varies=[["p", None, 3]]), apply(1, 0)),
            "uses value 3, which is not defined before it",
        ),
        (
            data_of(image(), draw([0], params={"p": 1.0}, varies=[["p", None, 0]]), apply(1, 0)),
            "parameter 'p' of horizontal_flip varies: expected null as its value, got 1.0",
        ),
        (
            data_of(image(), draw([0], params={"p": [None]}, varies=[["p", 1, 0]]), apply(1, 0)),
            r"parameter 'p' of horizontal_flip varies: expected null as its value, got \[None\]",
        ),
        (
            data_of(image(), draw([0], varies=[["q", 0, 0]]), apply(1, 0)),
            "parameter 'q' of horizontal_flip varies: expected null as its value, got no such",
        ),
        (nested(MAX_DEPTH + 1), "nested deeper than 16"),
        (nested(5000), "nested deeper than 16"),
        (
            data_of(
                image("c"),
                {
                    "node": "if",
                    "cond": 0,
                    "then": {"nodes": [image()], "results": [1]},
                    "else": {"nodes": [], "results": [0]},
                },
                outputs=[["x", 0]],
            ),
            "inputs are allowed only at the top level",
        ),
        (
            data_of(
                image("c"),
                {
                    "node": "if",
                    "cond": 0,
                    "then": {"nodes": [], "results": [0, 0]},
                    "else": {"nodes": [], "results": [0]},
                },
                outputs=[["x", 0]],
            ),
            "same number of values, got 2 and 1",
        ),
        (
            {**data_of(image()), "unneeded": [{**CALL, "of": ["image"]}, {**CALL, "of": [1]}]},
            "unneeded call 1 uses a call that does not precede it",
        ),
        ({**data_of(image()), "unneeded": [{**CALL, "of": [0.5]}]}, "unneeded"),
    ],
)
def test_malformed_data_is_refused(data, message):
    with pytest.raises(BuildError, match=message):
        Graph.from_data(data)


def test_a_value_of_a_block_stays_inside():
    block = {"nodes": [draw([0]), apply(1, 0)], "results": [2]}
    data = {
        "version": 1,
        "nodes": [
            image("c"),
            {"node": "if", "cond": 0, "then": block, "else": {"nodes": [], "results": [0]}},
        ],
        "outputs": [["x", 2]],
    }
    with pytest.raises(BuildError, match="output 'x' uses value 2, which is not defined before"):
        Graph.from_data(data)
    data["outputs"] = [["x", 3]]
    assert Graph.from_data(data)


def test_versions_and_unknown_ops():
    with pytest.raises(VersionError, match="graph: expected version 1, got 2"):
        Graph.from_data(data_of(image()) | {"version": 2})
    states = {"image": State.fixed("image", "uint8", (4, 4, 3))}
    old = Graph.from_data(data_of(image(), draw([0], version=9), apply(1, 0)))
    with pytest.raises(
        VersionError,
        match=r"horizontal_flip: the pipeline was made for version 9, this is version 1\. .* again",
    ):
        bind(old, states)
    unknown = Graph.from_data(data_of(image(), draw([0], op="horizontal_flop"), apply(1, 0)))
    with pytest.raises(UnknownNameError, match="there is no op 'horizontal_flop'; did you mean"):
        bind(unknown, states)
    extra = Graph.from_data(data_of(image(), draw([0], params={"q": 1}), apply(1, 0)))
    with pytest.raises(StokerError, match=r"horizontal_flip: .*q"):
        bind(extra, states)
    streamless = Graph.from_data(data_of(image(), draw([0], stream=None), apply(1, 0)))
    with pytest.raises(BuildError, match="horizontal_flip is random and needs a stream name"):
        bind(streamless, states)


def test_fuzzed_data_never_crashes():
    """Random damage to good data gives a graph or a typed error, nothing else."""
    rng = np.random.default_rng(5)

    @pipeline
    def good(sample):
        image = ops.horizontal_flip(sample.image) if sample.label > 2 else sample.image
        return {"x": image, "y": sample.label}

    states = {
        "image": State.fixed("image", "uint8", (4, 4, 3)),
        "label": State.fixed("label", "int64", ()),
    }
    values = [None, -1, 0, 1, 5, 2**64, 1.5, "", "if", "draw", [], {}, [0], ["x", 0], True]
    read = bound = 0
    for _ in range(1000):
        data = json.loads(json.dumps(good.graph().to_data(sites=False)))
        for _ in range(rng.integers(1, 3)):
            damage(data, rng, values)
        try:
            graph = Graph.from_data(data)
            read += 1
            bind(graph, states)
            bound += 1
        except StokerError:
            pass
    assert read > 20
    assert bound > 5


def damage(data, rng, values):
    """Replace, drop or repeat one part of nested data."""
    spots = []

    def collect(part):
        for key in part if isinstance(part, dict) else range(len(part)):
            spots.append((part, key))
            if isinstance(part[key], dict | list):
                collect(part[key])

    collect(data)
    part, key = spots[rng.integers(len(spots))]
    choice = rng.integers(3)
    if choice == 0:
        part[key] = copy.deepcopy(values[rng.integers(len(values))])
    elif choice == 1:
        del part[key]
    elif isinstance(part, list):
        part.append(copy.deepcopy(part[key]))
