"""The name in FFCV's `ffcv.transforms.module`."""

from stoker.compat.ffcv.transforms.ops import ModuleWrapper

__all__ = ["ModuleWrapper"]
