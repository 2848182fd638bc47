"""FFCV's transforms; for missing ones, the error names the replacement.

Names and arguments are FFCV's. Scripts and `line`, which adds `ToTensor`, import them. They must
not know the loader or datasets. `ops` imports torch.
"""

from stoker.compat.ffcv.missing_names import missing_names
from stoker.compat.ffcv.synchronize import SynchronizeSeed
from stoker.compat.ffcv.transforms.array_crop import RandomResizedCrop
from stoker.compat.ffcv.transforms.colors import (
    RandomBrightness,
    RandomContrast,
    RandomSaturation,
)
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

__getattr__ = missing_names(
    __name__,
    "use your own Operation, or see docs/guides/coming-from-ffcv.md",
    {
        "RandomColorJitter": "use stoker.ops.color_jitter in a Stoker pipeline",
        "RandomGrayscale": "use stoker.ops.grayscale in a Stoker pipeline",
        "RandomSolarization": "use stoker.ops.solarize in a Stoker pipeline",
        "RandomErasing": "use stoker.ops.erase in a Stoker pipeline",
    },
)
