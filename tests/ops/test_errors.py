"""Every message of ops, once, as a user sees it: a table of call, error, message.

In a message, " ... " separates its parts.
"""

import dataclasses
import inspect

import numpy as np
import pytest

from stoker import ops
from stoker.ops import Op, ParameterError, State, StateError, lookup, make, register
from stoker.ops.contract.frozen import FrozenOpError
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError, UnknownNameError, UsageError
from stoker.protocol.item_fields import ItemField

IMAGE = State("image", "uint8", (None, None, 3), (400, 500, 3))
MASK = State("mask", "uint8", (None, None), (400, 500))
WIDE, HIGH = State.fixed("image", "uint8", (8, 9, 3)), State.fixed("mask", "uint8", (9, 8))
LABEL = State.fixed("label", "int64", ())
BOXES = State.ragged("boxes", (ItemField("xyxy", "float32", 4),), 3, "image")
RELATIVE = State.ragged("boxes", (ItemField("relative_xyxy", "float32", 4),), 3)
SAMPLE = {
    "image": np.zeros((40, 50, 3), np.uint8),
    "mask": np.zeros((40, 50), np.uint8),
    "small": np.zeros((30, 50), np.uint8),
    "points": {"xy": np.ones((2, 2), np.float32), "keypoint": np.arange(2, dtype=np.uint8)},
    "words": np.zeros(30, np.int32),
}


def image(channels, dtype="uint8"):
    return State.fixed("image", dtype, (8, 8, channels))


def array(*shape, dtype="float32"):
    return State.fixed("array", dtype, shape)


def made(output, **given):
    """Run a pipeline with one output in process."""
    kinds = {"points": "keypoints"}
    return pipeline(lambda sample: {"out": output(sample)})(SAMPLE, kinds=kinds, **given)


