"""Decoders: the first operation of every field's pipeline.

Pictures are decoded and resampled by Stoker's own ops, so their pixels are those of
docs/contracts/numeric.md, not OpenCV's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from stoker import ops
from stoker.compat.ffcv.pipeline.allocation_query import Allocation
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.reading import (
    BytesReading,
    PipelineReading,
    Reading,
    StoredReading,
)
from stoker.dataset import Dataset
from stoker.dataset.format.schema import Field
from stoker.ops.contract.checks import MAX_SIDE
from stoker.protocol.errors import BuildError

MAX_ASPECT: Final = 8
"""Images longer than this are centred on black by `CenterCropRGBImageDecoder`."""


class Decoder(Operation):
    """Base of decoders; a pipeline begins with exactly one.

    Class attributes:
        kinds: the kinds of fields it can read.
    """

    kinds: ClassVar[tuple[str, ...]]

    def open(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return what reads a field of a dataset.

        Args:
            dataset: the dataset.
            field: the field.
            stream: name of the stream it draws from.

        Raises:
            BuildError: it cannot read that field.
        """
        if field.kind not in self.kinds:
            raise BuildError(
                f"{type(self).__name__} reads fields of kind {' or '.join(self.kinds)}; field "
                f"{field.name!r} is of kind {field.kind}"
            )
        return self.reading(dataset, field, stream)

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return what reads a field that fits."""
        raise NotImplementedError

    def generate_code(self) -> Callable[..., Any]:
        """Refuse: a decoder reads a dataset, not a batch."""
        raise BuildError(f"{type(self).__name__} is a decoder: it stands first in a pipeline")

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Refuse: a decoder reads a dataset, not a batch."""
        raise BuildError(f"{type(self).__name__} is a decoder: it stands first in a pipeline")


class _NumberDecoder(Decoder):
    dtype: ClassVar[str]

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return what reads the numbers, each of shape (1,)."""
        return StoredReading(dataset, field.name, (1,), self.dtype)


class IntDecoder(_NumberDecoder):
    """Whole numbers, (1,) int64 each."""

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
        """Return what reads the arrays."""
        if None in field.shape:
            raise BuildError(f"field {field.name!r}: its arrays differ in shape, {field.shape}")
        return StoredReading(dataset, field.name, tuple(s or 0 for s in field.shape), field.dtype)


class BytesDecoder(Decoder):
    """Bytes, as long as the longest, zeros behind the shorter ones."""

    kinds = ("bytes",)

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return what reads the bytes."""
        return BytesReading(dataset, field.name, field.bound[0])


class SimpleRGBImageDecoder(Decoder):
    """Images of one size, as they are."""

    kinds = ("image",)

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return what reads the images.

        Raises:
            BuildError: they are not all of one size.
        """
        if None in field.shape:
            raise BuildError(
                f"SimpleRGBImageDecoder: expected images of one size, those of {field.name!r} "
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
        output_size: (height, width) that comes out.
        ratio: of the shorter side.
    """

    kinds = ("image",)

    def __init__(self, output_size: tuple[int, int], ratio: float) -> None:
        self.output_size = output_size
        self.ratio = ratio

    def reading(self, dataset: Dataset, field: Field, stream: str) -> Reading:
        """Return what reads the images."""
        height, width = self.output_size
        short = round(max(height, width) / self.ratio)

        def middle(image: Any) -> Any:
            whole = ops.resize_short(image, size=short, max_size=min(MAX_ASPECT * short, MAX_SIDE))
            return ops.center_crop(whole, size=(height, width))

        return PipelineReading(dataset, field.name, middle, "center_crop")


class RandomResizedCropRGBImageDecoder(Decoder):
    """A random box of each image, resized.

    Args:
        output_size: (height, width) that comes out.
        scale: range of the box's part of the area.
        ratio: range of its width by its height.
    """

    kinds = ("image",)

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
        """Return what reads the images."""
        (height, width), (least, most), (thin, wide) = self.output_size, self.scale, self.ratio

        def crop(image: Any) -> Any:
            return ops.random_resized_crop(
                image,
                size=(height, width),
                scale=(least, most),
                ratio=(thin, wide),
                stream=stream,
            )

        return PipelineReading(dataset, field.name, crop, "random_resized_crop")


_BY_KIND: dict[str, type[Decoder]] = {
    "image": SimpleRGBImageDecoder,
    "label": IntDecoder,
    "array": NDArrayDecoder,
    "bytes": BytesDecoder,
}


def default_decoder(field: Field) -> Decoder:
    """Return the decoder of a field for which a loader was given no pipeline.

    Raises:
        BuildError: there is none for its kind.
    """
    if field.kind == "scalar":
        return IntDecoder() if np.dtype(field.dtype).kind in "iu" else FloatDecoder()
    if field.kind not in _BY_KIND:
        raise BuildError(
            f"field {field.name!r} is of kind {field.kind}, for which there is no decoder: leave "
            f"it out with pipelines={{{field.name!r}: None}}"
        )
    return _BY_KIND[field.kind]()
