"""Put four samples together around a point: the row itself and three drawn from the dataset.

The row's own image fills the part above and left of the center, the others follow from left to
right and top to bottom. Each shows its corner at the center: the first its bottom right, the second
its bottom left, and so on; nothing is scaled, so an image keeps its size. Boxes and keypoints move
along, are clipped to their part and removed if they leave it.

Draws: 0 whether it is applied, 1 and 2 the center as fractions of height and width, 3, 4 and 5 the
words that select the samples. Source of the idea: A. Bochkovskiy et al., "YOLOv4", 2020; as in
later versions of YOLO with a canvas of one image's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.batch import BatchOp, bounded, picture_size, planes, require_fixed
from stoker.ops.contract import checks
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register_batch
from stoker.ops.contract.rules import visible_word
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.means import Tools
from stoker.ops.kernels.points import scaled
from stoker.rng.draws import bernoulli, uniform_range, word

KINDS: Final = ("array", "boxes", "image", "keypoints", "mask")
TILES: Final = 4
FORMATS: Final = {"xywh": 0.0, "cxcywh": 0.5}
"""Formats of boxes other than corners -> where in the box its first point is, as a fraction."""


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
class Mosaic(BatchOp):
    """Put four samples together.

    Attributes:
        center_range: (low, high) of the center's position, as a fraction of height and width.
        p: probability that it is applied.
    """

    center_range: tuple[float, float] = (0.25, 0.75)
    p: float = 1.0

    name: ClassVar[str] = "mosaic"
    others: ClassVar[int] = TILES - 1
    of_dataset: ClassVar[bool] = True
    needs_picture: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("low", "f8"), ("high", "f8"), ("p", "f8")])
    record: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("applied", "u1"), ("y", "f8"), ("x", "f8"), ("words", "u8", (3,)),
            ("tiles", "i8", (3,)), ("top", "i4"), ("left", "i4"), ("height", "i4"), ("width", "i4"),
        ]
    )  # fmt: skip
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

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Return the kinds that the op has a rule for."""
        return KINDS

    def mixed(self, state: State) -> State:
        """Return the state of the result; the bound of boxes and keypoints is quadrupled.

        Raises:
            StateError: a label is given, which cannot describe four images; besides the reasons
                of all batch ops.
        """
        if state.items:
            if state.kind != "boxes" or state.items[0].name not in FORMATS:
                state = self.declare_items(state)
            return bounded(state, TILES)
        if state.kind in ("label", "scalar") or (state.kind == "array" and len(state.shape) < 2):
            raise StateError(
                f"{self.name} has no rule for {state}: one label or number cannot describe four "
                "images. Leave it out of this call; labels of boxes stay with their boxes",
                op=self.name,
            )
        require_fixed(self.name, state)
        if state.kind not in KINDS or picture_size(state) is None:
            raise self.no_rule(state)
        return state

    def resolve(self, record: np.ndarray, size: tuple[int, int], ids: Sequence[int]) -> None:
        """Complete a record: ids of the other samples, center and size in pixels."""
        record["tiles"] = ids
        record["height"], record["width"] = size
        (drawn,) = record
        record["top"] = int(float(drawn["y"]) * size[0] + 0.5)
        record["left"] = int(float(drawn["x"]) * size[1] + 0.5)

    def mix(
        self,
        state: State,
        sources: Sequence[np.ndarray],
        dst: np.ndarray,
        record: Any,
        tools: Tools,
    ) -> int:
        """Write the four parts, or their items."""
        if state.items:
            return self._items(state, sources, dst, record, tools)
        size = picture_size(state)
        assert size is not None, "mixed() refuses values without pixels"
        into = planes(state, dst)
        for source, (to, at, sides) in zip(sources, _parts(size, record), strict=True):
            target, origin = (
                tuple(slice(start, start + side) for start, side in zip(place, sides, strict=True))
                for place in (to, at)
            )
            into[:, *target] = planes(state, source)[:, *origin]
        return 0

    def _items(
        self,
        state: State,
        sources: Sequence[np.ndarray],
        dst: np.ndarray,
        record: Any,
        tools: Tools,
    ) -> int:
        size = int(record["height"]), int(record["width"])
        visible, count = visible_word(state), 0
        form = state.items[0].name
        for given, (to, at, sides) in zip(sources, _parts(size, record), strict=True):
            if not len(given) or 0 in sides:
                continue
            source = _with_corners(given, form)
            numbers = scaled(1.0, 1.0, -float(at[1]), -float(at[0]))
            rest = dst[count:]
            kept = tools.move(state.kind, source, rest, numbers, (*size, *sides), visible)
            places = rest[:kept].view(np.float32)[:, : 4 if state.kind == "boxes" else 2]
            places[:, 0::2] += np.float32(to[1])
            places[:, 1::2] += np.float32(to[0])
            if form in FORMATS:
                _as_form(places, form)
            count += kept
        return count


def _with_corners(items: np.ndarray, form: str) -> np.ndarray:
    """Return items whose boxes are converted from another format to corners."""
    if form not in FORMATS:
        return items
    made = items.copy()
    boxes = made.view(np.float32)[:, :4]
    x, y, wide, tall = boxes.astype(np.float64).T
    left, top = x - FORMATS[form] * wide, y - FORMATS[form] * tall
    boxes[:] = np.stack([left, top, left + wide, top + tall], 1)
    return made


def _as_form(boxes: np.ndarray, form: str) -> None:
    """Write corners, (n, 4) float32, in another format, like `convert_boxes`."""
    left, top, right, bottom = boxes.astype(np.float64).T
    wide, tall = right - left, bottom - top
    boxes[:] = np.stack([left + FORMATS[form] * wide, top + FORMATS[form] * tall, wide, tall], 1)


def _parts(
    size: tuple[int, int], record: Any
) -> list[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """Return, for each part, its place, where it begins in its image, and its sides."""
    height, width = size
    top, left = int(record["top"]), int(record["left"])
    rows = ((0, height - top, top), (top, 0, height - top))
    columns = ((0, width - left, left), (left, 0, width - left))
    return [
        ((to_y, to_x), (at_y, at_x), (tall, wide))
        for to_y, at_y, tall in rows
        for to_x, at_x, wide in columns
    ]


def mosaic(
    *values: Value,
    center_range: tuple[float, float] = (0.25, 0.75),
    p: float = 1.0,
    stream: str | None = None,
) -> Any:
    """Put values of a pipeline together with those of three other samples; see `Mosaic`."""
    return Mosaic(center_range, p)(*values, stream=stream)
