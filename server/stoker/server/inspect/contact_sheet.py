"""A contact sheet: samples and what a pipeline makes of them, targets drawn.

One line of the sheet for each sample: the picture as it is stored, then the picture of each replay.
A picture is what a person would see: the last 8-bit image on the way to the output, of the output's
size, so before it was normalized. Without such an image, the output is stretched from its least to
its greatest value. Its mask covers it in colors, boxes and keypoints are drawn, labels are below.
Needs Pillow; runs in the process of a command. Sizes are pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from stoker.ops.contract.registry import batch_ops
from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import COORDINATES
from stoker.protocol.replayed_row import Replay, ReplayValue
from stoker.server.inspect.value_files import is_picture, palette

CELL: Final = 224
GAP: Final = 6
CAPTION: Final = 30
OVERLAY: Final = 0.45
DOT: Final = 3
BACKGROUND: Final = (255, 255, 255)
INK: Final = (20, 20, 20)
Classes = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Shown:
    """A picture and what is drawn on it.

    Attributes:
        pixels: (H, W, 3) uint8.
        mask: (H, W) integers, or None.
        boxes: (n, 4) float32, left, top, right, bottom in pixels of the picture.
        points: (n, 2) float32, x, y in pixels of the picture.
        caption: at most two lines below it.
    """

    pixels: np.ndarray
    mask: np.ndarray | None
    boxes: np.ndarray
    points: np.ndarray
    caption: str


def stored(replay: Replay, source: str, classes: Classes) -> Shown:
    """Return the sample as it is stored, for the field that a picture was made of."""
    picture = next(value for value in replay.fields if value.name == source)
    caption = f"id {replay.id}\n{_labels(replay, replay.fields, classes)}"
    return _shown(replay, picture.array, replay.fields, caption)


def augmented(replay: Replay, output: str, classes: Classes) -> Shown:
    """Return what a batch shows of the sample, for one output."""
    value = next(value for value in replay.outputs if value.name == output)
    caption = f"epoch {replay.epoch}\n{_labels(replay, replay.outputs, classes)}"
    return _shown(replay, _picture(replay, value), replay.outputs, caption)


def picture_output(replay: Replay, wanted: str | None = None) -> tuple[str, str]:
    """Return (output, field): the output to show, and the field that it was made of.

    Args:
        replay: any replay of the pipeline.
        wanted: name of an output; None takes the first that was made of an image.

    Raises:
        UsageError: there is no such output, or it is not a picture.
    """
    found = {}
    for value in replay.outputs:
        chain = _chain(replay, value)
        if chain[-1].kind == "image" and value.array.ndim == 3:
            found[value.name] = chain[-1].name
    name = wanted or next(iter(found), None)
    if name not in found:
        if name is None:
            raise UsageError("preview: the pipeline has no output that is made of an image")
        raise UsageError(
            f"preview: expected an output made of an image: {', '.join(found)}; got {name}"
        )
    return name, found[name]


def sheet(lines: Sequence[Sequence[Shown]]) -> Image.Image:
    """Return the contact sheet: one line of pictures for each sample."""
    columns = max(len(line) for line in lines)
    step_x, step_y = CELL + GAP, CELL + CAPTION + GAP
    size = (GAP + columns * step_x, GAP + len(lines) * step_y)
    page = Image.new("RGB", size, BACKGROUND)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=11)
    for row, line in enumerate(lines):
        for column, shown in enumerate(line):
            left, top = GAP + column * step_x, GAP + row * step_y
            picture = _drawn(shown)
            page.paste(picture, (left + (CELL - picture.width) // 2, top))
            draw.multiline_text((left, top + CELL + 1), shown.caption, INK, font, spacing=2)
    return page


def _drawn(shown: Shown) -> Image.Image:
    """Return the picture at the size of a cell, mask and boxes on it."""
    pixels = shown.pixels
    if shown.mask is not None:
        colors = palette()[shown.mask & 255]
        mixed = pixels * (1 - OVERLAY) + colors * OVERLAY
        pixels = np.where((shown.mask != 0)[..., None], mixed, pixels).astype(np.uint8)
    height, width = pixels.shape[:2]
    scale = CELL / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    picture = Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(picture)
    for number, box in enumerate(shown.boxes.tolist()):
        corners = [side * scale for side in box]
        draw.rectangle(corners, outline=_color(number), width=2)
    for number, (x, y) in enumerate((shown.points * scale).tolist()):
        draw.ellipse((x - DOT, y - DOT, x + DOT, y + DOT), fill=_color(number), outline=INK)
    return picture


def _color(number: int) -> tuple[int, ...]:
    return tuple(palette()[number % 255 + 1].tolist())


def _shown(
    replay: Replay, picture: np.ndarray, values: Sequence[ReplayValue], caption: str
) -> Shown:
    size = picture.shape[:2]
    masks = [v.array for v in values if v.kind == "mask" and v.array.shape == size]
    pixels = np.broadcast_to(picture[..., :3], (*size, 3))
    boxes, points = (_coordinates(replay, values, *native) for native in COORDINATES.items())
    return Shown(pixels, masks[0] if masks else None, boxes, points, caption)


def _coordinates(
    replay: Replay, values: Sequence[ReplayValue], kind: str, native: tuple[str, int]
) -> np.ndarray:
    """Return boxes or keypoints in pixels: of an output in another format, what it was made of."""
    given = [value for value in values if value.kind == kind]
    behind = {value.number for value in _chain(replay, given[0])} if given else set()
    earlier = [value for value in replay.values() if value.number in behind]
    for value in (*given, *reversed(earlier)):
        if value.name.endswith(f".{native[0]}") and value.array.dtype == np.float32:
            return value.array
    return np.zeros((0, native[1]), np.float32)


def _chain(replay: Replay, value: ReplayValue) -> list[ReplayValue]:
    """Return a value, what it was made of, and so on to the field."""
    by_number = {known.number: known for known in replay.values()}
    chain = [value]
    while chain[-1].of is not None:
        chain.append(by_number[chain[-1].of])
    return chain


def _picture(replay: Replay, value: ReplayValue) -> np.ndarray:
    """Return (H, W, 1, 3 or 4) uint8 as a person would see an output."""
    array = value.array
    if array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    low = high = 0.0
    mixed = {v.number for step in replay.steps if step.op in batch_ops() for v in step.values}
    for earlier in _chain(replay, value):
        same = earlier.array.shape[:2] == array.shape[:2]
        if same and is_picture(earlier.array):
            return earlier.array
        if same and earlier.kind == "image" and _is_unit(earlier.array):
            array, (low, high) = earlier.array, (0.0, 1.0)
            break
        if earlier.number in mixed:
            break  # before that it was a picture of one sample
    plain = array[..., : 3 if array.shape[2] > 2 else 1].astype(np.float64)
    if low == high:
        plain = np.nan_to_num(plain, posinf=0.0, neginf=0.0)
        low, high = plain.min(), plain.max()
    stretched: np.ndarray = np.round((plain - low) * (255 / max(high - low, 1e-12)))
    return stretched.astype(np.uint8)


def _is_unit(image: np.ndarray) -> bool:
    """Return whether an image is of floats from 0 to 1."""
    return image.dtype == np.float32 and bool(((image >= 0) & (image <= 1)).all())


def _labels(replay: Replay, values: Sequence[ReplayValue], classes: Classes) -> str:
    words = []
    for value in values:
        if value.kind == "label" and not value.array.ndim:
            number = int(value.array)
            names = classes.get(_chain(replay, value)[-1].name, ())
            words.append(names[number] if 0 <= number < len(names) else f"{value.name} {number}")
    return ", ".join(words)
