"""The parts that rotations share: their parameters, and the drawn angle.

Draw 0 is the angle in degrees, uniform, counter-clockwise as in torchvision's RandomRotation.
"""

from dataclasses import dataclass
from typing import Annotated, Any, cast

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameters import Range, Spread, Word
from stoker.ops.contract.relative import require_ratio
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.warp import FILTERS
from stoker.rng.draws import uniform_range

Filter = Annotated[str, Word(FILTERS), "filter of images; masks are always nearest"]
"""The parameter `interpolation` of ops that warp."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["angle"] = uniform_range(key, 0, params["degrees_low"], params["degrees_high"])


@dataclass(frozen=True)
class Rotated(Fills, Op):
    """Base of rotations about the center."""

    degrees: Annotated[float | Range, Spread(360.0), "range of the angle, counter-clockwise"]
    interpolation: Filter = "bilinear"
    fill: Fill = 0
    mask_fill: MaskFill = 0

    image_dtypes = LEVELS_FLOATS
    random = True
    record = np.dtype([("angle", "f8")])
    draw = staticmethod(_draw)
    rescale = staticmethod(require_ratio)
    affine = True

    @property
    def angles(self) -> Range:
        """The range of the angle, (low, high) in degrees."""
        return cast(Range, self.degrees)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_pixels(states)
        return states, 0
