"""Put four samples together around a point: the row itself and three drawn from the dataset.

The row's own image fills the part above and left of the center, the others follow from left to
right and top to bottom. Each shows its corner at the center: the first its bottom right, the second
its bottom left, and so on; nothing is scaled, so an image keeps its size. Boxes and keypoints move
along, are clipped to their part and removed if they leave it. `mosaic_scaled` scales each image.

Draws: 0 whether it is applied, 1 and 2 the center as fractions of height and width, 3, 4 and 5 the
words that select the samples. Source of the idea: A. Bochkovskiy et al., "YOLOv4", 2020; as in
later versions of YOLO with a canvas of one image's size.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.tiled import CENTER_FIELDS, TILES, Center, Tile, Tiled
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.parameters import Probability
from stoker.ops.contract.registry import register_batch
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import ParameterError, State
from stoker.ops.kernels.means import Tools
from stoker.ops.mixes.mosaic_scaled import MosaicScaled
from stoker.rng.draws import bernoulli, uniform_range, word


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["applied"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["y"] = uniform_range(key, 1, params["center_low"], params["center_high"])
    record["x"] = uniform_range(key, 2, params["center_low"], params["center_high"])
    for tile in range(3):
        record["words"][tile] = word(key, 3 + tile, 0)
        record["tiles"][tile] = -1
    record["top"], record["left"], record["height"], record["width"] = 0, 0, 0, 0


@register_batch
class Mosaic(Tiled):
    """Put four samples together."""

    center_range: Center = (0.25, 0.75)
    p: Probability = 1.0

    image_dtypes = ANY_DTYPE
    record = np.dtype(CENTER_FIELDS)
    draw = staticmethod(_draw)

    def factors(self, record: Any) -> Sequence[float]:
        """Return the factors of the four images."""
        return (1.0,) * TILES

    def show(
        self, state: State, source: np.ndarray, into: np.ndarray, part: Tile, tools: Tools
    ) -> None:
        """Copy a part of the mosaic."""
        top, left = -int(part.down), -int(part.right)
        into[...] = source[:, top : top + part.tall, left : left + part.wide]


@calls(Mosaic)
def mosaic(
    call: FunctionCall,
    scale_range: tuple[float, float] | None = None,
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
) -> Any:
    """Put four samples together; with `scale_range` each is scaled: see `MosaicScaled`."""
    if scale_range is not None:
        return call(MosaicScaled, scale_range=scale_range, fill=fill, mask_fill=mask_fill)
    if (fill, mask_fill) != (0, 0):
        raise ParameterError(
            "mosaic: expected fill and mask_fill only with scale_range, since without it the four "
            f"images cover everything; got fill={fill!r}, mask_fill={mask_fill!r}. Give "
            "scale_range, for example (0.5, 1.5), or leave them out",
            op=Mosaic.name,
        )
    return call(Mosaic)
