"""Ops: the transforms that pipelines consist of.

Pipelines use the lower-case names (`image, mask = ops.horizontal_flip(image, mask, p=0.5)`);
the classes hold the parameters, for use as instances (`flip = ops.HorizontalFlip(0.5)`). Importing
this package registers all of its ops and imports no numba. Written by tools/op_lists.py.
"""

from typing import TYPE_CHECKING

from stoker.jit import kernel
from stoker.ops.bases.crop_numbers import crop_numbers
from stoker.ops.color.autocontrast import Autocontrast, autocontrast
from stoker.ops.color.brightness import Brightness, brightness
from stoker.ops.color.brightness_contrast import BrightnessContrast, brightness_contrast
from stoker.ops.color.channel_drop import ChannelDrop, channel_drop
from stoker.ops.color.channel_shuffle import ChannelShuffle, channel_shuffle
from stoker.ops.color.clahe import Clahe, clahe
from stoker.ops.color.color_jitter import ColorJitter, color_jitter
from stoker.ops.color.contrast import Contrast, contrast
from stoker.ops.color.equalize import Equalize, equalize
from stoker.ops.color.gamma import Gamma, gamma
from stoker.ops.color.grayscale import Grayscale, grayscale
from stoker.ops.color.hsv_to_rgb import HsvToRgb, hsv_to_rgb
from stoker.ops.color.hue import Hue, hue
from stoker.ops.color.invert import Invert, invert
from stoker.ops.color.posterize import Posterize, posterize
from stoker.ops.color.rgb_shift import RgbShift, rgb_shift
from stoker.ops.color.rgb_to_hsv import RgbToHsv, rgb_to_hsv
from stoker.ops.color.rgb_to_ycbcr import RgbToYcbcr, rgb_to_ycbcr
from stoker.ops.color.saturation import Saturation, saturation
from stoker.ops.color.solarize import Solarize, solarize
from stoker.ops.color.to_gray import ToGray, to_gray
from stoker.ops.color.to_rgb import ToRgb, to_rgb
from stoker.ops.color.ycbcr_to_rgb import YcbcrToRgb, ycbcr_to_rgb
from stoker.ops.contract.drawn import drawn
from stoker.ops.contract.elsewhere import missing_message
from stoker.ops.contract.forms import FoldKernel, ItemsKernel, Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import at, lookup, make, register, register_earlier, registered
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.states import ParameterError, State, StateError
from stoker.ops.contract.unlinked import unlinked
from stoker.ops.custom.define import define
from stoker.ops.custom.python import python
from stoker.ops.custom.python_call import PythonCall
from stoker.ops.custom.python_together import PythonTogether
from stoker.ops.filters.box_blur import BoxBlur, box_blur
from stoker.ops.filters.coarse_dropout import CoarseDropout, coarse_dropout
from stoker.ops.filters.defocus import Defocus, defocus
from stoker.ops.filters.downscale import Downscale, downscale
from stoker.ops.filters.erase import Erase, erase
from stoker.ops.filters.gaussian_blur import GaussianBlur, gaussian_blur
from stoker.ops.filters.gaussian_noise import GaussianNoise, gaussian_noise
from stoker.ops.filters.grid_mask import GridMask, grid_mask
from stoker.ops.filters.iso_noise import IsoNoise, iso_noise
from stoker.ops.filters.jpeg_compression import JpegCompression, jpeg_compression
from stoker.ops.filters.median_blur import MedianBlur, median_blur
from stoker.ops.filters.motion_blur import MotionBlur, motion_blur
from stoker.ops.filters.salt_and_pepper import SaltAndPepper, salt_and_pepper
from stoker.ops.filters.sharpness import Sharpness, sharpness
from stoker.ops.filters.shot_noise import ShotNoise, shot_noise
from stoker.ops.geometry.affine import Affine, affine
from stoker.ops.geometry.bbox_safe_random_crop import BboxSafeRandomCrop, bbox_safe_random_crop
from stoker.ops.geometry.center_crop import CenterCrop, center_crop
from stoker.ops.geometry.corner_crop import CornerCrop, corner_crop
from stoker.ops.geometry.crop import Crop, crop
from stoker.ops.geometry.crop_around_box import CropAroundBox, crop_around_box
from stoker.ops.geometry.crop_non_empty_mask import CropNonEmptyMask, crop_non_empty_mask
from stoker.ops.geometry.elastic import Elastic, elastic
from stoker.ops.geometry.fit_bucket import FitBucket, fit_bucket
from stoker.ops.geometry.five_crop import five_crop, ten_crop
from stoker.ops.geometry.grid_distortion import GridDistortion, grid_distortion
from stoker.ops.geometry.horizontal_flip import HorizontalFlip, horizontal_flip
from stoker.ops.geometry.iou_crop import IouCrop, iou_crop
from stoker.ops.geometry.letterbox import Letterbox, letterbox
from stoker.ops.geometry.mirror import Mirror, mirror
from stoker.ops.geometry.optical_distortion import OpticalDistortion, optical_distortion
from stoker.ops.geometry.pad import Pad, pad
from stoker.ops.geometry.pad_to_size import PadToSize, pad_to_size
from stoker.ops.geometry.perspective import Perspective, perspective
from stoker.ops.geometry.random_crop import RandomCrop, random_crop
from stoker.ops.geometry.random_resized_crop import RandomResizedCrop, random_resized_crop
from stoker.ops.geometry.random_short_side_scale import (
    RandomShortSideScale,
    random_short_side_scale,
)
from stoker.ops.geometry.resize import Resize, resize
from stoker.ops.geometry.resize_long import ResizeLong, resize_long
from stoker.ops.geometry.resize_short import ResizeShort, resize_short
from stoker.ops.geometry.rot90 import Rot90, rot90
from stoker.ops.geometry.rotate import Rotate, rotate
from stoker.ops.geometry.rotate_expand import RotateExpand, rotate_expand
from stoker.ops.geometry.safe_rotate import SafeRotate, safe_rotate
from stoker.ops.geometry.scale_jitter import ScaleJitter, scale_jitter
from stoker.ops.geometry.transpose import Transpose, transpose
from stoker.ops.geometry.vertical_flip import VerticalFlip, vertical_flip
from stoker.ops.geometry.zoom_out import ZoomOut, zoom_out
from stoker.ops.mixes.augmix_transform import AugmixTransform, augmix_transform
from stoker.ops.mixes.blend import Blend, blend
from stoker.ops.mixes.copy_paste import CopyPaste, copy_paste
from stoker.ops.mixes.cutmix import Cutmix, cutmix
from stoker.ops.mixes.mixup import Mixup, mixup
from stoker.ops.mixes.mosaic import Mosaic, mosaic
from stoker.ops.mixes.mosaic_scaled import MosaicScaled, mosaic_scaled
from stoker.ops.mixes.random_blend import RandomBlend, random_blend
from stoker.ops.mixes.stack import Stack, stack
from stoker.ops.values.cast import Cast, cast
from stoker.ops.values.choices import Chance, Integer, OneOf, SomeOf, Uniform, WeightedSomeOf
from stoker.ops.values.clip import Clip, clip
from stoker.ops.values.convert_boxes import ConvertBoxes, convert_boxes
from stoker.ops.values.convert_keypoints import ConvertKeypoints, convert_keypoints
from stoker.ops.values.filter_boxes import FilterBoxes, filter_boxes
from stoker.ops.values.fit_length import FitLength, fit_length
from stoker.ops.values.from_float import FromFloat, from_float
from stoker.ops.values.layout import Layout, layout
from stoker.ops.values.normalize import Normalize, normalize
from stoker.ops.values.one_hot import OneHot, one_hot
from stoker.ops.values.swap_keypoints import SwapKeypoints, swap_keypoints
from stoker.ops.values.to_float import ToFloat, to_float
from stoker.ops.values.track_visible import TrackVisible, track_visible
from stoker.ops.values.window import Window, window
from stoker.rng import draws

