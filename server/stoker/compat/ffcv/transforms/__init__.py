"""FFCV's transforms; for missing ones, the error names the replacement."""

from typing import NoReturn

from stoker.compat.ffcv.synchronize import SynchronizeSeed
from stoker.compat.ffcv.transforms.images import (
    Cutout,
    NormalizeImage,
    RandomHorizontalFlip,
    RandomTranslate,
    ReplaceLabel,
)
from stoker.compat.ffcv.transforms.mixup import ImageMixup, LabelMixup, MixupToOneHot
from stoker.compat.ffcv.transforms.ops import (
    Convert,
    ModuleWrapper,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
    View,
)

__all__ = [
    "Convert",
    "Cutout",
    "ImageMixup",
    "LabelMixup",
    "MixupToOneHot",
    "ModuleWrapper",
    "NormalizeImage",
    "RandomHorizontalFlip",
    "RandomTranslate",
    "ReplaceLabel",
    "Squeeze",
    "SynchronizeSeed",
    "ToDevice",
    "ToTensor",
    "ToTorchImage",
    "View",
]

_ELSEWHERE = {
    "RandomResizedCrop": "RandomResizedCropRGBImageDecoder as decoder",
    "RandomBrightness": "stoker.ops.brightness in a Stoker pipeline",
    "RandomContrast": "stoker.ops.contrast in a Stoker pipeline",
    "RandomSaturation": "stoker.ops.saturation in a Stoker pipeline",
    "RandomColorJitter": "stoker.ops.color_jitter in a Stoker pipeline",
    "RandomGrayscale": "stoker.ops.grayscale in a Stoker pipeline",
    "RandomSolarization": "stoker.ops.solarize in a Stoker pipeline",
    "RandomErasing": "stoker.ops.erase in a Stoker pipeline",
}


def __getattr__(name: str) -> NoReturn:
    """Raise for a transform that is missing here.

    Raises:
        AttributeError: always; it names the replacement.
    """
    hint = _ELSEWHERE.get(name, "your own Operation, or see docs/guides/coming-from-ffcv.md")
    raise AttributeError(f"stoker.compat.ffcv.transforms has no {name}; use {hint}")
