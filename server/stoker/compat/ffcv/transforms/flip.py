"""The name in FFCV's `ffcv.transforms.flip`."""

from stoker.compat.ffcv.transforms.images import RandomHorizontalFlip

__all__ = ["RandomHorizontalFlip"]
