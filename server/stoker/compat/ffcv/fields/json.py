"""The name in FFCV's `ffcv.fields.json`."""

from stoker.compat.ffcv.fields.field_types import JSONField

__all__ = ["JSONField"]
