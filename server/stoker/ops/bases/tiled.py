"""The parts that mosaics share: which kinds they take, where the four parts are, items that move.

Part k = 0 to 3 is above (k < 2) or below the center, and left (k even) or right of it. Each shows
its image with the corner that touches the center at the center, scaled by a factor of its own.
With s the factor, a place x of the image is at s x + shift in its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import numpy as np

from stoker.ops.bases.batch_op import BatchOp, Mixed, bounded, picture_size, planes, require_fixed
from stoker.ops.contract.parameters import Range, Span
from stoker.ops.contract.rules import refuse, remedy_of, visible_word
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.means import Tools
from stoker.ops.kernels.points import scaled

Center = Annotated[Range, Span(0.0, 1.0), "place of the center, as a part of height and of width"]
"""The parameter `center_range`."""
KINDS: Final = ("array", "boxes", "image", "keypoints", "mask")
TILES: Final = 4
FORMATS: Final = {"xywh": 0.0, "cxcywh": 0.5}
"""Formats of boxes other than corners -> where in the box its first point is, as a fraction."""
CENTER_FIELDS: Final[list[tuple[Any, ...]]] = [
    ("applied", "u1"), ("y", "f8"), ("x", "f8"), ("words", "u8", (3,)),
    ("tiles", "i8", (3,)), ("top", "i4"), ("left", "i4"), ("height", "i4"), ("width", "i4"),
]  # fmt: skip
"""The record fields that `Tiled.resolve` completes, and those that it reads."""


class Tile(NamedTuple):
    """A part of a mosaic, in pixels.

    Attributes:
        top, left: its place in the mosaic.
        tall, wide: its sides.
        scale: factor of its image.
        down, right: what is added to scaled places of its image to get places in the part.
    """

    top: int
    left: int
    tall: int
    wide: int
    scale: float
    down: float
    right: float


@dataclass(frozen=True)
class Tiled(BatchOp):
    """Base of mosaics: four samples around a center; their records begin with `CENTER_FIELDS`."""

    others: ClassVar[int] = TILES - 1
    of_dataset: ClassVar[bool] = True
    needs_picture: ClassVar[bool] = True

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
        if state.kind not in KINDS:
            raise self.no_rule(state)
        if picture_size(state) is None:
            raise refuse(self.name, "pixels, in two or three sides", state, remedy_of(state))
        return state

    def resolve(self, record: np.ndarray, size: tuple[int, int], ids: Sequence[int]) -> None:
        """Complete a record: ids of the other samples, center and size in pixels."""
        record["tiles"] = ids
        record["height"], record["width"] = size
        (drawn,) = record
        record["top"] = int(float(drawn["y"]) * size[0] + 0.5)
        record["left"] = int(float(drawn["x"]) * size[1] + 0.5)

    def factors(self, record: Any) -> Sequence[float]:
        """Return the factors of the four images."""
        raise NotImplementedError

    def show(
        self, state: State, source: np.ndarray, into: np.ndarray, part: Tile, tools: Tools
    ) -> None:
        """Write a part of the mosaic.

        Args:
            state: the state of the value.
            source: (planes, H, W, channels), the part's image.
            into: (planes, tall, wide, channels), the part; not contiguous.
            part: which part.
            tools: the arithmetic to use.
        """
        raise NotImplementedError

    def mix(self, value: Mixed, record: Any, tools: Tools) -> int:
        """Write the four parts, or their items."""
        state, sources, dst = value
        if state.items:
            return self._items(value, record, tools)
        size = picture_size(state)
        assert size is not None, "mixed() refuses values without pixels"
        into = planes(state, dst)
        for source, part in zip(sources, self._parts(size, record), strict=True):
            rows = slice(part.top, part.top + part.tall)
            columns = slice(part.left, part.left + part.wide)
            if part.tall and part.wide:
                self.show(state, planes(state, source), into[:, rows, columns], part, tools)
        return 0

    def _items(self, value: Mixed, record: Any, tools: Tools) -> int:
        state, sources, dst = value
        size = int(record["height"]), int(record["width"])
        visible, count = visible_word(state), 0
        form = state.items[0].name
        for given, part in zip(sources, self._parts(size, record), strict=True):
            if not len(given) or not part.tall or not part.wide:
                continue
            source = with_corners(given, form)
            numbers = scaled(part.scale, part.scale, part.right, part.down)
            rest, sizes = dst[count:], (*size, part.tall, part.wide)
            kept = tools.move(state.kind, source, rest, numbers, sizes, visible)
            places = rest[:kept].view(np.float32)[:, : 4 if state.kind == "boxes" else 2]
            places[:, 0::2] += np.float32(part.left)
            places[:, 1::2] += np.float32(part.top)
            if form in FORMATS:
                as_form(places, form)
            count += kept
        return count

    def _parts(self, size: tuple[int, int], record: Any) -> list[Tile]:
        """Return the four parts of a mosaic of a size, in the order of their samples."""
        (height, width), factors = size, self.factors(record)
        top, left = int(record["top"]), int(record["left"])
        parts = []
        for k, factor in enumerate(factors):
            above, before = k < 2, k % 2 == 0
            tall, wide = (top if above else height - top), (left if before else width - left)
            down = tall - factor * height if above else 0.0
            right = wide - factor * width if before else 0.0
            place = 0 if above else top, 0 if before else left
            parts.append(Tile(*place, tall, wide, factor, down, right))
        return parts


def with_corners(items: np.ndarray, form: str) -> np.ndarray:
    """Return items whose boxes are converted from another format to corners."""
    if form not in FORMATS:
        return items
    made = items.copy()
    boxes = made.view(np.float32)[:, :4]
    x, y, wide, tall = boxes.astype(np.float64).T
    left, top = x - FORMATS[form] * wide, y - FORMATS[form] * tall
    boxes[:] = np.stack([left, top, left + wide, top + tall], 1)
    return made


def as_form(boxes: np.ndarray, form: str) -> None:
    """Write corners, (n, 4) float32, in another format, like `convert_boxes`."""
    left, top, right, bottom = boxes.astype(np.float64).T
    wide, tall = right - left, bottom - top
    boxes[:] = np.stack([left + FORMATS[form] * wide, top + FORMATS[form] * tall, wide, tall], 1)
