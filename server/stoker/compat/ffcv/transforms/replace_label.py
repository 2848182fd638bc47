"""The name in FFCV's `ffcv.transforms.replace_label`."""

from stoker.compat.ffcv.transforms.images import ReplaceLabel

__all__ = ["ReplaceLabel"]
