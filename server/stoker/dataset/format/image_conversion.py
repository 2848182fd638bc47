"""Optional conversions of images and masks before they are packed.

- `resize`: an image or mask whose shorter side is longer than that is scaled down with its aspect
  ratio: images by Pillow's Lanczos filter, masks by the nearest pixel (no new value). Boxes and
  keypoints are scaled with the image they belong to.
- `quality`: images are stored as JPEG of that quality, with halved chroma (4:2:0).
- `raw`: images are stored as pixels, upright.

Without `quality` or `raw`, resized images are stored as PNG, so that nothing else is lost. Each
conversion is recorded as a note in the manifest. Runs in workers.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET
from PIL import Image

from stoker.dataset.format.box_conversion import FORMATS, HALF_PIXEL, PIXEL, RELATIVE
from stoker.dataset.format.cells import FieldError, Value, deep_pixels
from stoker.dataset.format.fields import Field
from stoker.dataset.format.number_conversion import as_mask
from stoker.dataset.images.inspection import Scratches, inspect_picture
from stoker.dataset.limits import CodecError, check_pixels
from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import COORDINATES

_MAX_SIDE = 2**16 - 1
"""Longest possible side of a JPEG, in pixels."""
Size = tuple[int, int]


class Conversion(msgspec.Struct, frozen=True):
    """The conversions to do; None and False mean none."""

    resize: int | None = None
    quality: int | None = None
    raw: bool = False

    @property
    def is_any(self) -> bool:
        """True if there is any conversion to do."""
        return self != Conversion()


@dataclass
class Converted:
    """The values of a row after conversion.

    Attributes:
        values: by field.
        sizes: (height, width) of each image or mask before conversion, after orientation.
        notes: field -> what was done to its image or mask.
    """

    values: dict[str, Value]
    sizes: dict[str, Size] = field(default_factory=dict)
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)


def check_conversion(conversion: Conversion) -> None:
    """Check the user's conversion options.

    Raises:
        UsageError: an option is out of bounds, or options contradict each other.
    """
    resize, quality = conversion.resize, conversion.quality
    if resize is not None and not 1 <= resize <= _MAX_SIDE:
        raise UsageError(f"--resize: expected a side of 1 to {_MAX_SIDE} pixels, got {resize}")
    if quality is not None and not 1 <= quality <= 100:
        raise UsageError(f"--quality: expected 1 to 100, got {quality}")
    if quality is not None and conversion.raw:
        raise UsageError(
            "--quality and --raw exclude each other: raw pixels are not JPEG; leave one of them out"
        )


def encoding_after(conversion: Conversion, encoding: str) -> str:
    """Return the stored encoding of images that arrive in an encoding."""
    if conversion.raw:
        return "raw"
    pixels_stay = conversion.resize is not None and encoding == "raw"
    return encoding if pixels_stay or not conversion.is_any else "encoded"


def convert(
    fields: Sequence[Field], values: Mapping[str, Value], conversion: Conversion, scratch: Scratches
) -> Converted:
    """Convert the images and masks of a row, and scale the boxes and keypoints in them.

    Raises:
        FieldError: an image or mask cannot be decoded, or an item's value is not numeric.
    """
    done = Converted(dict(values))
    new: dict[str, Size] = {}
    for one in fields:
        if one.is_picture:
            try:
                new[one.name] = _convert_picture(one, done, conversion, scratch)
            except CodecError as error:
                raise FieldError(one.name, str(error)) from None
    for one in fields:
        if one.items is not UNSET and one.items.of is not None:
            before, after = done.sizes[one.items.of], new[one.items.of]
            if before != after:
                scale = after[1] / before[1], after[0] / before[0]
                done.values[one.name] = _move(one, values[one.name], scale)
    return done


def _convert_picture(
    one: Field, done: Converted, conversion: Conversion, scratch: Scratches
) -> Size:
    """Convert an image or mask in place, and return its size."""
    value = done.values[one.name]
    if not one.fits_files:
        value = done.values[one.name] = deep_pixels(one, value)
    if one.kind == "mask" and isinstance(value, np.ndarray):
        value = done.values[one.name] = as_mask(one.dtype, value)
    if not one.fits_files:
        assert isinstance(value, np.ndarray)
        if smaller((value.shape[0], value.shape[1]), conversion.resize) != value.shape[:2]:
            raise CodecError(
                f"--resize scales uint8 images of 3 channels and uint8 masks, but this is "
                f"{one.dtype} of shape {value.shape}; scale it down before packing it"
            )
        done.sizes[one.name] = value.shape[0], value.shape[1]
        return done.sizes[one.name]
    pixels, recoded = _pixels(one, value, scratch)
    size = pixels.shape[0], pixels.shape[1]
    done.sizes[one.name] = size
    target = smaller(size, conversion.resize)
    notes = list(recoded)
    if target != size:
        how = Image.Resampling.LANCZOS if one.kind == "image" else Image.Resampling.NEAREST
        picture = Image.fromarray(pixels).resize((target[1], target[0]), how)
        pixels = np.asarray(picture)
        notes.append(f"made smaller, to a shorter side of {conversion.resize}")
    if one.kind == "image" and conversion.quality is not None:
        notes.append(f"re-encoded as JPEG of quality {conversion.quality}, with loss")
        done.values[one.name] = _as_jpeg(pixels, conversion.quality)
    elif target != size or (one.kind == "image" and conversion.raw):
        done.values[one.name] = pixels.copy()  # they may be in scratch memory
    else:
        return size
    done.notes[one.name] = tuple(notes)
    return target


def smaller(size: Size, resize: int | None) -> Size:
    """Return a size with the same aspect ratio whose shorter side is at most `resize`."""
    short = min(size)
    if resize is None or short <= resize:
        return size
    height, width = ((2 * side * resize + short) // (2 * short) for side in size)
    return height, width


def _pixels(one: Field, value: Value, scratch: Scratches) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the pixels of an image or mask, and notes about its decoding."""
    if isinstance(value, np.ndarray):
        tail = one.shape[2:]
        if value.dtype != one.dtype or value.ndim < 2 or value.shape[2:] != tail:
            raise CodecError(f"expected {one.dtype} pixels, got {value.dtype} of {value.shape}")
        check_pixels(*value.shape[:2])
        return np.ascontiguousarray(value), ()
    if not isinstance(value, bytes | bytearray | memoryview):
        raise CodecError(f"expected the bytes of an image file, got {type(value).__name__}")
    picture = inspect_picture(bytes(value), one.kind, scratch, bool(one.keeps_orientation))
    shape = (picture.height, picture.width, *((3,) if one.kind == "image" else ()))
    return scratch.pixels.take(int(np.prod(shape))).reshape(shape), picture.notes


def _as_jpeg(pixels: np.ndarray, quality: int) -> bytes:
    if max(pixels.shape[:2]) > _MAX_SIDE:
        raise CodecError(
            f"it has {pixels.shape[0]}x{pixels.shape[1]} pixels, but a JPEG's sides have at most "
            f"{_MAX_SIDE}; scale it down, or leave out --quality"
        )
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=quality, subsampling="4:2:0")
    return out.getvalue()


def _move(one: Field, value: Any, scale: tuple[float, float]) -> Value:
    """Scale the coordinates of boxes or keypoints that are in pixels."""
    native, width = COORDINATES[one.kind]
    given = value if isinstance(value, Mapping) else {native: value}
    moved: dict[str, Any] = {}
    for name, numbers in given.items():
        if name in FORMATS[one.kind] and not name.startswith(RELATIVE):
            try:
                array = np.asarray(numbers, np.float64).reshape(-1, width)
            except (ValueError, TypeError) as error:
                raise FieldError(one.name, f"{name}: {error}") from None
            shift = HALF_PIXEL if name == PIXEL else 0.0
            moved[name] = (array + shift) * np.tile(scale, width // 2) - shift
        else:
            moved[name] = numbers
    return moved