__all__ = [
    "Affine",
    "AugmixTransform",
    "Autocontrast",
    "BboxSafeRandomCrop",
    "Blend",
    "BoxBlur",
    "Brightness",
    "BrightnessContrast",
    "Cast",
    "CenterCrop",
    "Chance",
    "ChannelDrop",
    "ChannelShuffle",
    "Clahe",
    "Clip",
    "CoarseDropout",
    "ColorJitter",
    "Contrast",
    "ConvertBoxes",
    "ConvertKeypoints",
    "CopyPaste",
    "CornerCrop",
    "Crop",
    "CropAroundBox",
    "CropNonEmptyMask",
    "Cutmix",
    "Defocus",
    "Downscale",
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
    "IsoNoise",
    "ItemsKernel",
    "JpegCompression",
    "Kernel",
    "Layout",
    "Letterbox",
    "MedianBlur",
    "Mirror",
    "Mixup",
    "Mosaic",
    "MosaicScaled",
    "MotionBlur",
    "Normalize",
    "OneHot",
    "OneOf",
    "Op",
    "OpticalDistortion",
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
    "RgbShift",
    "RgbToHsv",
    "RgbToYcbcr",
    "Rot90",
    "Rotate",
    "RotateExpand",
    "SafeRotate",
    "SaltAndPepper",
    "Saturation",
    "ScaleJitter",
    "Sharpness",
    "ShotNoise",
    "Solarize",
    "SomeOf",
    "Stack",
    "State",
    "StateError",
    "SwapKeypoints",
    "ToFloat",
    "ToGray",
    "ToRgb",
    "TrackVisible",
    "Transpose",
    "Uniform",
    "Value",
    "VerticalFlip",
    "WeightedSomeOf",
    "Window",
    "YcbcrToRgb",
    "ZoomOut",
    "affine",
    "at",
    "augmix_transform",
    "autocontrast",
    "bbox_safe_random_crop",
    "blend",
    "box_blur",
    "brightness",
    "brightness_contrast",
    "cast",
    "center_crop",
    "channel_drop",
    "channel_shuffle",
    "clahe",
    "clip",
    "coarse_dropout",
    "color_jitter",
    "contrast",
    "convert_boxes",
    "convert_keypoints",
    "copy_paste",
    "corner_crop",
    "crop",
    "crop_around_box",
    "crop_non_empty_mask",
    "crop_numbers",
    "cutmix",
    "define",
    "defocus",
    "downscale",
    "drawn",
    "draws",
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
    "iso_noise",
    "jpeg_compression",
    "keep_record",
    "kernel",
    "layout",
    "letterbox",
    "lookup",
    "make",
    "median_blur",
    "mirror",
    "mixup",
    "mosaic",
    "mosaic_scaled",
    "motion_blur",
    "normalize",
    "one_hot",
    "optical_distortion",
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
    "rgb_shift",
    "rgb_to_hsv",
    "rgb_to_ycbcr",
    "rot90",
    "rotate",
    "rotate_expand",
    "safe_rotate",
    "salt_and_pepper",
    "saturation",
    "scale_jitter",
    "sharpness",
    "shot_noise",
    "solarize",
    "stack",
    "swap_keypoints",
    "ten_crop",
    "to_float",
    "to_gray",
    "to_rgb",
    "track_visible",
    "transpose",
    "unlinked",
    "vertical_flip",
    "window",
    "ycbcr_to_rgb",
    "zoom_out",
]


if not TYPE_CHECKING:  # a type checker would take every name for an op

    def __getattr__(name: str) -> object:
        """Name the nearest op in the error for one that does not exist."""
        raise AttributeError(missing_message(name, __all__))
