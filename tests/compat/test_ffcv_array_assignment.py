"""`array[i] = values` in compiled operations, compared with NumPy's assignment."""

import numba
import numpy as np
import pytest

from stoker.compat.ffcv.array_assignment import assign

pytestmark = pytest.mark.slow

TARGET = np.random.default_rng(1).integers(0, 200, (3, 6, 5, 4)).astype(np.uint8)
GIVEN = np.random.default_rng(2).integers(0, 200, (12, 10, 8)).astype(np.uint8)[:, :, ::2]


@numba.njit
def assigned(target, value):
    """Assign to the second row."""
    assign(target, (1,), value)


@numba.njit
def mirrored_in_place(target):
    """Assign a row to itself, upside down."""
    assign(target, (1,), target[1][::-1])


def by_numpy(value):
    made = TARGET.copy()
    made[1] = value
    return made


@pytest.mark.parametrize(
    "value",
    [
        GIVEN[:6, :5], GIVEN[5::-1, 4::-1, ::-1], GIVEN[::2, ::2], GIVEN[:5, :6].transpose(1, 0, 2),
        GIVEN[:1, :5], GIVEN[:6, :1], GIVEN[:6, :5, :1], GIVEN[0, :5], GIVEN[0, :1],
    ],
)  # fmt: skip
def test_values_of_the_same_dtype(value):
    made = TARGET.copy()
    assigned(made, value)
    assert np.array_equal(made, by_numpy(value))


def test_values_of_another_dtype_are_converted():
    made, value = TARGET.copy(), GIVEN[:6, :5].astype(np.int64) * 3 - 7
    assigned(made, value)
    assert np.array_equal(made, by_numpy(value.astype(np.uint8)))


def test_values_in_the_memory_of_the_target():
    made = TARGET.copy()
    mirrored_in_place(made)
    assert np.array_equal(made, by_numpy(TARGET[1, ::-1]))


@pytest.mark.parametrize("value", [GIVEN[:7, :5], GIVEN[:6, :4], GIVEN[:6, :0], GIVEN[1, :4]])
def test_values_that_do_not_fit_are_refused_and_nothing_is_written(value):
    with pytest.raises(ValueError, match="broadcast"):
        by_numpy(value)
    made = TARGET.copy()
    with pytest.raises(ValueError, match="cannot be broadcast to the shape that it is assigned to"):
        assigned(made, value)
    assert np.array_equal(made, TARGET)


def test_no_rows():
    made = TARGET[:, :0].copy()
    assigned(made, GIVEN[:1, :5])
    assert made.shape == (3, 0, 5, 4)
