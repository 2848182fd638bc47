"""Pipelines of test_promises.py: each shows one promise in the pixels that a Loader delivers."""

from stoker import ops
from stoker.pipeline import outputs, pipeline, shared_views


@pipeline
def targets(sample):
    values = (sample.image, sample.mask, sample.boxes, sample.keypoints)
    values = ops.random_crop(*values, size=(40, 48), padding=6)
    values = ops.transpose(*ops.horizontal_flip(*values))
    image, mask, boxes, points = ops.pad_to_size(*values, size=48)
    return {"image": image, "mask": mask, "boxes": boxes, "points": points}


@pipeline
def turned(sample):
    image, mask = ops.rotate(sample.image, sample.mask, degrees=40, interpolation="nearest")
    image, mask = ops.random_resized_crop(image, mask, size=32, interpolation="nearest")
    return {"image": image, "mask": mask}


@pipeline
def smooth(sample):
    image, mask = ops.rotate(sample.image, sample.mask, degrees=40)
    image, mask = ops.random_resized_crop(image, mask, size=32)
    return {"image": image, "mask": mask}


@pipeline
def views(sample):
    with shared_views():
        image = ops.random_crop(sample.image, size=32)
    return {"shared": image, "own": ops.horizontal_flip(image)}


@pipeline
def scheduled(sample, ctx):
    image = ops.center_crop(sample.image, size=8)
    return {"image": ops.solarize(image, threshold=0, p=ctx.epoch / 2), "number": ctx.step + 0}


@pipeline
def chosen(sample):
    image = ops.center_crop(sample.image, size=8)
    if sample.label == 1:
        image = ops.invert(image, p=1.0)
    return {"image": image, "label": sample.label}


@pipeline
def cut(sample):
    image, mask = ops.random_crop(sample.image, sample.mask, size=40)
    image, mask = ops.cutmix(image, mask, p=1.0)
    return {"image": image, "mask": mask}


@pipeline
def padded(sample):
    return {"words": outputs.pad(sample.words, fill=255)}
