"""The name in FFCV's `ffcv.transforms.cutout`."""

from stoker.compat.ffcv.transforms.images import Cutout

__all__ = ["Cutout"]
