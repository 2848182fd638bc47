"""Pipelines of the Law test, served by name: every feature adds one."""

import numpy as np

from stoker import ops
from stoker.pipeline import (
    augmix,
    one_of,
    outputs,
    pipeline,
    random_apply,
    sample_frames,
    some_of,
)


@pipeline
def crops(sample):
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=48, scale=(0.2, 1.0))
    image, mask = ops.horizontal_flip(image, mask, p=0.5)
    return {"image": image, "mask": mask, "label": sample.label}


@pipeline
def training(sample):
    image, mask = ops.random_resized_crop(
        sample.image, sample.mask, size=(40, 56), interpolation="bicubic"
    )
    image, mask = ops.horizontal_flip(image, mask)
    image = ops.color_jitter(image, brightness=0.3, contrast=0.3, saturation=0.2)
    image = ops.normalize(
        image,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        dtype="float16",
        layout="CHW",
    )
    return {"image": image, "mask": mask, "label": sample.label}


@pipeline
def large(sample):
    """Much memory for each row, and little work."""
    return {"image": ops.resize(sample.image, size=(1024, 1024), interpolation="nearest")}


@pipeline
def padded(sample):
    image, mask = ops.resize(sample.image, sample.mask, size=(40, 40))
    image, mask = ops.random_crop(image, mask, size=32, padding=4)
    return {"image": image, "mask": mask}


@pipeline
def evaluation(sample):
    image, mask = ops.resize(sample.image, sample.mask, size=(64, 64))
    image, mask = ops.center_crop(image, mask, size=48)
    image = ops.normalize(image, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    return {"image": image, "mask": mask, "label": sample.label}


@pipeline
def scheduled(sample, ctx):
    """Parameters and conditions that follow the place in the stream or the row, and choices."""
    most = 10 if ctx.epoch < 1 else 10 + 40 * ctx.progress
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=48)
    turn = ops.Rotate((-most, most))
    image, mask = one_of(image, mask, choices={"flip": ops.HorizontalFlip(1.0), "turn": turn})
    image = random_apply(image, apply=ops.Invert(1.0), p=ctx.progress)
    if ctx.id % 4 == 0 or (ctx.step % 2 == 1 and ctx.progress > 0.25):
        image = some_of(image, choices=[ops.Grayscale(1.0), ops.Solarize(p=1.0)], n=(0, 2))
    weight = ctx.uniform(0.0, 2.0) if ctx.chance(0.5) else 1.0
    image = ops.rgb_shift(image, red_range=9 * weight, p=0.5)
    return {"image": image, "mask": mask, "weight": weight * ctx.progress, "number": ctx.step}


@pipeline
def fitted(sample, ctx):
    """Outputs of the size of the sample's bucket."""
    image, mask = ops.fit_bucket(sample.image, sample.mask, crop="random")
    numbers = ops.crop_numbers(sample.image, image)
    image, mask = ops.horizontal_flip(image, mask, p=0.5)
    if ctx.bucket_width > ctx.bucket_height:
        image = ops.brightness(image, factor_range=(0.5, 0.9))
    image = ops.normalize(image, dtype="float16", layout="CHW")
    return {"image": image, "mask": mask, "seen": ctx.progress + sample.label, **numbers}


@pipeline
def fitted_mixed(sample):
    """Batch ops inside of a bucket: partners and tiles have its size."""
    image, mask = ops.fit_bucket(sample.image, sample.mask, crop="random")
    label = ops.one_hot(sample.label, classes=2)
    image, mask = ops.mosaic(image, mask, p=0.5)
    image, mask, label = ops.cutmix(image, mask, label, p=0.6)
    image, label = ops.mixup(image, label, p=0.6)
    return {"image": image, "mask": mask, "label": label}


@pipeline
def fitted_forms(sample):
    """Outputs of the bucket's size next to padded ones, whose size every batch has."""
    image = ops.fit_bucket(sample.image)
    scaled, mask = ops.random_short_side_scale(
        sample.image, sample.mask, sizes=(16, 32), max_size=48
    )
    return {
        "image": image,
        "scaled": outputs.pad(scaled, multiple=4, fill=9),
        "mask": outputs.as_list(mask),
        "words": outputs.pad(sample.words, fill=-1),
        "boxes": ops.unlinked(sample.boxes),
    }


@pipeline
def sentences(sample, ctx):
    """Sequences in buckets of their lengths, in every form."""
    words = ops.fit_length(sample.words, keep="random")
    return {
        "words": outputs.pad(words, fill=-1),
        "bound": outputs.pad(words, multiple=3, fill=-100, to="bound"),
        "ragged": outputs.ragged(words),
        "list": outputs.as_list(words),
        "label": sample.label + ctx.bucket_length,
    }


