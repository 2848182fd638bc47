"""A mosaic whose four images are each scaled by a random factor, as YOLO trains.

As `mosaic`: the corner that touches the center stays at the center. An image smaller than its part
leaves a border, which is filled; a larger one shows what fits. Pixels are bilinear without
antialiasing, as OpenCV's INTER_LINEAR, which YOLO uses; masks are nearest. Boxes and keypoints are
scaled and moved along, clipped to their part and removed if they leave it.

Draws 0 to 5 are those of `mosaic`; 6 to 9 the factors of the four images, uniform. Position x of a
part shows place (x + 0.5 - shift) / factor of its image, in the fixed point of `kernels.warp`.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, cast

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.batch_op import grid
from stoker.ops.bases.fills import Fill, Fills, MaskFill, require_fill
from stoker.ops.bases.tiled import CENTER_FIELDS, TILES, Center, Tile, Tiled
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span
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
    record["y"] = uniform_range(key, 1, params["center_low"], params["center_high"])
    record["x"] = uniform_range(key, 2, params["center_low"], params["center_high"])
    for tile in range(3):
        record["words"][tile] = word(key, 3 + tile, 0)
        record["tiles"][tile] = -1
    for tile in range(4):
        record["scales"][tile] = uniform_range(
            key, 6 + tile, params["scale_low"], params["scale_high"]
        )
    record["top"], record["left"], record["height"], record["width"] = 0, 0, 0, 0


@register_batch
class MosaicScaled(Fills, Tiled):
    """Put four samples together, each scaled by a factor of its own."""

    center_range: Center = (0.25, 0.75)
    scale_range: Annotated[Range, Span(SMALLEST, LARGEST), "factors of the images"] = (0.5, 1.5)
    fill: Fill = 0
    mask_fill: MaskFill = 0
    p: Probability = 1.0

    image_dtypes = ("uint8", FLOAT)
    record = np.dtype([*CENTER_FIELDS, ("scales", "f8", (TILES,))])
    draw = staticmethod(_draw)

    def mixed(self, state: State) -> State:
        """Return the state of the result.

        Raises:
            StateError: pixels have no mean, or the fill does not fit; besides the reasons of
                `mosaic`.
        """
        made = super().mixed(state)
        if not state.items and state.kind != "mask":
            self._require_means(state)
        require_fill(self.name, (state,), self.fill, self.mask_fill)
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
            levels = cast(tuple[float, ...], self.fill)
            whole = all(isinstance(level, int) for level in levels)
            if state.dtype == "uint8" and not whole:
                raise StateError(
                    f"{self.name}: expected fill to be integers from 0 to 255 for {state}, got "
                    f"{levels}",
                    op=self.name,
                )
            if len(levels) not in (1, channels):
                raise StateError(
                    f"{self.name}: expected fill to be one level or one for each channel of "
                    f"{state}, got {len(levels)} levels {levels}",
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
        fill = np.array(self.fill, np.float32)
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


mosaic_scaled = function(MosaicScaled)
