"""A mosaic whose four images are each scaled by a random factor, as YOLO trains.

As `mosaic`: the corner that touches the center stays at the center. An image smaller than its part
leaves a border, which is filled; a larger one shows what fits. Pixels are bilinear without
antialiasing, as OpenCV's INTER_LINEAR, which YOLO uses; masks are nearest. Boxes and keypoints are
scaled and moved along, clipped to their part and removed if they leave it.

Draws 0 to 5 are those of `mosaic`; 6 to 9 the factors of the four images, uniform. Position x of a
part shows place (x + 0.5 - shift) / factor of its image, in the fixed point of `kernels.warp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.batch import grid
from stoker.ops.bases.fills import Fills
from stoker.ops.bases.tiled import CENTER_FIELDS, TILES, Tile, Tiled
from stoker.ops.contract import checks
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register_batch
from stoker.ops.contract.rules import FLOAT, float_first, refuse
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.means import Tools
from stoker.ops.kernels.warp import BITS, fixed
from stoker.rng.draws import bernoulli, uniform_range, word

SMALLEST: Final = 1 / 16
LARGEST: Final = 16.0
PIXELS: Final = ("uint8", "float16", "float32")
"""Dtypes of pixels that have a mean."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["applied"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["y"] = uniform_range(key, 1, params["low"], params["high"])
    record["x"] = uniform_range(key, 2, params["low"], params["high"])
    for tile in range(3):
        record["words"][tile] = word(key, 3 + tile, 0)
        record["tiles"][tile] = -1
    for tile in range(4):
        record["scales"][tile] = uniform_range(key, 6 + tile, params["least"], params["most"])
    record["top"], record["left"], record["height"], record["width"] = 0, 0, 0, 0


@register_batch
@dataclass(frozen=True)
class MosaicScaled(Fills, Tiled):
    """Put four samples together, each scaled by a factor of its own.

    Attributes:
        center_range: (low, high) of the center's position, as a fraction of height and width.
        scale_range: (low, high) of the factors, from 1/16 to 16.
        fill: level where no image is, or one for each channel, in the numbers that the images have
            at this point: after `normalize` 0 is the mean color.
        mask_fill: class where no mask is.
        p: probability that it is applied.
    """

    center_range: tuple[float, float] = (0.25, 0.75)
    scale_range: tuple[float, float] = (0.5, 1.5)
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0
    p: float = 1.0

    name: ClassVar[str] = "mosaic_scaled"
    image_dtypes = ("uint8", FLOAT)
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("low", "f8"), ("high", "f8"), ("least", "f8"), ("most", "f8"), ("p", "f8")]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([*CENTER_FIELDS, ("scales", "f8", (TILES,))])
    draw = staticmethod(_draw)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            center_range=checks.span(self.name, "center_range", self.center_range, 0.0, 1.0),
            scale_range=checks.span(self.name, "scale_range", self.scale_range, SMALLEST, LARGEST),
            p=checks.number(self.name, "p", self.p, 0.0, 1.0),
            **self.checked_fills(),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((*self.center_range, *self.scale_range, self.p), self.parameters)

    def mixed(self, state: State) -> State:
        """Return the state of the result.

        Raises:
            StateError: pixels have no mean, or the fill does not fit; besides the reasons of
                `mosaic`.
        """
        made = super().mixed(state)
        if not state.items and state.kind != "mask":
            self._require_means(state)
        self.require_fills((state,))
        return made

    def _require_means(self, state: State) -> None:
        """Refuse pixels that cannot be interpolated, and fills of another number of channels."""
        classes = state.kind == "array" and len(state.shape) == 2 and state.dtype == "uint8"
        if state.dtype not in PIXELS or classes:
            raise refuse(
                self.name,
                f"an image, or an array of pixels of {', '.join(PIXELS)} with channels",
                state,
                float_first(
                    self.name,
                    state,
                    "If these are class numbers, keep the kind mask: convert them after this op",
                ),
            )
        if state.kind == "array":
            _, height, width = grid(state)
            channels = math.prod(state.bound) // (height * width)
            whole = all(isinstance(level, int) for level in self.levels)
            if state.dtype == "uint8" and not whole:
                raise StateError(
                    f"{self.name}: expected fill to be integers from 0 to 255 for {state}, got "
                    f"{self.levels}",
                    op=self.name,
                )
            if len(self.levels) not in (1, channels):
                raise StateError(
                    f"{self.name}: expected fill to be one level or one for each channel of "
                    f"{state}, got {len(self.levels)} levels {self.levels}",
                    op=self.name,
                )

    def factors(self, record: Any) -> Sequence[float]:
        """Return the factors of the four images; 1 for 0, in a record that was never drawn."""
        return [float(scale) or 1.0 for scale in record["scales"]]

    def show(
        self, state: State, source: np.ndarray, into: np.ndarray, part: Tile, tools: Tools
    ) -> None:
        """Write a scaled part of the mosaic."""
        step = 1.0 / part.scale
        along = fixed(step), fixed((0.5 - part.right) * step)
        down = fixed(step), fixed((0.5 - part.down) * step)
        if state.kind == "mask":
            _nearest(source, into, down, along, self.mask_fill)
            return
        fill = np.array(self.levels, np.float32)
        fill = np.broadcast_to(fill, (source.shape[0] * source.shape[3],))
        steps = (along[0], 0, along[1], 0, down[0], down[1])
        for k, (plane, to) in enumerate(zip(source, into, strict=True)):
            channels = plane.shape[2]
            levels = np.ascontiguousarray(fill[k * channels : (k + 1) * channels])
            to[...] = tools.warp(plane, to.shape, steps, levels)


def _nearest(
    source: np.ndarray, into: np.ndarray, down: tuple[int, int], along: tuple[int, int], fill: int
) -> None:
    """Write the nearest classes; positions are `start + step * x` in units of 2**-24 pixels."""
    index, inside = [], []
    for (step, start), count, side in (
        (down, into.shape[1], source.shape[1]),
        (along, into.shape[2], source.shape[2]),
    ):
        at = np.arange(count, dtype=np.int64) * step + start
        good = (at >= 0) & (at < side << BITS)
        index.append(np.where(good, at, 0) >> BITS)
        inside.append(good)
    picked = source[:, index[0][:, None], index[1]]
    seen = (inside[0][:, None] & inside[1])[..., None]
    into[...] = np.where(seen, picked, np.array(fill, source.dtype))


def mosaic_scaled(
    *values: Value,
    center_range: tuple[float, float] = (0.25, 0.75),
    scale_range: tuple[float, float] = (0.5, 1.5),
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    p: float = 1.0,
    stream: str | None = None,
) -> Any:
    """Put scaled values of a pipeline together with those of others; see `MosaicScaled`."""
    return MosaicScaled(center_range, scale_range, fill, mask_fill, p)(*values, stream=stream)
