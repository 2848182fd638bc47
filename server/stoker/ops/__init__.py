"""Ops: the transforms that pipelines are made of.

Lower-case names are written in pipelines (`image, mask = ops.horizontal_flip(image, mask, p=0.5)`);
the classes hold the parameters, for use as instances (`flip = ops.HorizontalFlip(0.5)`). Importing
this package registers all of its ops and imports no numba.
"""

from stoker.ops.affine import Affine, affine
from stoker.ops.augmix_transform import AugmixTransform, augmix_transform
from stoker.ops.autocontrast import Autocontrast, autocontrast
from stoker.ops.blend import Blend, blend
from stoker.ops.box_blur import BoxBlur, box_blur
from stoker.ops.brightness import Brightness, brightness
from stoker.ops.cast import Cast, cast
from stoker.ops.center_crop import CenterCrop, center_crop
from stoker.ops.channel_drop import ChannelDrop, channel_drop
from stoker.ops.channel_shuffle import ChannelShuffle, channel_shuffle
from stoker.ops.choices import Chance, Integer, OneOf, SomeOf, Uniform
from stoker.ops.clahe import Clahe, clahe
from stoker.ops.color_jitter import ColorJitter, color_jitter
from stoker.ops.contract import (
    FoldKernel,
    ItemsKernel,
    Kernel,
    Op,
    ParameterError,
    State,
    StateError,
    Value,
)
from stoker.ops.contrast import Contrast, contrast
from stoker.ops.convert_boxes import ConvertBoxes, convert_boxes
from stoker.ops.corner_crop import CornerCrop, corner_crop
from stoker.ops.crop_numbers import crop_numbers
from stoker.ops.cutmix import Cutmix, cutmix
from stoker.ops.define import define
from stoker.ops.elastic import Elastic, elastic
from stoker.ops.equalize import Equalize, equalize
from stoker.ops.erase import Erase, erase
from stoker.ops.filter_boxes import FilterBoxes, filter_boxes
from stoker.ops.fit_bucket import FitBucket, fit_bucket
from stoker.ops.fit_length import FitLength, fit_length
from stoker.ops.five_crop import five_crop, ten_crop
from stoker.ops.from_float import FromFloat, from_float
from stoker.ops.gamma import Gamma, gamma
from stoker.ops.gaussian_blur import GaussianBlur, gaussian_blur
from stoker.ops.gaussian_noise import GaussianNoise, gaussian_noise
from stoker.ops.grayscale import Grayscale, grayscale
from stoker.ops.grid_distortion import GridDistortion, grid_distortion
from stoker.ops.grid_mask import GridMask, grid_mask
from stoker.ops.horizontal_flip import HorizontalFlip, horizontal_flip
from stoker.ops.hsv_to_rgb import HsvToRgb, hsv_to_rgb
from stoker.ops.hue import Hue, hue
from stoker.ops.invert import Invert, invert
from stoker.ops.iou_crop import IouCrop, iou_crop
from stoker.ops.jpeg_compression import JpegCompression, jpeg_compression
from stoker.ops.layout import Layout, layout
from stoker.ops.letterbox import Letterbox, letterbox
from stoker.ops.median_blur import MedianBlur, median_blur
from stoker.ops.mirror import Mirror, mirror
from stoker.ops.mixup import Mixup, mixup
from stoker.ops.mosaic import Mosaic, mosaic
from stoker.ops.motion_blur import MotionBlur, motion_blur
from stoker.ops.normalize import Normalize, normalize
from stoker.ops.one_hot import OneHot, one_hot
from stoker.ops.pad import Pad, pad
from stoker.ops.pad_to_size import PadToSize, pad_to_size
from stoker.ops.perspective import Perspective, perspective
from stoker.ops.posterize import Posterize, posterize
from stoker.ops.python import python
from stoker.ops.python_call import PythonCall
from stoker.ops.python_together import PythonTogether
from stoker.ops.random_blend import RandomBlend, random_blend
from stoker.ops.random_crop import RandomCrop, random_crop
from stoker.ops.random_resized_crop import RandomResizedCrop, random_resized_crop
from stoker.ops.random_short_side_scale import RandomShortSideScale, random_short_side_scale
from stoker.ops.registry import at, lookup, make, register, register_earlier, registered
from stoker.ops.resize import Resize, resize
from stoker.ops.resize_long import ResizeLong, resize_long
from stoker.ops.resize_short import ResizeShort, resize_short
from stoker.ops.rgb_to_hsv import RgbToHsv, rgb_to_hsv
from stoker.ops.rgb_to_ycbcr import RgbToYcbcr, rgb_to_ycbcr
from stoker.ops.rot90 import Rot90, rot90
from stoker.ops.rotate import Rotate, rotate
from stoker.ops.salt_and_pepper import SaltAndPepper, salt_and_pepper
from stoker.ops.saturation import Saturation, saturation
from stoker.ops.sharpness import Sharpness, sharpness
from stoker.ops.solarize import Solarize, solarize
from stoker.ops.stack import Stack, stack
from stoker.ops.to_float import ToFloat, to_float
from stoker.ops.to_gray import ToGray, to_gray
from stoker.ops.to_rgb import ToRgb, to_rgb
from stoker.ops.track_visible import TrackVisible, track_visible
from stoker.ops.transpose import Transpose, transpose
from stoker.ops.vertical_flip import VerticalFlip, vertical_flip
from stoker.ops.ycbcr_to_rgb import YcbcrToRgb, ycbcr_to_rgb
from stoker.ops.zoom_out import ZoomOut, zoom_out

