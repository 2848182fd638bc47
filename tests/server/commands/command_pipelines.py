"""Pipelines for the tests of commands."""

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
def labels(sample):
    return {"label": sample.label}
