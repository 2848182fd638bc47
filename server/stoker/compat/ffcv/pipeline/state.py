"""The state of a batch between two operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.protocol.errors import BuildError


@dataclass(frozen=True)
class State:
    """The form of one sample's value; edit it with `dataclasses.replace`.

    Attributes:
        jit_mode: whether it is a NumPy array on the CPU, which compiled code can process.
        device: device of a tensor; has no meaning in jit mode.
        shape: sides of one sample, without the batch.
        dtype: a NumPy dtype in jit mode, otherwise a torch dtype.
    """

    jit_mode: bool
    device: Any
    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        """Check that the parts are consistent.

        Raises:
            BuildError: the dtype is not a NumPy dtype in jit mode, or the shape is invalid.
        """
        sides = self.shape
        if not isinstance(sides, tuple) or not all(
            isinstance(side, int | np.integer) and side >= 0 for side in sides
        ):
            raise BuildError(f"State: expected shape to be a tuple of integers, got {sides!r}")
        if self.jit_mode:
            try:
                np.dtype(self.dtype)
            except TypeError:
                raise BuildError(
                    "State: expected a NumPy dtype, because data in jit_mode are NumPy arrays, "
                    f"got {self.dtype!r}"
                ) from None

    def __str__(self) -> str:
        kind = f"NumPy {np.dtype(self.dtype).name}" if self.jit_mode else f"torch {self.dtype}"
        return f"{kind} of shape {self.shape}"
