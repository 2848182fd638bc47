"""The names in FFCV's `ffcv.fields.basics`."""

from stoker.compat.ffcv.fields.decoders import FloatDecoder, IntDecoder
from stoker.compat.ffcv.fields.fields import FloatField, IntField

__all__ = ["FloatDecoder", "FloatField", "IntDecoder", "IntField"]
