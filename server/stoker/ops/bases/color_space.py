"""The parts that color space conversions share: three channels in, three out; no randomness."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.ops.bases.wide_floats import float_room
from stoker.ops.contract.op import Op
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import FLOAT, RGB, WIDE
from stoker.ops.contract.states import State


@dataclass(frozen=True)
class ColorSpaceOp(Op):
    """Base of conversions between color spaces; it has no parameters and keeps every state."""

    image_dtypes: ClassVar[tuple[str, ...]] = ("uint8", FLOAT)
    image_channels = RGB
    rescale = staticmethod(keep_record)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_pixels(states)
        rooms = (float_room(s, self.wide["image"]) for s in states if s.dtype == WIDE)
        return states, max(rooms, default=0)


def plain_of_floats(convert: Callable[[np.ndarray], np.ndarray]) -> Callable[..., None]:
    """Return the plain kernel of a conversion of `(H, W, 3)` float32."""

    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        with np.errstate(all="ignore"):
            dst[...] = convert(src)

    return plain


def plain_form(convert: Callable[[np.ndarray], np.ndarray]) -> Callable[..., None]:
    """Return the plain kernel of a conversion of `(H, W, 3)` int64."""

    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        dst[...] = convert(src.astype(np.int64))

    return plain