__all__ = [
    "Affine",
    "AugmixTransform",
    "Autocontrast",
    "Blend",
    "BoxBlur",
    "Brightness",
    "Cast",
    "CenterCrop",
    "Chance",
    "ChannelDrop",
    "ChannelShuffle",
    "Clahe",
    "ColorJitter",
    "Contrast",
    "ConvertBoxes",
    "CornerCrop",
    "Cutmix",
    "Elastic",
    "Equalize",
    "Erase",
    "FilterBoxes",
    "FitBucket",
    "FitLength",
    "FoldKernel",
    "FromFloat",
    "Gamma",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "GridDistortion",
    "GridMask",
    "HorizontalFlip",
    "HsvToRgb",
    "Hue",
    "Integer",
    "Invert",
    "IouCrop",
    "ItemsKernel",
    "JpegCompression",
    "Kernel",
    "Layout",
    "Letterbox",
    "MedianBlur",
    "Mirror",
    "Mixup",
    "Mosaic",
    "MotionBlur",
    "Normalize",
    "OneHot",
    "OneOf",
    "Op",
    "Pad",
    "PadToSize",
    "ParameterError",
    "Perspective",
    "Posterize",
    "PythonCall",
    "PythonTogether",
    "RandomBlend",
    "RandomCrop",
    "RandomResizedCrop",
    "RandomShortSideScale",
    "Resize",
    "ResizeLong",
    "ResizeShort",
    "RgbToHsv",
    "RgbToYcbcr",
    "Rot90",
    "Rotate",
    "SaltAndPepper",
    "Saturation",
    "Sharpness",
    "Solarize",
    "SomeOf",
    "Stack",
    "State",
    "StateError",
    "ToFloat",
    "ToGray",
    "ToRgb",
    "TrackVisible",
    "Transpose",
    "Uniform",
    "Value",
    "VerticalFlip",
    "YcbcrToRgb",
    "ZoomOut",
    "affine",
    "at",
    "augmix_transform",
    "autocontrast",
    "blend",
    "box_blur",
    "brightness",
    "cast",
    "center_crop",
    "channel_drop",
    "channel_shuffle",
    "clahe",
    "color_jitter",
    "contrast",
    "convert_boxes",
    "corner_crop",
    "crop_numbers",
    "cutmix",
    "define",
    "elastic",
    "equalize",
    "erase",
    "filter_boxes",
    "fit_bucket",
    "fit_length",
    "five_crop",
    "from_float",
    "gamma",
    "gaussian_blur",
    "gaussian_noise",
    "grayscale",
    "grid_distortion",
    "grid_mask",
    "horizontal_flip",
    "hsv_to_rgb",
    "hue",
    "invert",
    "iou_crop",
    "jpeg_compression",
    "layout",
    "letterbox",
    "lookup",
    "make",
    "median_blur",
    "mirror",
    "mixup",
    "mosaic",
    "motion_blur",
    "normalize",
    "one_hot",
    "pad",
    "pad_to_size",
    "perspective",
    "posterize",
    "python",
    "random_blend",
    "random_crop",
    "random_resized_crop",
    "random_short_side_scale",
    "register",
    "register_earlier",
    "registered",
    "resize",
    "resize_long",
    "resize_short",
    "rgb_to_hsv",
    "rgb_to_ycbcr",
    "rot90",
    "rotate",
    "salt_and_pepper",
    "saturation",
    "sharpness",
    "solarize",
    "stack",
    "ten_crop",
    "to_float",
    "to_gray",
    "to_rgb",
    "track_visible",
    "transpose",
    "vertical_flip",
    "ycbcr_to_rgb",
    "zoom_out",
]
