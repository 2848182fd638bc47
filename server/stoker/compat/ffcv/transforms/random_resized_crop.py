"""The name in FFCV's `ffcv.transforms.random_resized_crop`."""

from stoker.compat.ffcv.transforms.crop import RandomResizedCrop

__all__ = ["RandomResizedCrop"]
