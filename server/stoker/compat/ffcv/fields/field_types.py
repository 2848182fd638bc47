"""Fields: how `DatasetWriter` stores the parts of a sample."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from typing import Any, Final

import numpy as np
from PIL import Image

from stoker.dataset.format import schema
from stoker.protocol.errors import UsageError
from stoker.rng.draws import bernoulli
from stoker.rng.streams import make_key, stream_key

MODES: Final = ("raw", "jpg", "smart", "proportion")


class Field(ABC):
    """One part of a sample."""

    @abstractmethod
    def declare(self, name: str) -> schema.Field:
        """Return its declaration in the dataset."""

    @abstractmethod
    def encode(self, value: Any, index: int) -> Any:
        """Return the stored form of a value; `index` is the sample's position."""


class RGBImageField(Field):
    """Images, RGB.

    Args:
        write_mode: "raw": pixels; "jpg": JPEG; "smart": JPEG for images of more than
            `smart_threshold` bytes of pixels, PNG for the others; "proportion": JPEG with
            probability `compress_probability`, otherwise PNG. FFCV stores raw pixels instead of
            PNG: the same pixels, larger and faster.
        max_resolution: longest side; larger images are scaled down when they are written.
        smart_threshold: bytes; None: every image is a JPEG.
        jpeg_quality: 1 to 100.
        compress_probability: for "proportion".
    """

    def __init__(
        self,
        write_mode: str = "raw",
        max_resolution: int | None = None,
        smart_threshold: int | None = None,
        jpeg_quality: int = 90,
        compress_probability: float = 0.5,
    ) -> None:
        if write_mode not in MODES:
            raise UsageError(
                f"RGBImageField: expected write_mode to be one of {', '.join(MODES)}, got "
                f"{write_mode!r}"
            )
        self.write_mode = write_mode
        self.max_resolution = max_resolution
        self.smart_threshold = smart_threshold
        self.jpeg_quality = jpeg_quality
        self.compress_probability = compress_probability

    def declare(self, name: str) -> schema.Field:
        """Return the image field."""
        encoding = {"raw": "raw", "jpg": "jpeg"}.get(self.write_mode, "encoded")
        return schema.image(name, encoding=encoding)

    def encode(self, value: Any, index: int) -> Any:
        """Return pixels, or the bytes of a JPEG or PNG.

        Raises:
            UsageError: the value is not an RGB image.
        """
        pixels = self._pixels(value)
        if self.write_mode == "raw":
            return pixels
        file = io.BytesIO()
        if self._is_jpeg(pixels, index):
            Image.fromarray(pixels).save(file, "JPEG", quality=self.jpeg_quality)
        else:
            Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()

    def _is_jpeg(self, pixels: np.ndarray, index: int) -> bool:
        if self.write_mode == "jpg":
            return True
        if self.write_mode == "smart":
            return self.smart_threshold is None or pixels.nbytes > self.smart_threshold
        key = make_key(0, stream_key("compress"), index, 0)
        return bernoulli(key, 0, self.compress_probability)

    def _pixels(self, value: Any) -> np.ndarray:
        image = value if isinstance(value, Image.Image) else None
        if image is None:
            array = np.asarray(value)
            if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
                raise UsageError(
                    f"RGBImageField: expected a PIL image or (H, W, 3) uint8, got {array.dtype} of "
                    f"shape {array.shape}"
                )
            image = Image.fromarray(array)
        if self.max_resolution is not None and max(image.size) > self.max_resolution:
            scale = self.max_resolution / max(image.size)
            width, height = (max(1, round(side * scale)) for side in image.size)
            image = image.resize((width, height), Image.Resampling.BOX)
        return np.ascontiguousarray(np.asarray(image.convert("RGB")))


class IntField(Field):
    """Integers, int64."""

    def declare(self, name: str) -> schema.Field:
        """Return the label field."""
        return schema.label(name)

    def encode(self, value: Any, index: int) -> Any:
        """Return the number."""
        return int(value)


class FloatField(Field):
    """Numbers, float64."""

    def declare(self, name: str) -> schema.Field:
        """Return the scalar field."""
        return schema.scalar(name, "float64")

    def encode(self, value: Any, index: int) -> Any:
        """Return the number."""
        return float(value)


class NDArrayField(Field):
    """Arrays of one shape and dtype."""

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)

    def declare(self, name: str) -> schema.Field:
        """Return the array field."""
        return schema.array(name, self.dtype.name, self.shape)

    def encode(self, value: Any, index: int) -> Any:
        """Return the array.

        Raises:
            UsageError: it has another dtype or shape.
        """
        array = np.asarray(value)
        if array.dtype != self.dtype or array.shape != self.shape:
            raise UsageError(
                f"expected {self.dtype} of shape {self.shape}, got {array.dtype} of shape "
                f"{array.shape}"
            )
        return array


class TorchTensorField(NDArrayField):
    """Tensors of one shape and torch dtype; read as arrays."""

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        super().__init__(str(dtype).removeprefix("torch."), shape)

    def encode(self, value: Any, index: int) -> Any:
        """Return the tensor as an array."""
        return super().encode(value.detach().cpu().numpy(), index)


class BytesField(Field):
    """Bytes of any length: `bytes`, or a one-dimensional uint8 array."""

    def declare(self, name: str) -> schema.Field:
        """Return the bytes field."""
        return schema.blob(name)

    def encode(self, value: Any, index: int) -> Any:
        """Return the bytes."""
        return bytes(value)


class JSONField(BytesField):
    """Any value for `json.dumps`; `JSONField.unpack` converts a batch back."""

    def encode(self, value: Any, index: int) -> Any:
        """Return the text's bytes."""
        return json.dumps(value).encode()

    @staticmethod
    def unpack(batch: Any) -> list[Any]:
        """Return the values of a batch, (B, n) uint8 array or tensor."""
        rows = np.asarray(batch)
        return [json.loads(bytes(row).rstrip(b"\0")) for row in rows]
