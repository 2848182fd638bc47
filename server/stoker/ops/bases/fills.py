"""The parameters `fill` and `mask_fill` of ops that write pixels which no source pixel gives.

The op has the two fields; their requirements on states are here.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.ops.contract.op import Op
from stoker.ops.contract.parameters import Levels, MaskClass, PerChannel
from stoker.ops.contract.states import State, StateError

Fill = Annotated[
    PerChannel, Levels(), "level of pixels from outside of the image, or one for each channel"
]
"""The parameter `fill`."""
MaskFill = Annotated[int, MaskClass(), "class of pixels from outside of the mask"]
"""The parameter `mask_fill`."""
LIMITS: Final = {"uint8": (0, 255), "uint16": (0, 65535), "int16": (-32768, 32767)}
"""Least and greatest number of images of whole numbers."""


class Fills(Op):
    """Base, next to another one, of ops with a `fill` and a `mask_fill`.

    Attributes:
        fill: level, or one for each channel; an integer for images of uint8, uint16 and int16.
        mask_fill: class number.
    """

    fill: Any
    mask_fill: int

    def require_pixels(self, states: tuple[State, ...]) -> None:
        """Refuse also fills that do not fit an image's channels or a mask's range."""
        super().require_pixels(states)
        require_fill(self.name, states, self.fill, self.mask_fill)


def require_fill(op: str, states: tuple[State, ...], fill: Any, mask_fill: int) -> None:
    """Refuse fills that do not fit an image's channels or dtype, or a mask's range.

    Args:
        op: the op's name.
        states: the states of the values of one call.
        fill: the checked parameter: levels, one or one for each channel.
        mask_fill: class number.

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
