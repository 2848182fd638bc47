"""Arrays of the plain engine: given, written to an output, and compared with a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker.ops.contract.states import State
from stoker.pipeline.planning.engine_tables import physical
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.errors import UsageError


def as_python(value: Any) -> Any:
    """Return a Python number for a NumPy scalar."""
    return value.item() if isinstance(value, np.generic) else value


def store(value: Any, out: np.ndarray) -> None:
    """Write a value to an output."""
    flat = out.view(physical(out.dtype.name))
    if np.shape(value)[1:] == out.shape[1:] and np.ndim(value) > 1:  # items: only the existing ones
        flat[: len(value)] = value
    else:
        flat[...] = np.reshape(value, out.shape)


def fits(shape: tuple[int, ...], state: State) -> bool:
    """Return whether a value of that shape fits the state; a scalar has shape (1,)."""
    if not state.shape:
        return shape == (1,)
    return len(shape) == len(state.shape) and all(
        least <= side <= bound
        for side, least, bound in zip(shape, state.least, state.bound, strict=True)
    )


def check_arrays(
    plan: Plan, inputs: Sequence[Any], outputs: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return the inputs as contiguous arrays of their dtypes; a scalar becomes (1,).

    Raises:
        UsageError: inputs or outputs differ from the plan in number, dtype, rank or shape.
    """
    if len(inputs) != len(plan.fields) or len(outputs) != len(plan.outputs):
        raise UsageError(
            f"expected {len(plan.fields)} inputs ({', '.join(plan.fields)}) and "
            f"{len(plan.outputs)} outputs, got {len(inputs)} and {len(outputs)}"
        )
    columns = [
        _column(name, state, value)
        for name, state, value in zip(plan.fields, plan.inputs, inputs, strict=True)
    ]
    for output, array in zip(plan.outputs, outputs, strict=True):
        good = array.dtype == output.dtype and output.takes(array.shape)
        if not good or not array.flags.carray:
            raise UsageError(
                f"output {output.name!r}: expected a writable, contiguous {output.dtype} array of "
                f"shape {output.shape}, got {array.dtype} {array.shape}"
            )
    return columns


def _column(name: str, state: State, value: Any) -> np.ndarray:
    if not state.shape and not isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value, state.dtype)
    array = np.asarray(value)
    if array.dtype != state.dtype or array.ndim != len(state.shape):
        raise UsageError(
            f"input {name!r}: expected {state}, got {array.dtype} of shape {array.shape}"
        )
    array = np.require(array, None, ["C", "A"]).view(physical(state.dtype))
    return array.reshape(1) if not state.shape else array