@pipeline
def detection(sample):
    image, mask, boxes, points = ops.iou_crop(
        sample.image, sample.mask, sample.boxes, sample.keypoints
    )
    image, mask, boxes, points = ops.random_resized_crop(
        image, mask, boxes, points, size=48, scale=(0.3, 1.0)
    )
    image, mask, boxes, points = ops.horizontal_flip(image, mask, boxes, points)
    if boxes.count > 1:
        image, mask, boxes, points = ops.rot90(image, mask, boxes, points, turns=1, p=0.5)
    return {"image": image, "boxes": boxes, "mask": mask, "points": points, "label": sample.label}


@pipeline
def folded(sample):
    """One value of several: chains mixed with their image, and crops in one array."""
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=32, scale=(0.2, 1.0))
    image = augmix(image, severity=8, mixture_width=2)
    crops = ops.ten_crop(image, mask, size=(20, 24))
    return {
        "crops": ops.stack(*(crop for crop, _ in crops)),
        "masks": ops.stack(*(part for _, part in crops)),
        "label": sample.label,
    }


@pipeline
def mixed(sample):
    """Batch ops, one after the other and by choice, on images in two dtypes and layouts."""
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=48, scale=(0.2, 1.0))
    label = ops.one_hot(sample.label, classes=2)
    picture = ops.normalize(image, dtype="float16", layout="CHW")
    image, mask, picture, label = ops.cutmix(image, mask, picture, label, p=0.4)
    image, picture, label = one_of(
        image, picture, label,
        choices={"mixup": ops.Mixup(0.4), "cutmix": ops.Cutmix()},
    )  # fmt: skip
    return {"image": image, "mask": ops.unlinked(mask), "picture": picture, "label": label}


@pipeline
def mosaics(sample):
    image, mask, boxes, points = ops.random_resized_crop(
        sample.image, sample.mask, sample.boxes, sample.keypoints, size=48, scale=(0.3, 1.0)
    )
    image, mask, boxes, points = ops.mosaic(image, mask, boxes, points, p=0.7)
    image, boxes, points = random_apply(image, boxes, points, apply=ops.Mixup(8.0), p=0.5)
    return {"image": image, "boxes": boxes, "mask": mask, "points": points, "label": sample.label}


@pipeline
def pasted(sample):
    """A crop decided from the mask's pixels, and objects of another row pasted on a mosaic."""
    image, mask = ops.rotate(sample.image, sample.mask, degrees=20, expand=True)
    image, mask = ops.optical_distortion(image, mask, distort_range=(-0.2, 0.2))
    image, mask = ops.crop_non_empty_mask(image, mask, size=48)
    image, mask = ops.mosaic(image, mask, scale_range=(0.5, 1.5), p=0.5)
    image, mask = ops.copy_paste(image, mask, masks="semantic", sigma=1.0, p=0.8)
    return {"image": image, "mask": mask, "label": sample.label}


@pipeline
def varying(sample, ctx):
    """Rows of differing shape, in every form; sizes follow from draws, labels and the schedule."""
    image, mask, boxes = ops.random_short_side_scale(
        sample.image, sample.mask, sample.boxes, sizes=(24, 40), max_size=64
    )
    if sample.label == 1 and ctx.chance(0.3 + 0.5 * ctx.progress):
        image, mask, boxes = ops.random_crop(image, mask, boxes, size=(20, 28), padding=4)
    gray = ops.channel_drop(image) if ctx.step % 2 else image
    return {
        "image": outputs.pad(image, multiple=8, fill=114),
        "floats": outputs.pad(ops.normalize(image, dtype="float16")),
        "mask": outputs.as_list(mask),
        "pixels": outputs.ragged(gray),
        "boxes": boxes,
        "words": outputs.ragged(sample.words),
        "tokens": outputs.pad(sample.words, fill=-100),
        "label": sample.label,
    }


@pipeline
def floats(sample):
    """An image of floats, masks of many classes, and a photograph that becomes floats."""
    image, mask, photo = ops.random_crop(
        sample.image, sample.mask, ops.to_float(sample.photo), size=36, padding=2, fill=0.25
    )
    image, mask, photo = ops.horizontal_flip(image, mask, photo)
    image, mask, photo = ops.rot90(image, mask, photo, p=0.7)
    if photo.mean() > 0.4:
        photo = ops.color_jitter(photo, brightness=0.3, contrast=0.3, saturation=0.3, hue=0.1)
    image, mask, photo = ops.rotate(image, mask, photo, degrees=20, fill=0.25)
    image, mask, photo = ops.random_resized_crop(image, mask, photo, size=(28, 20))
    photo = ops.erase(photo, fill=(0.5, 0.25, 0.125))
    planes = ops.normalize(photo, layout="CHW", dtype="float16")
    return {"image": image, "mask": mask, "photo": planes, "levels": ops.from_float(photo)}


@pipeline
def reduced(sample):
    """A crop that is decoded at a fraction of its size, with a map of half the size."""
    image, depth = ops.random_resized_crop(
        sample.image, sample.depth, size=(24, 31), scale=(0.2, 1.0), relative=True, decode="scaled"
    )
    return {"image": ops.color_jitter(image, brightness=0.3), "depth": depth}


