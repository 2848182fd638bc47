"""`ops.python`: a user's Python function as a step of a pipeline.

It runs on one value after the other (`stoker.ops.custom.python_call`), or on all of them at once
(`stoker.ops.custom.python_together`). Runs where a pipeline is written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from stoker.jit.named import reference, resolve
from stoker.ops.contract.op import Value
from stoker.ops.custom.provenance import provenance
from stoker.ops.custom.python_call import PythonCall
from stoker.ops.custom.python_together import MOST, PythonTogether
from stoker.protocol.errors import BuildError


def python(
    function: Callable[..., Any] | str,
    *values: Value,
    randomness: str = "generator",
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    dtype: str | None = None,
    together: bool = False,
    stream: str | None = None,
) -> Any:
    """Call a Python function on values of a pipeline, one sample at a time; see `PythonCall`.

    Args:
        function: a function at the top level of a module, or `"module:attr"` of any callable
            object: `function(array, rng)`, or `function(array)` unless randomness is
            "generator". Images are (H, W, C), masks (H, W). A `torch.nn.Module` gets (C, H, W).
        values: images, masks, arrays or numbers, which are arrays of one; each call begins with the
            same generator state.
        randomness: "generator", "global" or "none".
        size: height and width of the result, if they differ from the input's.
        channels: channels of resulting images, if they differ from the input's.
        dtype: dtype of the result, if it differs from the input's; with `together`, of images
            alone.
        together: call it once with all values, `function(one, two, rng)`; it returns as many.
        stream: stream name; by default the function's name.

    Raises:
        BuildError: no worker could import the function by name, or it is not reproducible.
    """
    name = function if isinstance(function, str) else reference(function, f"function {function!r}")
    code = provenance(name.partition(":")[0], resolve(name, trusted=True))
    _check_arguments(name, resolve(name, trusted=True), len(values) if together else 1, randomness)
    frame = (size, size) if isinstance(size, int) else size
    said = (name, *code, randomness, frame, channels, dtype)
    if not together:
        return PythonCall(*said)(*values, stream=stream)
    if not 2 <= len(values) <= MOST:
        raise BuildError(f"{name}: together=True takes 2 to {MOST} values, got {len(values)}")
    first, *others = (PythonTogether(*said, result) for result in range(len(values)))
    made = [first(*values, stream=stream)]
    same = values[0].tracer.stream_of(first)
    return (*made, *(op(*values, stream=same) for op in others))


def _check_arguments(name: str, function: Any, count: int, randomness: str) -> None:
    """Check that a function takes its values, and a generator if it is to get one.

    Raises:
        BuildError: it does not, but would if `randomness` were "none", or were left out.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin or a module: the trial run tells
        return
    alone, more = (None,) * count, (None,) * (count + 1)
    values = "array" if count == 1 else ", ".join(f"array{k}" for k in range(1, count + 1))
    if randomness == "generator" and not _takes(signature, more) and _takes(signature, alone):
        raise BuildError(
            f"{name}: expected a function({values}, rng), got {name.partition(':')[2]}{signature}:"
            " add a parameter for its random generator, or pass randomness='none' to ops.python"
        )
    without = randomness in ("global", "none")
    if without and not _takes(signature, alone) and _takes(signature, more):
        raise BuildError(
            f"{name}: expected a function({values}) for randomness={randomness!r}, got "
            f"{name.partition(':')[2]}{signature}: leave out randomness= if it takes a generator"
        )


def _takes(signature: inspect.Signature, given: tuple[Any, ...]) -> bool:
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True
