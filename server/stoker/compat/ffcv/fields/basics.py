"""The names in FFCV's `ffcv.fields.basics`."""

from stoker.compat.ffcv.fields.decoders import FloatDecoder, IntDecoder
from stoker.compat.ffcv.fields.field_types import FloatField, IntField
from stoker.compat.ffcv.pipeline.operation import Operation

__all__ = ["FloatDecoder", "FloatField", "IntDecoder", "IntField", "Operation"]
