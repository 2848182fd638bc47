"""Decoders: the first operation of every field's pipeline.

Images are decoded and resampled by Stoker's own ops, so their pixels follow
docs/contracts/numeric.md, not OpenCV.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, ClassVar, Final

import numpy as np

from stoker import ops
from stoker.compat.ffcv.field_reading import (
    BytesReading,
    PipelineReading,
    Reading,
    StoredReading,
)
from stoker.compat.ffcv.pipeline.allocation_query import Allocation
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.dataset import Dataset
from stoker.dataset.format.fields import Field
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.protocol.errors import BuildError

MAX_ASPECT: Final = 8
"""Greatest aspect ratio; `CenterCropRGBImageDecoder` centers longer images on black."""


class Decoder(Operation):
    """Base of decoders; a pipeline begins with exactly one.

    Class attributes:
        kinds: the kinds of fields that it can read.
        draws: whether it draws.
    """

    kinds: ClassVar[tuple[str, ...]]
    draws: ClassVar[bool] = False

    def open(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return a reading of a field of a dataset.

        Args:
            dataset: the dataset.
            field: the field.
            stream: name of the stream that it draws from.

        Raises:
            BuildError: it cannot read that field.
        """
        if field.kind not in self.kinds:
            raise BuildError(
                f"{type(self).__name__}: expected a field of kind {' or '.join(self.kinds)}, got "
                f"{field.name!r} of kind {field.kind}"
            )
        return self.reading(dataset, field, stream)

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return a reading of a field of a supported kind."""
        raise NotImplementedError

    def generate_code(self) -> Callable[..., Any]:
        """Raise: a decoder reads a dataset, not a batch."""
        raise BuildError(
            f"{type(self).__name__} is a decoder, so it must be the first operation of a pipeline"
        )

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Raise: a decoder reads a dataset, not a batch."""
        raise BuildError(
            f"{type(self).__name__} is a decoder, so it must be the first operation of a pipeline"
        )


class _NumberDecoder(Decoder):
    dtype: ClassVar[str]

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return a reading of the numbers, each of shape (1,)."""
        return StoredReading(dataset, field.name, (1,), self.dtype)


class IntDecoder(_NumberDecoder):
    """Integers, (1,) int64 each."""

    kinds = ("label", "scalar")
    dtype = "int64"


class FloatDecoder(_NumberDecoder):
    """Numbers, (1,) float64 each."""

    kinds = ("scalar",)
    dtype = "float64"


class NDArrayDecoder(Decoder):
    """Arrays of one shape."""

    kinds = ("array",)

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return a reading of the arrays."""
        if None in field.shape:
            raise BuildError(
                f"field {field.name!r}: expected arrays of one shape, got {field.shape}"
            )
        return StoredReading(dataset, field.name, tuple(s or 0 for s in field.shape), field.dtype)


class BytesDecoder(Decoder):
    """Bytes, padded with zeros to the longest."""

    kinds = ("bytes",)

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return a reading of the bytes."""
        return BytesReading(dataset, field.name, field.bound[0])


class SimpleRGBImageDecoder(Decoder):
    """Images that all have one size."""

    kinds = ("image",)

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return a reading of the images.

        Raises:
            BuildError: they do not all have one size.
        """
        if None in field.shape:
            raise BuildError(
                f"SimpleRGBImageDecoder: expected images of one size, but those of {field.name!r} "
                f"differ, up to {field.bound[0]}x{field.bound[1]}: use "
                "CenterCropRGBImageDecoder or RandomResizedCropRGBImageDecoder"
            )
        if field.encoding == "raw":
            return StoredReading(
                dataset, field.name, tuple(s or 0 for s in field.shape), field.dtype
            )
        return PipelineReading(dataset, field.name, lambda image: image, "simple")


class CenterCropRGBImageDecoder(Decoder):
    """The middle of each image: a square of `ratio` times the shorter side, resized.

    Args:
        output_size: (height, width) of the result.
        ratio: side of the square divided by the shorter side.
    """

    kinds = ("image",)

    def __init__(self, output_size: tuple[int, int], ratio: float) -> None:
        self.output_size = output_size
        self.ratio = ratio

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return a reading of the images.

        Raises:
            BuildError: the size or the ratio cannot be.
        """
        height, width = _sides(self, self.output_size)
        if not self.ratio > 0:
            raise BuildError(
                f"CenterCropRGBImageDecoder: expected a ratio above 0, got {self.ratio!r}"
            )
        short = round(max(height, width) / self.ratio)

        def middle(image: Any) -> Any:
            whole = ops.resize_short(image, size=short, max_size=min(MAX_ASPECT * short, MAX_SIDE))
            return ops.center_crop(whole, size=(height, width))

        return PipelineReading(dataset, field.name, middle, "center_crop")


class RandomResizedCropRGBImageDecoder(Decoder):
    """A random box of each image, resized.

    Args:
        output_size: (height, width) of the result.
        scale: range of the box's part of the area.
        ratio: range of its width divided by its height.
    """

    kinds = ("image",)
    draws = True

    def __init__(
        self,
        output_size: tuple[int, int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (0.75, 4 / 3),
    ) -> None:
        self.output_size = output_size
        self.scale = scale
        self.ratio = ratio

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return a reading of the images.

        Raises:
            BuildError: the size cannot be.
        """
        height, width = _sides(self, self.output_size)
        (least, most), (thin, wide) = self.scale, self.ratio

        def crop(image: Any) -> Any:
            return ops.random_resized_crop(
                image,
                size=(height, width),
                scale=(least, most),
                ratio=(thin, wide),
                stream=stream,
            )

        return PipelineReading(dataset, field.name, crop, "random_resized_crop")


def _sides(decoder: Decoder, output_size: tuple[int, int]) -> tuple[int, int]:
    try:
        height, width = map(index, output_size)
    except (TypeError, ValueError):
        height = width = 0
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise BuildError(
            f"{type(decoder).__name__}: expected output_size to be (height, width), from 1 to "
            f"{MAX_SIDE}, got {output_size!r}"
        )
    return height, width


_BY_KIND: dict[str, type[Decoder]] = {
    "image": SimpleRGBImageDecoder,
    "label": IntDecoder,
    "array": NDArrayDecoder,
    "bytes": BytesDecoder,
}


def default_decoder(field: Field) -> Decoder:
    """Return the decoder of a field without a pipeline in the loader's arguments.

    Raises:
        BuildError: its kind has no decoder.
    """
    if field.kind == "scalar":
        return IntDecoder() if np.dtype(field.dtype).kind in "iu" else FloatDecoder()
    if field.kind not in _BY_KIND:
        raise BuildError(
            f"field {field.name!r} has kind {field.kind}, which has no decoder: leave "
            f"it out with pipelines={{{field.name!r}: None}}"
        )
    return _BY_KIND[field.kind]()
