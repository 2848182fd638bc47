"""The names in FFCV's `ffcv.fields.bytes`."""

from stoker.compat.ffcv.fields.decoders import BytesDecoder
from stoker.compat.ffcv.fields.field_types import BytesField

__all__ = ["BytesDecoder", "BytesField"]
