"""Separates parameters that decide what an op does from those that only change pixels."""

from collections.abc import Mapping
from typing import Any, Final

LOOKS: Final = frozenset({"fill", "interpolation", "mask_fill", "mode"})
"""Parameters of Stoker's ops that change neither draws nor where pixels go."""


def deciding(op: str, params: Mapping[str, Any], result_number: str) -> dict[str, Any]:
    """Return the parameters that two calls must share to make the same decision.

    Args:
        op: name of the op; an op of the user is `module:Class`, and all its parameters count.
        params: the parameters.
        result_number: the one that is only the number of a result; see `Op`.
    """
    left_out = frozenset() if ":" in op else LOOKS | {result_number}
    return {name: value for name, value in params.items() if name not in left_out}
