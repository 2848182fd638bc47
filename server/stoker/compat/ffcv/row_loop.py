"""The loop over the rows of a batch around a function that must get one row at a time.

Memory for the rows is an array, or several arrays of any shapes and dtypes as a tuple. The compiled
form runs on several cores if it is compiled for that. Imports numba.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, Final

import numba
from numba.extending import overload

types: Any = numba.types
prange = numba.prange
OTHER_FORM: Final = "the result has another dtype or shape than the memory for it"
run_one: Any = None
"""What `each_row` calls; `loop_around` sets it in its copies."""


def rows_of(memory: Any, low: Any, high: Any) -> Any:
    """Return some rows of an array, or of each array of a tuple."""
    if isinstance(memory, tuple):
        return tuple(array[low:high] for array in memory)
    return memory[low:high]


@overload(rows_of)
def _rows_of(memory: Any, low: Any, high: Any) -> Any:
    if not isinstance(memory, types.BaseTuple):
        return _rows_of_array
    return _rows_of_one if len(memory) == 1 else _rows_of_several


def _rows_of_array(memory: Any, low: Any, high: Any) -> Any:
    return memory[low:high]


def _rows_of_one(memory: Any, low: Any, high: Any) -> Any:
    return (memory[0][low:high],)


def _rows_of_several(memory: Any, low: Any, high: Any) -> Any:
    return (memory[0][low:high], *rows_of(memory[1:], low, high))


def check_form(result: Any, out: Any) -> None:
    """Check that results have the dtype and shape of the memory that keeps them.

    Raises:
        TypeError: they have others, and would be converted or repeated silently.
    """
    if result.dtype != out.dtype or result.shape != out.shape:
        raise TypeError(OTHER_FORM)


@overload(check_form)
def _check_form(result: Any, out: Any) -> Any:
    alike = result.dtype == out.dtype and result.ndim == out.ndim
    return _check_shape if alike else _other_form


def _check_shape(result: Any, out: Any) -> None:
    if result.shape != out.shape:
        raise TypeError(OTHER_FORM)


def _other_form(result: Any, out: Any) -> None:
    raise TypeError(OTHER_FORM)


def each_row(keys: Any, counts: Any, batch: Any, dst: Any, indices: Any, out: Any) -> None:
    """Call `run_one` for each row, one after the other or in parallel, and keep its results."""
    for i in prange(batch.shape[0]):
        j = i + 1
        memory = rows_of(dst, i, j)
        result = run_one(keys[i:j], counts[i:j], batch[i:j], memory, indices[i:j])
        check_form(result, out[i:j])
        if result.ctypes.data != out[i:j].ctypes.data:
            out[i:j] = result


def loop_around(run: Any) -> FunctionType:
    """Return `each_row` for a compiled function: numba stores a loop only if it knows that."""
    return FunctionType(each_row.__code__, {**each_row.__globals__, "run_one": run}, "each_row")


def each_row_in_python(
    run: Any, keys: Any, counts: Any, batch: Any, dst: Any, indices: Any, out: Any
) -> None:
    """Do the same for a function, without machine code."""
    for i in range(len(batch)):
        row = slice(i, i + 1)
        memory = rows_of(dst, i, i + 1)
        result = run(keys[row], counts[row], batch[row], memory, indices[row])
        check_form(result, out[row])
        out[row] = result
