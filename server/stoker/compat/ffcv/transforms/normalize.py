"""The name in FFCV's `ffcv.transforms.normalize`."""

from stoker.compat.ffcv.transforms.images import NormalizeImage

__all__ = ["NormalizeImage"]
