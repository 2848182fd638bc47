"""FFCV's fields: how the parts of a sample are stored, and the decoders that read them.

Names and arguments are FFCV's. Scripts, the loader and the writer import them. They must not know
transforms.
"""

from stoker.compat.ffcv.fields.field_types import (
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
