"""The names in FFCV's `ffcv.fields.ndarray`."""

from stoker.compat.ffcv.fields.decoders import NDArrayDecoder
from stoker.compat.ffcv.fields.field_types import NDArrayField, TorchTensorField

__all__ = ["NDArrayDecoder", "NDArrayField", "TorchTensorField"]
