"""FFCV's transforms; for missing ones, the error names the replacement.

Names and arguments are FFCV's. Scripts and `line`, which adds `ToTensor`, import them. They must
not know the loader or datasets. `ops` imports torch.
"""

from typing import NoReturn

from stoker.compat.ffcv.pipeline.missing import missing
from stoker.compat.ffcv.synchronize import SynchronizeSeed
from stoker.compat.ffcv.transforms.colors import (
    RandomBrightness,
    RandomContrast,
    RandomSaturation,
)
from stoker.compat.ffcv.transforms.crop import RandomResizedCrop
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
from stoker.compat.ffcv.transforms.poisoning import Poison

__all__ = [
    "Convert",
    "Cutout",
    "ImageMixup",
    "LabelMixup",
    "MixupToOneHot",
    "ModuleWrapper",
    "NormalizeImage",
    "Poison",
    "RandomBrightness",
    "RandomContrast",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomSaturation",
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
    "RandomColorJitter": "stoker.ops.color_jitter in a Stoker pipeline",
    "RandomGrayscale": "stoker.ops.grayscale in a Stoker pipeline",
    "RandomSolarization": "stoker.ops.solarize in a Stoker pipeline",
    "RandomErasing": "stoker.ops.erase in a Stoker pipeline",
}


def __getattr__(name: str) -> NoReturn:
    """Raise for a transform that is missing here.

    Raises:
        ImportError: always, if it is imported; otherwise AttributeError. It names the replacement.
    """
    hint = _ELSEWHERE.get(name, "your own Operation, or see docs/guides/coming-from-ffcv.md")
    raise missing("transforms", name, f"use {hint}")