@pipeline
def halved(sample):
    """A map of half the size of its photograph, read by a box of its own."""
    image, depth = ops.random_resized_crop(
        sample.image, sample.depth, size=48, scale=(0.1, 0.6), relative=True
    )
    image, depth = ops.rot90(image, depth)
    whole, map_ = ops.random_short_side_scale(
        sample.image, sample.depth, sizes=(24, 40), max_size=80, relative=True
    )
    whole, map_ = ops.rotate(whole, map_, degrees=15, relative=True)
    return {
        "image": image,
        "depth": depth,
        "whole": outputs.pad(whole, multiple=8),
        "map": outputs.pad(map_, fill=9),
    }


@pipeline
def halved_windows(sample):
    image, depth = ops.random_resized_crop(
        sample.image, sample.depth, size=48, scale=(0.1, 0.6), relative=True
    )
    image, depth = ops.perspective(image, depth)
    return {"image": image, "depth": depth}


@pipeline
def windows(sample):
    """The outputs of `squares`, by other ops: for mixtures."""
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=48, scale=(0.2, 1.0))
    image = ops.color_jitter(image, brightness=0.3, contrast=0.3)
    return {"image": image, "mask": mask}


@pipeline
def squares(sample):
    """The outputs of `windows`, by other ops: for mixtures."""
    image, mask = ops.resize(sample.image, sample.mask, size=(48, 48))
    image, mask = ops.horizontal_flip(image, mask, p=0.5)
    return {"image": image, "mask": mask}


@pipeline
def ragged(sample):
    """Rows of differing shape, as long as `ragged_squares` or not: for mixtures."""
    image = ops.random_short_side_scale(sample.image, sizes=(24, 40), max_size=64)
    return {"image": outputs.pad(image, multiple=8, fill=114)}


@pipeline
def ragged_squares(sample):
    """The outputs of `ragged`, smaller, by other ops."""
    image = ops.random_short_side_scale(sample.image, sizes=(16, 20), max_size=32)
    return {"image": outputs.pad(ops.horizontal_flip(image, p=0.5), multiple=8, fill=114)}


@pipeline
def blended(sample):
    """`windows`, each mixed with two others of its batch and with samples of any dataset."""
    image = windows_ops(sample.image)
    image = ops.mosaic(image, p=0.5)
    return {"image": ops.mixup(image, p=0.7)}


@pipeline
def blended_squares(sample):
    """The outputs of `blended`, by other ops, mixed in the same way: for mixtures."""
    image = ops.resize(sample.image, size=(48, 48))
    image = ops.mosaic(ops.horizontal_flip(image, p=0.5), p=0.5)
    return {"image": ops.mixup(image, p=0.7)}


@pipeline
def clips_in_buckets(sample):
    """Three frames of a clip, of the size of its bucket."""
    sample = sample_frames(sample, frames=3, stride=2)
    image = ops.horizontal_flip(ops.fit_bucket(sample.image, crop="random"), p=0.5)
    return {"image": image, "frame": sample.frame}


@pipeline
def cropped(sample):
    """Images of the size of their bucket, mixed with others of their batch: for mixtures."""
    image = ops.fit_bucket(sample.image, crop="random")
    return {"image": ops.mixup(ops.mosaic(image, p=0.4), p=0.6)}


@pipeline
def cropped_flips(sample, ctx):
    """The outputs of `cropped`, by more ops, of which one follows a schedule."""
    image = ops.fit_bucket(sample.image)
    image = ops.brightness(image, factor_range=(0.5, 0.6 + 0.3 * ctx.progress))
    return {"image": ops.mixup(ops.mosaic(ops.horizontal_flip(image), p=0.4), p=0.6)}


@pipeline
def no_masks(sample):
    """The outputs of `blended` without its batch ops."""
    return {"image": ops.resize(sample.image, size=(48, 48))}


def refuse(image):
    if np.abs(np.diff(image.astype(int), axis=0)).mean() < 50:  # 85 in noise
        raise ValueError("expected noise, got a photograph")
    return image


@pipeline
def refusing(sample):
    """Every photograph is a bad sample."""
    image = ops.resize(sample.image, size=(48, 48))
    return {"image": ops.python(refuse, image, randomness="none")}


def windows_ops(image):
    """The ops of `windows` on an image."""
    image = ops.random_resized_crop(image, size=48, scale=(0.2, 1.0))
    return ops.color_jitter(image, brightness=0.3, contrast=0.3)


@pipeline
def clips(sample):
    """Four frames of a clip, three apart."""
    return clip_ops(sample_frames(sample, frames=4, stride=3))


def clip_ops(sample):
    """The ops for each frame."""
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=48, scale=(0.2, 1.0))
    image = ops.color_jitter(image, brightness=0.3, contrast=0.3)
    image, mask = ops.horizontal_flip(image, mask)
    return {"image": image, "mask": mask, "frame": sample.frame, "label": sample.label}


@pipeline
def clip_centers(sample):
    """The outputs of a clip for an evaluation."""
    sample = sample_frames(sample, frames=5, stride=2, start="center", short="loop")
    return {"image": ops.center_crop(sample.image, size=48), "frame": sample.frame}
