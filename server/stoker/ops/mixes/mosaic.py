"""Put four samples together around a point: the row itself and three drawn from the dataset.

The row's own image fills the part above and left of the center, the others follow from left to
right and top to bottom. Each shows its corner at the center: the first its bottom right, the second
its bottom left, and so on; nothing is scaled, so an image keeps its size. Boxes and keypoints move
along, are clipped to their part and removed if they leave it. `mosaic_scaled` scales each image.

Draws: 0 whether it is applied, 1 and 2 the center as fractions of height and width, 3, 4 and 5 the
words that select the samples. Source of the idea: A. Bochkovskiy et al., "YOLOv4", 2020; as in
later versions of YOLO with a canvas of one image's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.tiled import CENTER_FIELDS, TILES, Tile, Tiled
from stoker.ops.contract import checks
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register_batch
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import ParameterError, State
from stoker.ops.kernels.means import Tools
from stoker.ops.mixes.mosaic_scaled import MosaicScaled
from stoker.rng.draws import bernoulli, uniform_range, word


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["applied"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["y"] = uniform_range(key, 1, params["low"], params["high"])
    record["x"] = uniform_range(key, 2, params["low"], params["high"])
    for tile in range(3):
        record["words"][tile] = word(key, 3 + tile, 0)
        record["tiles"][tile] = -1
    record["top"], record["left"], record["height"], record["width"] = 0, 0, 0, 0


@register_batch
@dataclass(frozen=True)
class Mosaic(Tiled):
    """Put four samples together.

    Attributes:
        center_range: (low, high) of the center's position, as a fraction of height and width.
        p: probability that it is applied.
    """

    center_range: tuple[float, float] = (0.25, 0.75)
    p: float = 1.0

    name: ClassVar[str] = "mosaic"
    image_dtypes = ANY_DTYPE
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("low", "f8"), ("high", "f8"), ("p", "f8")])
    record: ClassVar[np.dtype[Any]] = np.dtype(CENTER_FIELDS)
    draw = staticmethod(_draw)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            center_range=checks.span(self.name, "center_range", self.center_range, 0.0, 1.0),
            p=checks.number(self.name, "p", self.p, 0.0, 1.0),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((*self.center_range, self.p), self.parameters)

    def factors(self, record: Any) -> Sequence[float]:
        """Return the factors of the four images."""
        return (1.0,) * TILES

    def show(
        self, state: State, source: np.ndarray, into: np.ndarray, part: Tile, tools: Tools
    ) -> None:
        """Copy a part of the mosaic."""
        top, left = -int(part.down), -int(part.right)
        into[...] = source[:, top : top + part.tall, left : left + part.wide]


def mosaic(
    *values: Value,
    center_range: tuple[float, float] = (0.25, 0.75),
    p: float = 1.0,
    scale_range: tuple[float, float] | None = None,
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
) -> Any:
    """Put values of a pipeline together with those of three other samples; see `Mosaic`.

    With `scale_range` each image is scaled: see `MosaicScaled`.

    Raises:
        ParameterError: a parameter is invalid, or there is a fill but nothing to fill.
    """
    if scale_range is not None:
        return MosaicScaled(center_range, scale_range, fill, mask_fill, p)(*values, stream=stream)
    if (fill, mask_fill) != (0, 0):
        raise ParameterError(
            "mosaic: expected fill and mask_fill only with scale_range, since without it the four "
            f"images cover everything; got fill={fill!r}, mask_fill={mask_fill!r}. Give "
            "scale_range, for example (0.5, 1.5), or leave them out",
            op=Mosaic.name,
        )
    return Mosaic(center_range, p)(*values, stream=stream)
