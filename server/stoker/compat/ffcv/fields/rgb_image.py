"""The names in FFCV's `ffcv.fields.rgb_image`."""

from stoker.compat.ffcv.fields.decoders import (
    CenterCropRGBImageDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from stoker.compat.ffcv.fields.field_types import RGBImageField

__all__ = [
    "CenterCropRGBImageDecoder",
    "RGBImageField",
    "RandomResizedCropRGBImageDecoder",
    "SimpleRGBImageDecoder",
]
