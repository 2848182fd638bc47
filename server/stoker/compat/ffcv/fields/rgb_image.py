"""The names in FFCV's `ffcv.fields.rgb_image`."""

from stoker.compat.ffcv.fields.decoders import (
    CenterCropRGBImageDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from stoker.compat.ffcv.fields.fields import RGBImageField

__all__ = [
    "CenterCropRGBImageDecoder",
    "RGBImageField",
    "RandomResizedCropRGBImageDecoder",
    "SimpleRGBImageDecoder",
]
