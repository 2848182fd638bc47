"""Ops that say of themselves what is not so: refused by name before memory is laid out by it.

The executor calls kernels by address, with views whose sides come from states: a wrong state
would be a write outside of the call's memory.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import ItemsKernel, Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, SampleError
from stoker.protocol.item_fields import ItemField
from stoker.rng.row import Row

IMAGE = State("image", "uint8", (None, None, 3), (64, 64, 3))
XYXY = ItemField("xyxy", "float32", 4)
BOXES = State.ragged("boxes", (XYXY, ItemField("label", "int64", 1)), 8)


@kernel
def copy(src, dst, params, record, scratch):
    source, target = src.reshape(src.size), dst.reshape(dst.size)
    for i in range(min(source.size, target.size)):
        target[i] = source[i]


@kernel
def refusing(src, dst, params, record, scratch):
    raise ValueError("too dark")


@kernel
def below_zero(params, record, height, width):
    return -height, width


@kernel
def stay(params, record, sizes):
    return 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0


@kernel
def all_items(src, dst, params, record, sizes):
    return src.shape[0]


def plain(src, dst, params, record, scratch):
    copy(src, dst, params, record, scratch)


COPY = Kernel(copy, plain)


def made(**attributes):
    """An op class of those attributes; `declared` is what its declare gives."""
    if "declared" in attributes:
        answer = attributes.pop("declared")
        attributes["declare"] = lambda self, states: answer(states[0])
    if "items_declared" in attributes:
        items = attributes.pop("items_declared")
        attributes["declare_items"] = lambda self, state: items
    space = {"name": "liar", "kernels": {"image": COPY}, "__module__": __name__, **attributes}
    return dataclass(frozen=True)(type("Liar", (Op,), space))


def plan_of(op, states, output="image", form=True):
    """The plan of one call of an op with all the states, of which one result is delivered."""
    op.name = f"liar_{id(op)}"  # the fixture of all tests here takes it out of the registry
    register(op)
    names = list(states)
    inputs = [{"node": "input", "field": name} for name in names]
    draw = {"node": "draw", "op": op.name, "version": 1, "params": {}, "stream": None, "of": [0]}
    applies = [
        {"node": "apply", "draw": len(names), "to": [n], "results": 1} for n in range(len(names))
    ]
    data = {
        "version": 1,
        "nodes": [*inputs, draw, *applies],
        "outputs": [[output, len(names) + 1 + names.index(output)]],
        "forms": [{"output": output, "form": "list"}] if form else [],
    }
    return bind(Graph.from_data(data), states)


def state(*shape, bound=None, kind="image", dtype="uint8", items=()):
    return lambda given: ((State(kind, dtype, shape, bound or shape, items),), 0)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (state(5, 5, 3, bound=(90, 90, 3)), "the bound of a fixed side is that side"),
        (state(90, 90, 3, bound=(5, 5, 3)), "the bound of a fixed side is that side"),
        (state(0, 5, 3, bound=(1, 5, 3)), "the bound of a fixed side is that side"),
        (state(5, 5, 3, bound=(5, 5)), "it has a bound for each side"),
        (state(5, 5), "image has 3 sides"),
        (state(5, 5, 3, kind="mask"), "mask has 2 sides"),
        (state(-5, 5, 3), "bounds are counts"),
        (state(5.5, 5, 3), "bounds are counts"),
        (state(0, 5, 3), "every bound is at least 1"),
        (state(2, 2, 2, 2, 2, 2, kind="array"), "it has at most 5 sides"),
        (state(2**20, 2**22, 3), "it has at most 1099511627776 bytes"),
        (state(5, 5, 3, dtype="object"), "its dtype is one of bool, uint8"),
        (
            state(5, 5, 3, kind="picture"),
            "a kernel makes image, mask, label, scalar, array, bytes, but",
        ),
        (state(5, 5, 3, items=(XYXY,)), "but not items. Correct its declare"),
        (lambda given: (([given]), 0), r"expected \(states, scratch bytes\) with a tuple of one"),
        (lambda given: ((given, given), 0), "with a tuple of one state, got"),
        (lambda given: None, "with a tuple of one state, got None"),
        (lambda given: 1 / 0, r"\.declare raised ZeroDivisionError: division by zero"),
        (lambda given: ((given,), -64), "scratch bytes: expected 0 to 1099511627776, got -64"),
        (lambda given: ((given,), 2**62), "scratch bytes: expected 0 to 1099511627776, got 46116"),
        (lambda given: ((given,), 64.5), "scratch bytes: expected 0 to 1099511627776, got 64.5"),
        (lambda given: ((given,), None), "scratch bytes: expected 0 to 1099511627776, got None"),
    ],
)
def test_states_that_contradict_themselves(declared, message):
    with pytest.raises(BuildError, match=message) as caught:
        plan_of(made(declared=declared), {"image": IMAGE})
    assert "liar_" in str(caught.value)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"record": np.dtype("f8")}, "record: expected a structured dtype, got dtype"),
        ({"record": [("a", "f8")]}, "record: expected a structured dtype, got"),
        ({"record": np.dtype([("a", "O")])}, "record: expected numbers alone"),
        ({"parameters": np.dtype([("a", "O")])}, "parameters: expected numbers alone"),
        ({"kernels": {"image": copy}}, "kernels: expected a dict of kinds to Kernel, got"),
        ({"kernels": [COPY]}, "kernels: expected a dict of kinds to Kernel, got"),
        ({"items": {"boxes": COPY}}, "items: expected a dict of kinds to ItemsKernel, got"),
        ({"folds": {"image": COPY}}, "folds: expected a dict of kinds to FoldKernel, got"),
    ],
)
def test_class_attributes_of_another_type(attributes, message):
    with pytest.raises(BuildError, match=message):
        plan_of(made(**attributes), {"image": IMAGE})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (lambda self: None, "got None"),
        (lambda self: np.zeros(3, self.parameters), r"of shape \(3,\)"),
        (lambda self: np.zeros((), [("b", "f8"), ("a", "f8")]), "got .*'b'.* of shape"),
    ],
)
def test_parameters_of_another_layout(params, message):
    op = made(parameters=np.dtype([("a", "f8")]), params=params)
    plan = plan_of(op, {"image": IMAGE})
    for engine in (Interpreter, compile_plan):
        with pytest.raises(BuildError, match=f"params: expected one record.*{message}"):
            engine(plan)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"forward": staticmethod(stay), "items_declared": None}, "expected a state of boxes"),
        ({"forward": staticmethod(stay), "items_declared": IMAGE}, "expected a state of boxes"),
        (
            {"forward": staticmethod(stay), "items_declared": State.ragged("boxes", (XYXY,), 8)},
            "goes in, and all of it may remain",
        ),
        (
            {
                "items": {"boxes": ItemsKernel(all_items)},
                "items_declared": State.ragged("boxes", BOXES.items, 7),
            },
            "goes in, and all of it may remain",
        ),
    ],
)
def test_items_of_less_room_than_go_in(attributes, message):
    with pytest.raises(BuildError, match=message):
        plan_of(made(**attributes), {"image": IMAGE, "boxes": BOXES}, "boxes", form=False)


@pytest.mark.parametrize("bound", [(9, 9), (5,), (5, -1), (5, 2**41)])
def test_fields_whose_manifest_lies(bound):
    """A bound beyond a fixed side would let rows through that overrun their place in a slot."""
    graph = Graph.from_data(
        {"version": 1, "nodes": [{"node": "input", "field": "x"}], "outputs": [["x", 0]]}
    )
    with pytest.raises(
        BuildError, match=r"field 'x': the manifest says .*the dataset's manifest is"
    ):
        bind(graph, {"x": State("array", "uint8", (5, None), bound)})


def test_what_a_kernel_raises_names_the_op_that_may_be_at_fault():
    plan = plan_of(made(kernels={"image": Kernel(refusing, plain)}), {"image": IMAGE})
    outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    with pytest.raises(BuildError, match=r"raised ValueError: too dark.*liar_\d+; the"):
        compile_plan(plan).run(Row(1, 2, 3), [np.zeros((9, 8, 3), np.uint8)], outputs)


def test_a_size_below_zero_is_the_samples_error_in_both_engines():
    plan = plan_of(made(out_size=staticmethod(below_zero)), {"image": IMAGE})
    outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    for engine in (Interpreter, compile_plan):
        with pytest.raises(SampleError, match="gives a size of -9x8, which is out of the bounds"):
            engine(plan).run(Row(1, 2, 3), [np.zeros((9, 8, 3), np.uint8)], outputs)
