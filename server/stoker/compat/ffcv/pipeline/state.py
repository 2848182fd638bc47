"""The state of a batch between two operations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.protocol.errors import BuildError


@dataclass(frozen=True)
class _Cpu:
    """The device of arrays in a process that has not loaded torch."""

    type: str = "cpu"
    index: int | None = None


def cpu_device() -> Any:
    """Return `torch.device("cpu")`, or what has its attributes if torch is not loaded."""
    torch = sys.modules.get("torch")
    return _Cpu() if torch is None else torch.device("cpu")


@dataclass(frozen=True)
class State:
    """The form of one sample's value; edit it with `dataclasses.replace`.

    Attributes:
        jit_mode: whether it is a NumPy array that compiled code makes and may process; an
            operation whose state after it is not in jit mode runs as Python.
        device: a torch.device; `cpu` for arrays.
        shape: sides of one sample, without the batch.
        dtype: a NumPy dtype for arrays, a torch dtype for tensors.
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
        if not isinstance(sides, Sequence) or not all(
            isinstance(side, int | np.integer) and side >= 0 for side in sides
        ):
            raise BuildError(f"State: expected shape to be a tuple of integers, got {sides!r}")
        object.__setattr__(self, "shape", tuple(map(int, sides)))
        if self.jit_mode and not self.is_array:
            raise BuildError(
                "State: expected a NumPy dtype, because data in jit_mode are NumPy arrays, "
                f"got {self.dtype!r}"
            )

    @property
    def is_array(self) -> bool:
        """True if it is a NumPy array; otherwise a tensor."""
        try:
            np.dtype(self.dtype)
        except TypeError:
            return False
        return True

    def __str__(self) -> str:
        kind = f"NumPy {np.dtype(self.dtype).name}" if self.is_array else str(self.dtype)
        return f"{kind} of shape {self.shape}"
