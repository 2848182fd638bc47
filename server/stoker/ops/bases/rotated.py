"""The parts that rotations share: their parameters, and the drawn angle.

Draw 0 is the angle in degrees, uniform, counter-clockwise as in torchvision's RandomRotation.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import FILL_FIELDS, Fills
from stoker.ops.contract import checks
from stoker.ops.contract.checks import spread
from stoker.ops.contract.op import Op
from stoker.ops.contract.relative import require_ratio
from stoker.ops.contract.rules import require_pixels
from stoker.ops.contract.states import State
from stoker.ops.kernels.warp import FILTERS
from stoker.rng.draws import uniform_range

MOST: float = 360.0


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["angle"] = uniform_range(key, 0, params["low"], params["high"])


@dataclass(frozen=True)
class Rotated(Fills, Op):
    """Base of rotations about the center.

    Attributes:
        degrees: range of the angle, counter-clockwise: (low, high), or d for (-d, d).
        interpolation: of images: nearest or bilinear. Masks are always nearest.
        fill: gray level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
    """

    degrees: float | tuple[float, float]
    interpolation: str = "bilinear"
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0

    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("low", "f8"),
            ("high", "f8"),
            *FILL_FIELDS,
            ("interpolation", "u1"),
        ]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([("angle", "f8")])
    draw = staticmethod(_draw)
    rescale = staticmethod(require_ratio)

    @property
    def angles(self) -> tuple[float, float]:
        """The range of the angle, (low, high) in degrees.

        Raises:
            ParameterError: it is invalid.
        """
        return spread(self.name, "degrees", self.degrees, MOST)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            degrees=self.angles,
            interpolation=checks.choice(self.name, "interpolation", self.interpolation, FILTERS),
            **self.checked_fills(),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        code = FILTERS.index(self.interpolation)
        return np.array((*self.angles, *self.fills(), code), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_kinds(states)
        require_pixels(self.name, states, floats=True, wide=True)
        self.require_fills(states)
        return states, 0
