"""The name in FFCV's `ffcv.transforms.translate`."""

from stoker.compat.ffcv.transforms.images import RandomTranslate

__all__ = ["RandomTranslate"]
