"""NumPy scalars as parameters: settled to Python's numbers, so that the graph is the same."""

import numpy as np
import pytest

from stoker import ops
from stoker.ops import ParameterError, define
from stoker.pipeline import outputs, pipeline
from stoker.protocol.canonical import canonical_bytes


def scalars(value):
    """Write every number of a parameter as a scalar of NumPy's that holds it exactly."""
    if isinstance(value, tuple | list):
        return type(value)(map(scalars, value))
    kinds = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
    return kinds[type(value)](value) if type(value) in kinds else value


def test_every_op_takes_them(every_example):
    for op in every_example:
        params = op.params_data()
        got = type(op)(**scalars(params))
        assert canonical_bytes(got.params_data()) == canonical_bytes(params)
        assert repr(got) == repr(op)
        assert got.params().tobytes() == op.params().tobytes(), op


@pytest.mark.parametrize(
    ("scalar", "number"),
    [
        (np.uint8(3), 3), (np.int16(3), 3), (np.float32(0.5), 0.5), (np.float16(0.25), 0.25),
        (np.longdouble(0.5), 0.5), (np.float32(0.1), 0.10000000149011612),
    ],
)  # fmt: skip
def test_of_every_width(scalar, number):
    settled = ops.Brightness(factor_range=(0, scalar)).factor_range[1]
    assert type(settled) is float
    assert settled == number


def test_defined_ops(user_op):
    made = user_op(np.uint16(3), np.bool_(True), np.float32(0.5))
    assert made.params_data() == {"size": 3, "whole": True, "part": 0.5}
    assert [type(value) for value in made.params_data().values()] == [int, bool, float]


@pytest.fixture
def user_op():
    def unused(src, dst, params, record, scratch):
        dst[...] = src

    return define(size=1, whole=False, part=1.0)(unused)


def flow(integer, real):
    @pipeline
    def train(sample):
        image = ops.resize(sample.image, size=(integer(8), integer(9)))
        if integer(3) < sample.label + real(0.5) and sample.label != integer(4):
            image = ops.brightness(image, factor_range=(real(0.5), real(1.5)))
            scale = real(0.5)
        else:
            scale = integer(2)
        padded = outputs.pad(image, multiple=integer(4), fill=integer(7))
        return {"image": padded, "scaled": sample.label * scale}

    return train


def test_the_pipeline_is_the_same():
    numpy_s, pythons = flow(np.int64, np.float32), flow(int, float)
    assert repr(numpy_s.graph().nodes) == repr(pythons.graph().nodes)
    assert numpy_s.pipeline_id == pythons.pipeline_id


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ops.HorizontalFlip(np.float32("nan")),
            "horizontal_flip: expected p to be a number from 0 to 1, got nan",
        ),
        (
            lambda: ops.HorizontalFlip(np.bool_(True)),
            "horizontal_flip: expected p to be a number from 0 to 1, got True",
        ),
        (
            lambda: ops.Resize(np.float64(5)),
            "resize: expected size to be (height, width), from 1 to 65535, got 5.0",
        ),
        (
            lambda: ops.Resize(np.timedelta64(5)),
            "resize: expected size to be (height, width), from 1 to 65535, got np.timedelta64(5)",
        ),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ParameterError) as caught:
        make()
    assert str(caught.value) == message
