"""FFCV's fields: how the parts of a sample are stored."""

from stoker.compat.ffcv.fields.fields import (
    BytesField,
    Field,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
    TorchTensorField,
)

__all__ = [
    "BytesField",
    "Field",
    "FloatField",
    "IntField",
    "JSONField",
    "NDArrayField",
    "RGBImageField",
    "TorchTensorField",
]
