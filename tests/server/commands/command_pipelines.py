"""Pipelines for the tests of commands."""

import numpy as np

from stoker import ops
from stoker.pipeline import pipeline


@pipeline
def train(sample):
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=(48, 64))
    image, mask = ops.horizontal_flip(image, mask)
    image = ops.brightness(image) if sample.label > 0 else ops.invert(image)
    image = ops.normalize(
        image, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25), dtype="float16", layout="CHW"
    )
    return {"image": image, "mask": mask, "label": sample.label}


@pipeline
def marked(sample):
    return {"image": ops.crop_non_empty_mask(sample.image, sample.mask, size=16)[0]}


@pipeline
def dark(sample):
    image = ops.center_crop(sample.image, size=16)
    if image.mean() < 60:
        image = ops.rotate(image, degrees=3)
    return {"image": image}


def doubled(image):
    return np.minimum(image, 127) * np.uint8(2)


@pipeline
def called(sample):
    image = ops.python(doubled, ops.center_crop(sample.image, size=32), randomness="none")
    return {"image": image}


@pipeline
def scheduled(sample, ctx):
    image = ops.brightness(sample.image, factor_range=(1.0, 1.0 + ctx.progress), p=1.0)
    return {"image": ops.center_crop(image, size=16), "number": ctx.step + 0}


@pipeline
def boxed(sample):
    image, boxes, points = ops.random_crop(
        sample.image, sample.boxes, sample.keypoints, size=32, padding=4
    )
    image, boxes, points = ops.horizontal_flip(image, boxes, points)
    if sample.boxes.count > 2:
        image = ops.invert(image, p=1.0)
    boxes = ops.convert_boxes(boxes, form="cxcywh")
    return {"image": image, "boxes": boxes, "keypoints": points}


@pipeline
def around_objects(sample):
    image, boxes = ops.random_crop(sample.image, sample.boxes, size=40)
    image, boxes = ops.iou_crop(image, boxes, min_scale=0.5)
    if boxes.count > 1:
        image, boxes = ops.horizontal_flip(image, boxes, p=1.0)
    image, boxes = ops.resize(image, boxes, size=(32, 32))
    return {"image": image, "boxes": boxes}


@pipeline
def labels(sample):
    return {"label": sample.label}


@pipeline
def mixed(sample):
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=48)
    label = ops.one_hot(sample.label, classes=2)
    image, mask, label = ops.cutmix(image, mask, label, p=0.5)
    image, label = ops.mixup(image, label, alpha=4.0, p=0.7)
    return {"image": image, "mask": mask, "label": label}


@pipeline
def mixed_floats(sample):
    image = ops.normalize(ops.resize(sample.image, size=(32, 32)), layout="CHW")
    return {"image": ops.mixup(image, alpha=4.0)}


@pipeline
def mosaics(sample):
    image, boxes = ops.resize(sample.image, sample.boxes, size=(40, 50))
    image, boxes = ops.mosaic(image, boxes)
    return {"image": image, "boxes": boxes}


@pipeline
def fitted(sample):
    return {"image": ops.fit_bucket(sample.image, crop="random")}


@pipeline
def shortened(sample):
    image = ops.resize_short(sample.image, size=40, max_size=80)
    return {"image": ops.center_crop(image, size=32)}
