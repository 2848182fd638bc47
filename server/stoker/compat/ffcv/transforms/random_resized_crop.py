"""The name in FFCV's `ffcv.transforms.random_resized_crop`."""

from stoker.compat.ffcv.transforms.array_crop import RandomResizedCrop

__all__ = ["RandomResizedCrop"]
