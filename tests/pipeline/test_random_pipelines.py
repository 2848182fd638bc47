"""Random pipelines of every op there is, with branches, on photographs: interpreter == executor.

Each is made as graph data by a seeded generator; the seed of a failure is in the test's name.
"""

from __future__ import annotations

import numpy as np
import pytest

from stoker.ops.contract import State
from stoker.ops.registry import lookup, make, registered
from stoker.pipeline import Row
from stoker.pipeline.graph import Graph
from stoker.pipeline.plan import bind

CHANGES_OF_LEVELS = (
    "autocontrast",
    "brightness",
    "channel_shuffle",
    "contrast",
    "equalize",
    "erase",
    "gamma",
    "gaussian_blur",
    "gaussian_noise",
    "grayscale",
    "grid_mask",
    "hue",
    "invert",
    "posterize",
    "saturation",
    "sharpness",
    "solarize",
)
PARAMS = {
    **{name: lambda r: {"p": float(r.uniform())} for name in CHANGES_OF_LEVELS},
    "random_resized_crop": lambda r: {"size": [pick(r, (24, 40)), 32], "scale": [0.2, 1.0]},
    "resize": lambda r: {"size": [32, pick(r, (24, 48))]},
    "random_crop": lambda r: {"size": [16, 24], "padding": pick(r, (0, 4))},
    "center_crop": lambda r: {"size": [pick(r, (16, 20)), 16]},
    "horizontal_flip": lambda r: {"p": float(r.uniform())},
    "color_jitter": lambda r: {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3},
    "vertical_flip": lambda r: {"p": float(r.uniform())},
    "transpose": lambda r: {"p": float(r.uniform())},
    "rot90": lambda r: {"p": float(r.uniform())},
    "pad": lambda r: {"padding": 3, "mode": pick(r, ("edge", "reflect"))},
    "resize_short": lambda r: {"size": pick(r, (20, 30)), "max_size": 50},
    "resize_long": lambda r: {"size": pick(r, (30, 40))},
    "random_short_side_scale": lambda r: {"sizes": [16, 30], "max_size": 40},
    "letterbox": lambda r: {"size": [pick(r, (20, 30)), 24]},
    "affine": lambda r: {"degrees": 30, "translate": 0.1, "scale": [0.8, 1.2], "shear": 5},
    "rotate": lambda r: {"degrees": pick(r, (20, 180))},
    "perspective": lambda r: {"p": float(r.uniform())},
    "toy_flip": lambda r: {"p": 0.5},
    "toy_crop": lambda r: {"side": 12},
    "toy_trim": lambda r: {},
    "toy_shift": lambda r: {"most": 90.0},
}
FIXED = {"resize": {"size": [16, 16]}, "center_crop": {"size": [16, 16]}}


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


class Writer:
    """Writes graph data: `flow` keeps the numbers of the image and the mask as they change."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.next = 4
        self.streams = 0

    def calls(self, count, flow, depth):
        nodes = []
        for _ in range(count):
            if depth < 2 and self.rng.uniform() < 0.3:
                flow = self.branch(nodes, flow, depth)
            else:
                flow = self.call(nodes, pick(self.rng, sorted(PARAMS)), flow)
        return nodes, flow

    def call(self, nodes, name, flow, params=None):
        op = lookup(name)
        params = PARAMS[name](self.rng) if params is None else params
        make(name, params)  # a wrong example would otherwise look like a refusal
        both = "mask" in op.kernels
        stream = f"stream {self.streams}" if op.random else None
        self.streams += 1
        nodes.append({"node": "draw", "op": name, "version": op.version, "params": params,
                      "stream": stream, "of": [flow[0]]})  # fmt: skip
        decision = self.number()
        results = []
        for value in flow if both else flow[:1]:
            nodes.append({"node": "apply", "draw": decision, "to": [value], "results": 1})
            results.append(self.number())
        return results[0], results[1] if both else flow[1]

    def branch(self, nodes, flow, depth):
        nodes.append({"node": "const", "value": int(self.rng.integers(-2, 12))})
        limit = self.number()
        op = pick(self.rng, ("lt", "ge", "ne"))
        nodes.append({"node": "expr", "op": op, "args": [2, limit], "name": ""})
        cond = self.number()
        blocks = []
        for _ in range(2):
            inner, results = self.calls(int(self.rng.integers(0, 3)), flow, depth + 1)
            # Both end in one size, so that image and mask still agree after the join.
            results = self.call(inner, *pick(self.rng, [("resize", results, FIXED["resize"])]))
            blocks.append({"nodes": inner, "results": list(results)})
        nodes.append({"node": "if", "cond": cond, "then": blocks[0], "else": blocks[1]})
        return self.number(), self.number()

    def number(self):
        self.next += 1
        return self.next - 1

    def graph(self):
        fields = [{"node": "input", "field": f} for f in ("image", "mask", "label", "weight")]
        # Every crop of at most 24 pixels fits: the flow starts with at least 24 x 24.
        nodes, flow = self.calls(int(self.rng.integers(1, 6)), (0, 1), 0)
        flow = self.call(nodes, "resize", flow, {"size": [24, 24]})
        outputs = [["image", flow[0]], ["mask", flow[1]], ["label", 2], ["weight", 3]]
        return {"version": 1, "nodes": [*fields, *nodes], "outputs": outputs}


def test_examples_cover_all_ops():
    """An op that is added joins this test, unless its result cannot be the next op's input."""
    terminal = {"normalize", "toy_scale", "edited", "broken_kernel", "broken_draw"}
    known = {name for name in registered() if name.startswith("toy") or not name.startswith("x")}
    package = {n for n in known if lookup(n).__module__.startswith(("stoker.", "tests."))}
    missing = {n for n in package if lookup(n).__module__.startswith("stoker.")} - set(PARAMS)
    assert missing <= terminal, f"add examples for {missing - terminal}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_interpreter_equals_executor(seed, photo, varied, both):
    graph = Graph.from_data(Writer(seed).graph())
    plan = bind(graph, varied)
    rng = np.random.default_rng(seed + 1000)
    drawn = set()
    for k in range(6):
        height, width = rng.integers(48, 120, 2)
        top, left = rng.integers(0, 150, 2)
        box = np.s_[top : top + height, left : left + width]
        fields = {
            "image": np.ascontiguousarray(photo[0][box]),
            "mask": np.ascontiguousarray(photo[1][box]),
            "label": np.int64(k * 2),
            "weight": np.float32(0.1 * k),
        }
        row = Row(int(rng.integers(2**63)), k, k % 3, k % 2, k)
        ((image, mask, label, weight),) = both(plan, [row], [fields[n] for n in plan.fields])
        assert set(np.unique(mask)) <= set(np.unique(fields["mask"])) | {0}
        assert (label, weight) == (fields["label"], fields["weight"])
        drawn.add(image.tobytes())
    assert len(drawn) > 1


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
    """numba takes such a record for the other one: no warning, and the same bytes all the same."""
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
