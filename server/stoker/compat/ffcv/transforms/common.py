"""The name in FFCV's `ffcv.transforms.common`."""

from stoker.compat.ffcv.transforms.ops import Squeeze

__all__ = ["Squeeze"]
