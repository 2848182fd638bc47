"""The names in FFCV's `ffcv.transforms.color_jitter`."""

from stoker.compat.ffcv.transforms.colors import RandomBrightness, RandomContrast, RandomSaturation

__all__ = ["RandomBrightness", "RandomContrast", "RandomSaturation"]
