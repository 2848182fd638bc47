"""The name in FFCV's `ffcv.fields.json`."""

from stoker.compat.ffcv.fields.fields import JSONField

__all__ = ["JSONField"]
