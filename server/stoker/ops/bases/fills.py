"""The parameters `fill` and `mask_fill` of ops that write pixels which no source pixel gives.

A mixin next to `Op`: the op has the two fields, this has their check, their run-time form and
their requirements on states. Levels and classes for all kinds of an op are handled only here.
"""

from typing import Annotated, Any, ClassVar, Final

import numpy as np

from stoker.ops.contract import checks
from stoker.ops.contract.parameters import Levels, MaskClass, PerChannel
from stoker.ops.contract.rules import MAX_CHANNELS
from stoker.ops.contract.states import State, StateError

Fill = Annotated[
    PerChannel, Levels(), "level of pixels from outside of the image, or one for each channel"
]
"""The parameter `fill`."""
MaskFill = Annotated[int, MaskClass(), "class of pixels from outside of the mask"]
"""The parameter `mask_fill`."""
FILL_FIELDS: Final[list[tuple[Any, ...]]] = [
    ("mask_fill", "i4", (1,)),
    ("fill", "f4", (MAX_CHANNELS,)),
]
"""Run-time form of both, in the order of `Fills.fills`; float32 holds every level exactly."""
LIMITS: Final = {"uint8": (0, 255), "uint16": (0, 65535), "int16": (-32768, 32767)}
"""Least and greatest number of images of whole numbers."""
CLASSES: Final = np.iinfo(np.int32)


class Fills:
    """Mixin of ops with a `fill` and a `mask_fill`.

    Attributes:
        name: the op's name.
        fill: level, or one for each channel; an integer for images of uint8, uint16 and int16.
        mask_fill: class number.
    """

    name: ClassVar[str]
    fill: float | tuple[float, ...]
    mask_fill: int

    @property
    def levels(self) -> tuple[float, ...]:
        """The fill as a tuple: one level, or one for each channel.

        Raises:
            ParameterError: it is invalid.
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
        """Refuse fills that do not fit an image's channels or a mask's range.

        Raises:
            StateError: names fill and state.
        """
        require_fill(self.name, states, self.levels, self.mask_fill)


def require_fill(
    op: str, states: tuple[State, ...], fill: tuple[float, ...], mask_fill: int
) -> None:
    """Refuse fills that do not fit an image's channels or dtype, or a mask's range.

    Raises:
        StateError: names fill and state.
    """
    for state in states:
        if state.kind == "image" and len(fill) not in (1, state.shape[2]):
            raise StateError(
                f"{op}: expected fill to be one level or one for each channel of {state}, got "
                f"{len(fill)} levels {fill}",
                op=op,
            )
        least, most = LIMITS.get(state.dtype, (0, 0)) if state.kind == "image" else (0, 0)
        if most and not all(level in range(least, most + 1) for level in fill):
            raise StateError(
                f"{op}: expected fill to be integers from {least} to {most} for {state}, got "
                f"{fill}",
                op=op,
            )
        if state.kind == "mask":
            limits = np.iinfo(state.dtype)
            if not limits.min <= mask_fill <= limits.max:
                raise StateError(
                    f"{op}: expected mask_fill from {limits.min} to {limits.max} for {state}, got "
                    f"{mask_fill}",
                    op=op,
                )


def fill_levels(fill: tuple[float, ...]) -> tuple[float, ...]:
    """Return a fill for the most channels that an image can have."""
    return fill * MAX_CHANNELS if len(fill) == 1 else fill + (0,) * (MAX_CHANNELS - len(fill))