ERRORS = [
    (lambda: ops.Affine(0, translate=(0.2, 0.1, 0, 0)), ParameterError,
     "affine: expected translate to be"),
    (lambda: ops.Affine(0, translate=(-2, 0, 0, 0)), ParameterError,
     "affine: expected translate to be"),
    (lambda: ops.Affine(0, translate=(0, 0, 0)), ParameterError,
     "affine: expected translate to be"),
    (lambda: ops.Affine(1, mask_fill=-1).declare((MASK,)), StateError,
     "affine: expected mask_fill from 0 to 255"),
    (lambda: ops.Affine(1, fill=(1, 2)).declare((IMAGE,)), StateError,
     "affine: expected fill to be one level or one"),
    (lambda: made(lambda s: ops.brightness(s.image, 0.4)), BuildError,
     "got a field, float; give parameters by name: factor_range, p"),
    (lambda: ops.CenterCrop((3, 4, 5)), ParameterError,
     "center_crop: expected size to be an integer, or (height, width), from 1 to 65535, got (3, "
     "4, 5)"),
    (lambda: ops.CenterCrop(8, fill=(1, 2)).declare((IMAGE,)), StateError,
     "center_crop: expected fill to be one level or one for each channel of image "
     "uint8[<=400x<=500x3], got 2 levels (1, 2)"),
    (lambda: ops.Clahe(tiles=65), ParameterError,
     "clahe: expected tiles to be an integer, or (rows, columns), from 1 to 64, got 65"),
    (lambda: ops.ColorJitter(hue=0.6), ParameterError,
     "color_jitter: expected hue to be a number from 0 to 0.5, got 0.6"),
    (lambda: ops.ColorJitter(brightness=True), ParameterError,
     "color_jitter: expected brightness to be a number from 0 to 16, got True"),
    (lambda: ops.ColorJitter().declare((IMAGE, MASK)), StateError,
     "color_jitter has no rule for a mask; it has rules for: image. Leave the mask out of this "
     "call"),
    (lambda: ops.ColorJitter().declare((State.fixed("image", "uint8", (8, 8, 4)),)), StateError,
     "color_jitter has no rule for image uint8[8x8x4]: expected an image of 1 (gray) or 3 "
     "channels (red, green, blue). Drop the other channels first"),
    (lambda: ops.CropNonEmptyMask(0), ParameterError, "crop_non_empty_mask: expected size"),
    (lambda: ops.CropNonEmptyMask(8, ignore="0"), ParameterError,
     "crop_non_empty_mask: expected ignore to be a class number"),
    (lambda: ops.CropNonEmptyMask(8, ignore=(0, 1.5)), ParameterError,
     "crop_non_empty_mask: expected ignore to be a class number"),
    (lambda: ops.CropNonEmptyMask(8, ignore=None), ParameterError,
     "crop_non_empty_mask: expected ignore to be a class number"),
    (lambda: ops.CropNonEmptyMask(8, ignore=2**31), ParameterError,
     "crop_non_empty_mask: expected ignore to be a class number"),
    (lambda: ops.CropNonEmptyMask(8, ignore=tuple(range(33))), ParameterError,
     "crop_non_empty_mask: expected ignore ... or at most 32 of them"),
    (lambda: ops.CropNonEmptyMask(8, mask_fill=2**31), ParameterError,
     "crop_non_empty_mask: expected mask_fill"),
    (lambda: made(lambda s: ops.crop_non_empty_mask(s.image, size=8)), BuildError,
     "crop_non_empty_mask decides from a mask: call it with an image or mask first, and with a "
     "mask, as in crop_non_empty_mask(image, mask); got image uint8"),
    (lambda: made(lambda s: ops.crop_non_empty_mask(s.image, s.small, size=8)[0]), BuildError,
     "must have one height and width"),
    (lambda: made(lambda s: ops.crop_non_empty_mask(s.image, s.mask, size=8, ignore=-1)[0]),
     BuildError,
     "expected ignore to be classes from 0 to 255 for mask ... , got -1: no pixel can have it"),
    (lambda: ops.Cutmix(-1.0), ParameterError,
     "cutmix: expected alpha to be a number from 1e-06 to 1e+06"),
    (lambda: ops.Cutmix(p=float("nan")), ParameterError,
     "cutmix: expected p to be a number from 0 to 1"),
    (lambda: ops.Cutmix().mixed(LABEL), StateError, "ops.one_hot(label, classes=...)"),
    (lambda: ops.Cutmix().mixed(array(2, 3, 4, 5)), StateError,
     "cutmix has no rule for array float32[2x3x4x5]: expected pixels, in two or three sides. "),
    (lambda: ops.Cutmix().mixed(IMAGE), StateError, "values of one size"),
    (lambda: ops.Cutmix().mixed(BOXES), StateError, "a pasted box may hide any part of an object"),
    (lambda: ops.downscale(None, interpolation_pair={}), TypeError, "interpolation_pair"),
    (lambda: ops.Elastic((2, 16), 32), ParameterError,
     "elastic: expected amount_range to be (low, high) with low <= high, from 0 to 15.36, got "
     "(2, 16)"),
    (lambda: ops.Equalize().declare((State.fixed("image", "float32", (8, 8, 3)),)), StateError,
     "equalize has no rule for image float32[8x8x3]: expected an image of shape (H, W, C), "
     "dtype uint8 and 1 to 16 channels. Call equalize before the image is converted, or call "
     "from_float before it, or before what contains it (as rand_augment)"),
    (lambda: ops.Erase(mask_fill=256).declare((State.fixed("mask", "uint8", (8, 8)),)), StateError,
     "erase: expected mask_fill from 0 to 255 for mask uint8[8x8], got 256"),
    (lambda: ops.FitBucket().params(), ParameterError, "known only in a pipeline; give size="),
    (lambda: ops.FitBucket((5, 5), crop="left"), ParameterError, "fit_bucket: expected crop to be"),
    (lambda: made(lambda s: ops.fit_bucket(s.image), bucket=8), BuildError,
     "bucket_height, bucket_width, but the buckets are of len"),
    (lambda: ops.FitLength().params(), ParameterError,
     "without a length it takes that of the sample's bucket, which is"),
    (lambda: ops.FitLength(5, "middle"), ParameterError, "expected keep"),
    (lambda: ops.FitLength(0), ParameterError, "expected length"),
    (lambda: ops.FitLength(5).declare((State("array", "int32", (None, None), (9, 9)),)), StateError,
     "fit_length has no rule for ... : expected a sequence"),
    (lambda: ops.FitLength(5).declare((MASK,)), StateError, "fit_length has no rule for a mask"),
    (lambda: made(lambda s: ops.fit_length(s.words)), BuildError, "there are no buckets"),
    (lambda: made(lambda s: ops.fit_length(s.words), bucket=(8, 8)), BuildError,
     "reads bucket_length, but the buckets are of sizes: use"),
    (lambda: made(lambda s: ops.fit_length(s.words), bucket=0), UsageError,
     "bucket: expected (width, height) in pixels, or a len"),
    (lambda: ops.GaussianNoise((1, 129)), ParameterError,
     "gaussian_noise: expected sigma_range to be (low, high) with low <= high, from 0 to 128, "
     "got (1, 129)"),
    (lambda: ops.Grayscale().declare((image(4),)), StateError,
     "grayscale has no rule for image uint8[8x8x4]: expected an image of 1 (gray) or 3 channels "
     "(red, green, blue). Drop the other channels first"),
    (lambda: ops.HorizontalFlip(2), ParameterError,
     "horizontal_flip: expected p to be a number from 0 to 1, got 2"),
    (lambda: ops.HorizontalFlip(float("nan")), ParameterError,
     "horizontal_flip: expected p to be a number from 0 to 1, got nan"),
    (lambda: ops.HorizontalFlip().declare((State.fixed("label", "int64", ()),)), StateError,
     "horizontal_flip has no rule for a label; it has rules for: boxes, flow, image, keypoints, "
     "mask, normals. Leave the label out of this call"),
    (lambda: ops.HorizontalFlip().declare((WIDE, HIGH)), StateError,
     "horizontal_flip: expected values of one size in a call, got image uint8[8x9x3] and mask "
     "uint8[9x8]. If that is intended, call the op with relative=True; or resize one of them "
     "first"),
    (lambda: ops.HorizontalFlip(1.0).declare((image(17),)), StateError, "1 to 16 channels"),
    (lambda: delattr(ops.HorizontalFlip(), "p"), FrozenOpError,
     "cannot be deleted: make another op"),
    (lambda: ops.horizontal_flip(3, p=0.5), BuildError,
     "horizontal_flip: expected fields of a sample inside a function decorated with @pipeline, "
     "got int; give parameters by name: p"),
    (lambda: made(lambda s: ops.horizontal_flip(s.points, s.image, swap="coco")[1]), BuildError,
     "swap_keypoints has no rule for an image"),
    (lambda: ops.IsoNoise().declare((image(3, "float32"),)), StateError,
     "iso_noise has ... call from_float before it"),
    (lambda: ops.IsoNoise().declare((image(4),)), StateError,
     "iso_noise has no rule for image uint8[8x8x4]"),
    (lambda: ops.Layout("HWC").declare((IMAGE,)), StateError,
     "expected an array in CHW. An image is in HWC already"),
    (lambda: ops.Layout().declare((array(8, 9),)), StateError, "expected three sides"),
    (lambda: ops.MedianBlur((3, 17)), ParameterError, "integers with 1 <= low <= high <= 15, got"),
    (lambda: ops.Mixup(0), ParameterError,
     "mixup: expected alpha to be a number from 1e-06 to 1e+06, got 0"),
    (lambda: ops.Mixup(p=1.5), ParameterError,
     "mixup: expected p to be a number from 0 to 1, got 1.5"),
    (lambda: ops.Mixup().mixed(LABEL), StateError, "ops.one_hot(label, classes=...)"),
    (lambda: ops.Mixup().mixed(MASK), StateError, "mixup has no rule for a mask"),
    (lambda: ops.Mixup().mixed(array(30, 44, dtype="int64")), StateError,
     "Class numbers have no mean"),
    (lambda: ops.Mixup().mixed(array(10, dtype="uint8")), StateError,
     "ops.one_hot(label, classes=...)"),
    (lambda: ops.Mixup().mixed(IMAGE), StateError, "values of one size. Resize or crop it first"),
    (lambda: ops.Mosaic((0.8, 0.2)), ParameterError,
     "mosaic: expected center_range to be (low, high)"),
    (lambda: ops.Mosaic(p=2), ParameterError, "mosaic: expected p to be a number from 0 to 1"),
    (lambda: ops.Mosaic().mixed(LABEL), StateError,
     "one label or number cannot describe four images"),
    (lambda: ops.Mosaic().mixed(array(5)), StateError,
     "one label or number cannot describe four images"),
    (lambda: ops.Mosaic().mixed(IMAGE), StateError, "values of one size"),
    (lambda: ops.Mosaic().mixed(State.fixed("bytes", "uint8", (9,))), StateError,
     "mosaic has no rule for a bytes"),
    (lambda: ops.Mosaic().mixed(RELATIVE), StateError,
     "mosaic: expected boxes as xyxy, got relative_xyxy"),
    (lambda: ops.Normalize(mean="x"), ParameterError,
     "normalize: expected mean to be a number, or one for each of at most 16 channels, got 'x'"),
    (lambda: ops.Normalize(std=0), ParameterError,
     "normalize: expected std to be a positive number, or one for each of at most 16 channels, "
     "got 0"),
    (lambda: ops.Normalize(dtype="float64"), ParameterError,
     "normalize: expected dtype to be one of float32, float16, got 'float64'"),
    (lambda: ops.Normalize(layout="NCHW"), ParameterError,
     "normalize: expected layout to be one of HWC, CHW, got 'NCHW'"),
    (lambda: ops.Normalize().declare((MASK,)), StateError,
     "normalize has no rule for a mask; it has rules for: image. Leave the mask out of this call"),
    (lambda: ops.Normalize(mean=(1.0, 2.0)).declare((IMAGE,)), StateError,
     "normalize: expected mean to be one number, or one for each channel of image "
     "uint8[<=400x<=500x3], got 2 numbers (1.0, 2.0)"),
    (lambda: ops.OneHot(5).declare((State.fixed("scalar", "float64", ()),)), StateError,
     "expected integers"),
    (lambda: ops.Pad(2, fill=-32769), ParameterError, "fill to be ... -32768 to 32767"),
    (lambda: ops.Pad(1, fill=0.5).declare((IMAGE,)), StateError,
     "pad: expected fill to be integers from 0 to 255"),
    (lambda: ops.Pad(2, fill=-5).declare((IMAGE,)), StateError,
     "pad: expected fill to be integers from 0 to 255 ... got (-5"),
    (lambda: ops.Pad(2, fill=0.5).declare((image(1, "int16"),)), StateError,
     "fill to be ... -32768 to 32767"),
    (lambda: ops.Pad(2, fill=40000).declare((image(1, "int16"),)), StateError,
     "fill to be ... -32768 to 32767"),
    (lambda: ops.Posterize(9), ParameterError,
     "posterize: expected bits to be an integer from 0 to 8, got 9"),
    (lambda: ops.RandomCrop(9, padding=-1), ParameterError,
     "random_crop: expected padding to be an integer, or (height, width), from 0 to 65535, got "
     "-1"),
    (lambda: ops.RandomCrop(9, fill=65536), ParameterError,
     "random_crop: expected fill to be an integer from 0 to 255 (65535 for images of uint16, "
     "-32768 to 32767 for int16), or a float for images of floats, or one for each channel, got "
     "65536"),
    (lambda: ops.RandomCrop(9, mask_fill=0.5), ParameterError,
     "random_crop: expected mask_fill to be an integer from -2147483648 to 2147483647, got 0.5"),
    (lambda: ops.RandomCrop(8, mask_fill=-1).declare((MASK,)), StateError,
     "random_crop: expected mask_fill from 0 to 255 for mask uint8[<=400x<=500], got -1"),
    (lambda: ops.RandomResizedCrop(9, scale=(1, 0.5)), ParameterError,
     "random_resized_crop: expected scale to be (low, high) with low <= high, above 0 and at "
     "most 1, got (1, 0.5)"),
    (lambda: ops.RandomResizedCrop(9, ratio=(0, 1)), ParameterError,
     "random_resized_crop: expected ratio to be (low, high) with low <= high, above 1.52588e-05 "
     "and at most 65535, got (0, 1)"),
    (lambda: ops.random_resized_crop(size=9, decode="half"), ParameterError,
     "random_resized_crop: expected decode to be one of exact, scaled, got 'half'"),
    (lambda: ops.resize(size=(9, 9), decode=True), ParameterError,
     "resize: expected decode to be one of exact, scaled, got True"),
    (lambda: setattr(ops.RandomResizedCrop(8), "scales", (0.5, 1.0)), FrozenOpError,
     "did you mean 'scale'? an op has its parameters al"),
    (lambda: ops.Resize((0, 0)), ParameterError,
     "resize: expected size to be (height, width), from 1 to 65535, got (0, 0)"),
    (lambda: ops.Resize((5, 5), "lanczos3"), ParameterError,
     "resize: expected interpolation to be one of nearest, bilinear, bicubic, lanczos, area, "
     "got 'lanczos3'"),
    (lambda: ops.Resize((8, 8)).declare((State("mask", "int64", (None, None), (8, 8)),)),
     StateError,
     "resize has no rule for mask int64[<=8x<=8]: expected a mask of shape (H, W) and dtype "
     "uint8, uint16, int32. Store class numbers in one of these"),
    (lambda: ops.resize(size=(3, 3)), BuildError, "got nothing"),
    (lambda: ops.Rotate(1, mask_fill=-1).declare((MASK,)), StateError,
     "rotate: expected mask_fill from 0 to 255"),
    (lambda: ops.Rotate(1, fill=(1, 2)).declare((IMAGE,)), StateError,
     "rotate: expected fill to be one level or one"),
    (lambda: ops.Rotate(1, fill=(-0.25, 0.5, 7.5)).declare((IMAGE,)), StateError,
     "rotate: expected fill to be integers from 0 to 255"),
    (lambda: ops.RotateExpand(9, "cubic"), ParameterError,
     "rotate_expand: expected interpolation to be one of nearest, bilinear, got 'cubic'"),
    (lambda: ops.RotateExpand((9, 3)), ParameterError, "rotate_expand: expected degrees"),
    (lambda: ops.SafeRotate(400), ParameterError, "safe_rotate: expected degrees"),
    (lambda: ops.SafeRotate(10, "cubic"), ParameterError, "safe_rotate: expected interpolation"),
    (lambda: ops.ShotNoise().declare((image(3, "float32"),)), StateError,
     "shot_noise has ... call from_float before it"),
    (lambda: ops.Solarize(257), ParameterError,
     "solarize: expected threshold to be an integer from 0 to 256, got 257"),
    (lambda: made(lambda s: ops.swap_keypoints(s.image, pairs="coco")), BuildError,
     "swap_keypoints"),
    (lambda: ops.ToFloat().declare((image(1, "int16"),)), StateError,
     "instead, because int16 has no white to divide by"),
    (lambda: ops.ToGray().declare((image(5),)), StateError,
     "to_gray has no rule for image uint8[8x8x5]: expe"),
    (lambda: ops.ToRgb().declare((image(5),)), StateError,
     "to_rgb has no rule for image uint8[8x8x5]: expe"),
    (lambda: ops.ZoomOut((1, 16)).declare((State.fixed("image", "uint8", (5000, 10, 3)),)),
     StateError, "expected a canvas with sides up to 65535, not 80000x160"),
    (lambda: lookup("horizontal_flop"), UnknownNameError,
     "there is no op 'horizontal_flop'; did you mean 'horizontal_flip'?"),
    (lambda: lookup("x"), UnknownNameError, "there is no op 'x'; there are: affine, "),
    (lambda: make("resize", {"width": 5}), ParameterError,
     "resize: got an unexpected keyword argument 'width'; its parameters are: size, interpolation"),
    (lambda: register(type("Copy", (ops.HorizontalFlip,), {})), ValueError,
     "op 'horizontal_flip' is registered twice: ... ; rename one"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[row[-1][:60] for row in ERRORS])
def test_errors(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert all(part in str(caught.value) for part in message.split(" ... ")), str(caught.value)


@pytest.mark.parametrize("given", [b"a", bytearray(b"ab"), memoryview(b"abc"), np.bytes_(b"a")])
def test_bytes_are_no_numbers(given):
    for op, name in (
        (lambda: ops.CenterCrop(8, fill=given), "center_crop: expected fill"),
        (lambda: ops.Normalize(mean=given), "normalize: expected mean"),
        (lambda: ops.Rotate(degrees=given), "rotate: expected degrees"),
    ):
        with pytest.raises(ParameterError, match=f"{name} to be numbers or text, got "):
            op()


def test_registered_by_a_user_before_the_op_is_used(python):
    code = """
        from stoker import ops
        try:
            ops.register(type("Defocus", (ops.Op,), {"__module__": "mine"}))
        except ValueError as error:
            print(error)
    """
    assert "op 'defocus' is registered twice: stoker.ops.filters.defocus and " in python(code)


def test_every_functional_form_has_the_parameters_of_its_op(examples):
    for name, choices in examples.items():
        form = getattr(ops, name)
        cls: type[Op] = lookup(name)
        parameters = inspect.signature(form).parameters
        fields = {f.name: f.default for f in dataclasses.fields(cls)}
        some = ["relative"] if {"image", "mask"} & set(cls.kinds()) else []
        other = ["expand"] if name == "rotate" else []  # chooses between two ops
        scaled = ("random_resized_crop", "resize", "resize_long", "resize_short")
        other += ["decode"] if name in scaled else []  # chooses between two ops
        other += ["swap"] if cls.mirrors else []  # short for swap_keypoints after it
        assert list(parameters) == ["values", *fields, *other, "stream", *some]
        for parameter, default in fields.items():
            given = parameters[parameter].default
            empty = given is inspect.Parameter.empty
            assert empty == (default is dataclasses.MISSING)
            assert empty or given == default
        assert choices
