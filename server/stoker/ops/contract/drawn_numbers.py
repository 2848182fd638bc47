"""Draws of ops as values of a pipeline: whether an op was applied, and the numbers that it drew.

Conditions, arithmetic, parameters of later ops, `ops.python` and outputs take them.
"""

from typing import Any

from stoker.ops.contract.op import Value
from stoker.protocol.errors import BuildError


def drawn(result: Value, name: str) -> Any:
    """Return a number that the op which made a value drew for it, as a value of the pipeline.

    The number is an int64 or a float64 of each row, in the units of the op's record; in a row where
    the op's probability was not hit, it is what the op would have used.

    Args:
        result: a result of the op, such as the image.
        name: of the number, as replay shows it: "angle" of `rotate`, "top" of `random_crop`.

    Raises:
        BuildError: the value is not the result of an op, or its op draws no number of that name.
    """
    if not isinstance(result, Value):
        raise BuildError(
            f"ops.drawn: expected the result of an op in a pipeline, got {type(result).__name__}"
        )
    return result.tracer.decided(result, name)
