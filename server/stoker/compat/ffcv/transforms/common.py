"""The name that FFCV has in `ffcv.transforms.common`."""

from stoker.compat.ffcv.transforms.ops import Squeeze

__all__ = ["Squeeze"]
