"""Ops: the transforms that pipelines are made of.

Lower-case names are written in pipelines (`image, mask = ops.horizontal_flip(image, mask, p=0.5)`);
the classes hold the parameters, for use as instances (`flip = ops.HorizontalFlip(0.5)`). Importing
this package registers all of its ops and imports no numba.
"""

from stoker.ops.center_crop import CenterCrop, center_crop
from stoker.ops.color_jitter import ColorJitter, color_jitter
from stoker.ops.contract import Kernel, Op, ParameterError, State, StateError, Value
from stoker.ops.gamma import Gamma, gamma
from stoker.ops.grayscale import Grayscale, grayscale
from stoker.ops.horizontal_flip import HorizontalFlip, horizontal_flip
from stoker.ops.invert import Invert, invert
from stoker.ops.normalize import Normalize, normalize
from stoker.ops.pad import Pad, pad
from stoker.ops.posterize import Posterize, posterize
from stoker.ops.random_crop import RandomCrop, random_crop
from stoker.ops.random_resized_crop import RandomResizedCrop, random_resized_crop
from stoker.ops.registry import lookup, make, register, registered
from stoker.ops.resize import Resize, resize
from stoker.ops.rot90 import Rot90, rot90
from stoker.ops.solarize import Solarize, solarize
from stoker.ops.transpose import Transpose, transpose
from stoker.ops.vertical_flip import VerticalFlip, vertical_flip

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Gamma",
    "Grayscale",
    "HorizontalFlip",
    "Invert",
    "Kernel",
    "Normalize",
    "Op",
    "Pad",
    "ParameterError",
    "Posterize",
    "RandomCrop",
    "RandomResizedCrop",
    "Resize",
    "Rot90",
    "Solarize",
    "State",
    "StateError",
    "Transpose",
    "Value",
    "VerticalFlip",
    "center_crop",
    "color_jitter",
    "gamma",
    "grayscale",
    "horizontal_flip",
    "invert",
    "lookup",
    "make",
    "normalize",
    "pad",
    "posterize",
    "random_crop",
    "random_resized_crop",
    "register",
    "registered",
    "resize",
    "rot90",
    "solarize",
    "transpose",
    "vertical_flip",
]
