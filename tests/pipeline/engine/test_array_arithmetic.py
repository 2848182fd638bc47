"""Arithmetic on arrays and elements, in both engines, against NumPy over random expressions."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker import ops
from stoker.ops.contract.states import State
from stoker.pipeline import Row, decide, explain, outputs, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, SampleError, UsageError

pytestmark = pytest.mark.slow
ROW = Row(1, 2, 3)
BINARY = {
    "add": (operator.add, np.add), "sub": (operator.sub, np.subtract),
    "mul": (operator.mul, np.multiply), "div": (operator.truediv, np.true_divide),
    "floordiv": (operator.floordiv, np.floor_divide), "mod": (operator.mod, np.remainder),
    "lt": (operator.lt, np.less), "le": (operator.le, np.less_equal),
    "gt": (operator.gt, np.greater), "ge": (operator.ge, np.greater_equal),
    "eq": (operator.eq, np.equal), "ne": (operator.ne, np.not_equal),
    "and": (operator.and_, np.logical_and), "or": (operator.or_, np.logical_or),
}  # fmt: skip
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")
ARRAYS = (*INTEGERS, "float32", "float64", "bool")
NUMBERS = {
    "whole": np.int16(-7),
    "big": np.int64(300),
    "real": np.float32(0.1),
    "true": np.bool_(1),
}


def example(dtype, number):
    """Five elements that include the ends of a dtype, 0 and numbers that are not finite."""
    rng = np.random.default_rng(number)
    if dtype == "bool":
        return rng.integers(0, 2, 5).astype(bool)
    if dtype.startswith("float"):
        odd = [np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-40, 3.4e38, 0.1, 7.0, -2.5]
        return rng.choice(odd, 5).astype(dtype)
    ends = np.iinfo(dtype)
    return rng.choice([ends.min, ends.max, 0, 1, 3, ends.max - 1, ends.min + 1], 5).astype(dtype)


FIELDS = {dtype: example(dtype, n) for n, dtype in enumerate(ARRAYS)} | NUMBERS
STATES = {
    name: State.fixed("array" if value.shape else "scalar", value.dtype.name, value.shape)
    for name, value in FIELDS.items()
}


class Refused(Exception):
    """Calls that the documentation refuses."""


class Reference:
    """An array of NumPy, or a number as in Python: what docs/guides/conditionals.md promises."""

    def __init__(self, value):
        self.value = value

    def apply(self, name, other=None):
        sides = [self.value] if other is None else [self.value, other.value]
        shaped = [side for side in sides if isinstance(side, np.ndarray)]
        return Reference(self.of_arrays(name, sides) if shaped else self.of_numbers(name, sides))

    def of_arrays(self, name, sides):
        kinds = [np.asarray(side).dtype.kind for side in sides]
        bools = set(kinds) == {"b"}
        logic = name in ("and", "or", "not") and not bools
        number = bools and name not in (*COMPARISONS, "div", "and", "or", "not")
        if logic or number or (name in ("floordiv", "mod") and "f" in kinds):
            raise Refused
        unary = {"neg": np.negative, "not": np.logical_not}
        with np.errstate(all="ignore"):
            found = (BINARY[name][1] if name in BINARY else unary[name])(*sides)
        if found.dtype.kind == "f":
            found[np.isnan(found)] = np.nan
        return found

    def of_numbers(self, name, sides):
        if name in ("and", "or", "not"):
            truths = [side != 0 for side in sides]
            return not truths[0] if name == "not" else (all if name == "and" else any)(truths)
        if any(isinstance(side, float) for side in sides) or name == "div":
            sides = [np.float64(side) for side in sides]
            if name in ("floordiv", "mod"):
                raise Refused
        else:
            sides = [np.int64(side) for side in sides]
        with np.errstate(all="ignore"):
            return (np.negative(*sides) if name == "neg" else BINARY[name][1](*sides)).item()

    def element(self, index):
        if not isinstance(self.value, np.ndarray):
            raise Refused
        return Reference(self.value[index].item())

    def statistic(self, name):
        value = self.value
        if name in ("any", "all"):
            return Reference(bool(getattr(value != 0, name)()))
        if name in ("min", "max") and value.dtype == bool:
            raise Refused
        if name in ("min", "max"):
            return Reference(getattr(value, name)().item())
        if value.dtype.kind != "f" and name == "sum":
            return Reference(int(value.sum(dtype=np.int64)))
        numbers = value.astype(float)  # five numbers: one in each of eight lanes
        with np.errstate(all="ignore"):
            a, b, c, d, e = numbers
            total = ((a + b) + (c + d)) + ((e + 0.0) + (0.0 + 0.0))
            if value.dtype.kind != "f" and value.dtype != np.int64:
                total = np.float64(sum(value.tolist()))
            return Reference(float(total / 5 if name == "mean" else total))


def evaluate(tree, fields, number):  # noqa: PLR0911 - one for each kind of tree
    """Evaluate a tree of operations over traced values or over references."""
    match tree:
        case ("field", name):
            return fields(name)
        case ("number", value):
            return number(value)
        case ("element", part, index):
            found = evaluate(part, fields, number)
            return found.element(index) if isinstance(found, Reference) else found[index]
        case ("statistic", name, part):
            found = evaluate(part, fields, number)
            if isinstance(found, Reference):
                return found.statistic(name)
            return getattr(found, name)()
        case ("neg" | "not" as name, part):
            found = evaluate(part, fields, number)
            if isinstance(found, Reference):
                return found.apply(name)
            return -found if name == "neg" else ~found
        case (name, left, right):
            sides = [evaluate(side, fields, number) for side in (left, right)]
            if isinstance(sides[0], Reference):
                return sides[0].apply(name, sides[1])
            return BINARY[name][0](*sides)
    raise AssertionError(tree)


def operations(names, *sides):
    return st.tuples(st.sampled_from(names), *sides)


ARRAY = st.deferred(
    lambda: st.one_of(
        st.tuples(st.just("field"), st.sampled_from(ARRAYS)),
        operations([*BINARY], ARRAY, ARRAY),
        operations([*BINARY], ARRAY, NUMBER),
        operations([*BINARY], NUMBER, ARRAY),
        operations(["neg", "not"], ARRAY),
    )
)
CONSTANT = st.tuples(
    st.just("number"), st.sampled_from([0, 1, -1, 3, 127, 300, 0.5, -0.1, 1e39, True])
)
READ = st.one_of(
    st.tuples(st.just("field"), st.sampled_from([*NUMBERS])),
    st.tuples(st.just("element"), ARRAY, st.integers(-5, 4)),
)
NUMBER = st.deferred(
    lambda: st.one_of(
        CONSTANT,
        READ,
        operations(["mean", "sum", "min", "max", "any", "all"], ARRAY).map(
            lambda pair: ("statistic", *pair)
        ),
        operations(["add", "sub", "mul", "div", *COMPARISONS], READ, NUMBER),
    )
)


def told(tree):
    """Return whether a tree is an expression of the pipeline: it computes, and reads a field."""
    return any(isinstance(part, tuple) and (part[0] == "field" or told(part)) for part in tree)


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(st.one_of(ARRAY, NUMBER).filter(told))
def test_random_expressions_are_those_of_numpy(tree):
    def reference(name):
        value = FIELDS[name]
        return Reference(value if value.shape else value.item())

    try:
        wanted = np.asarray(evaluate(tree, reference, Reference).value)
    except (Refused, OverflowError):
        wanted = None

    @pipeline
    def computed(sample):
        return {"x": evaluate(tree, sample.__getitem__, lambda value: value)}

    try:
        plan = bind(computed.graph(), STATES)
    except BuildError:
        assert wanted is None
        return
    (out,) = plan.outputs
    inputs = [FIELDS[name] for name in plan.fields]
    found = []
    for engine in (Interpreter(plan), compile_plan(plan)):
        got = np.full(out.shape, 77, out.dtype)
        try:
            engine.run(ROW, inputs, [got])
        except SampleError as error:
            got = str(error)
        found.append(got)
    if wanted is None:
        assert found[0] == found[1]
        assert "does not fit" in found[0]
        return
    assert found[0].tobytes() == found[1].tobytes()
    assert (out.dtype, out.shape) == (wanted.dtype.name, wanted.shape)
    assert np.array_equal(found[0], wanted, equal_nan=wanted.dtype.kind == "f")
    if wanted.dtype.kind == "f":
        assert np.all(np.isnan(wanted) | (np.signbit(found[0]) == np.signbit(wanted)))


def run(plan, inputs):
    """Return the outputs of both engines, or their equal errors."""
    found = []
    for engine in (Interpreter(plan), compile_plan(plan)):
        outs = [np.full(o.shape, 77, o.dtype) for o in plan.outputs]
        try:
            engine.run(ROW, inputs, outs)
            found.append([out.tobytes() for out in outs])
        except SampleError as error:
            found.append(str(error))
    assert found[0] == found[1]
    return found[0] if isinstance(found[0], str) else outs


LINES = {
    "left": State("array", "int32", (None, 3), (4, 3)),
    "right": State("array", "uint8", (None, None), (6, 5)),
    "by": State.fixed("scalar", "int64", ()),
}


@pipeline
def of_any_length(sample):
    left, right = sample.left, sample.right
    total = left * 2 - right
    return {
        "total": outputs.as_list(total),
        "sum": total.sum(),
        "empty": len(right) == 0,
        "all": (right > 5).all(),
        "any": right.any(),
        "width": right.shape[-1] * left.shape[1],
        "moved": outputs.as_list(right + sample.by),
    }


@pytest.mark.parametrize("count", [0, 1, 4])
def test_arrays_whose_size_differs_by_sample(count):
    plan = bind(of_any_length.graph(), LINES)
    left = np.arange(3 * count, dtype=np.int32).reshape(count, 3)
    right = (left + 4).astype(np.uint8)
    found = run(plan, [{"left": left, "right": right, "by": np.int64(9)}[n] for n in plan.fields])
    wanted = left * 2 - right
    got = {output.name: out for output, out in zip(plan.outputs, found, strict=True)}
    assert got["total"].reshape(-1)[: 3 * count].tolist() == wanted.ravel().tolist()
    assert got["moved"].reshape(-1)[: 3 * count].tolist() == (right + 9).ravel().tolist()
    assert got["total.size"].tolist() == [count, 3]
    names = ("sum", "empty", "all", "any", "width")
    assert [got[name] for name in names] == [wanted.sum(), count == 0, count == 0, count > 0, 9]


@pytest.mark.parametrize(
    ("right", "by", "said"),
    [
        (np.ones((3, 3), np.uint8), 0, "expected arrays of one shape, got 2x3 and 3x3"),
        (np.ones((2, 4), np.uint8), 0, "expected arrays of one shape, got 2x3 and 2x4"),
        (np.ones((2, 3), np.uint8), 256, "a number from 0 to 255: 256 does not fit"),
        (np.ones((2, 3), np.uint8), -1, "a number from 0 to 255: -1 does not fit"),
    ],
)
def test_a_sample_that_does_not_fit_is_bad(right, by, said):
    plan = bind(of_any_length.graph(), LINES)
    fields = {"left": np.ones((2, 3), np.int32), "right": right, "by": np.int64(by)}
    error = run(plan, [fields[name] for name in plan.fields])
    assert "test_array_arithmetic.py:" in error
    assert said in error


def test_decisions_without_data_say_that_arrays_are_needed():
    @pipeline
    def train(sample):
        image = sample.image
        if sample.vector[1] * 2 > 3:
            image = ops.horizontal_flip(image)
        return {"image": image, "vector": sample.vector * 2}

    plan = train.plan_for({"image": np.zeros((4, 5, 3), np.uint8), "vector": np.float32([1, 2])})
    assert "= mul v" in explain(plan)
    assert "element by element: array float32[2]" in explain(plan)
    with pytest.raises(UsageError, match=r"a number computed from pixels, boxes or arrays at .*:"):
        decide(plan, ROW, {}, {})


def test_what_does_not_fit_is_not_computed_where_the_left_side_decides():
    @pipeline
    def train(sample):
        both = sample.by < 256 and (sample.bytes + sample.by).any()
        one = sample.by > 255 or not (sample.bytes + sample.by).all()
        return {"both": both, "one": one}

    for by, wanted in [(300, (False, True)), (1, (True, False))]:
        found = train({"bytes": np.ones(2, np.uint8), "by": np.int64(by)})
        assert (found["both"], found["one"]) == wanted


def test_numbers_of_other_dtypes():
    """Unsigned numbers next to bools, constants beyond float32, and axes of NumPy."""

    @pipeline
    def train(sample):
        return {
            "flags": sample.flags * sample.count,
            "equal": sample.single[0] == 16777217,
            "width": sample.single.shape[np.int64(0)],
        }

    fields = {"flags": np.array([True, False]), "count": np.uint8(2)}
    found = train({**fields, "single": np.float32([16777216])})
    assert (found["flags"].tolist(), found["flags"].dtype) == ([2, 0], np.int64)
    assert (found["equal"], found["width"]) == (True, 1)
    with pytest.raises(BuildError, match=r"expected the number of a side, .* got True"):
        pipeline(lambda s: {"x": s.single.shape[True]})(fields)
