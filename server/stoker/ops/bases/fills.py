"""The parameters `fill` and `mask_fill`, which ops share that write what no source pixel gives.

A mixin beside `Op`: the op has the two fields, this has their check, their run-time form and what
they demand of states. A level or class for all of an op's kinds is decided here and nowhere else.
"""

from typing import Any, ClassVar, Final

import numpy as np

from stoker.ops.contract import checks
from stoker.ops.contract.op import State
from stoker.ops.kernels.cut import fill_levels, require_fill

FILL_FIELDS: Final[list[tuple[Any, ...]]] = [("mask_fill", "i4", (1,)), ("fill", "f4", (4,))]
"""Run-time form of both, in the order of `Fills.fills`; float32 holds every level exactly."""
CLASSES: Final = np.iinfo(np.int32)


class Fills:
    """Mixin of ops with a `fill` and a `mask_fill`.

    Attributes:
        name: the op's name.
        fill: level, or one for each channel; a whole number for images of uint8.
        mask_fill: class number.
    """

    name: ClassVar[str]
    fill: float | tuple[float, ...]
    mask_fill: int

    @property
    def levels(self) -> tuple[float, ...]:
        """The fill as a tuple: one level, or one for each channel.

        Raises:
            ParameterError: it is none.
        """
        return checks.levels(self.name, "fill", self.fill)

    def checked_fills(self) -> dict[str, Any]:
        """Return both parameters in their canonical form, by name.

        Raises:
            ParameterError: one is of the wrong type or out of bounds.
        """
        low, high = int(CLASSES.min), int(CLASSES.max)
        number = checks.integer(self.name, "mask_fill", self.mask_fill, low, high)
        return {"fill": self.levels, "mask_fill": number}

    def fills(self) -> tuple[tuple[int], tuple[float, ...]]:
        """Return the run-time form of both, in the order of `FILL_FIELDS`."""
        return (self.mask_fill,), fill_levels(self.levels)

    def require_fills(self, states: tuple[State, ...]) -> None:
        """Refuse fills that an image has not the channels for, or a mask not the range.

        Raises:
            StateError: naming fill and state.
        """
        require_fill(self.name, states, self.levels, self.mask_fill)
