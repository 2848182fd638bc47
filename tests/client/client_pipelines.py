"""Pipelines for the tests with a real daemon; imported by it by name."""

from stoker import ops
from stoker.pipeline import outputs, pipeline


@pipeline
def train(sample):
    image = ops.center_crop(sample.image, size=96)
    image = ops.horizontal_flip(image, p=0.5)
    return {"image": image, "label": sample.label}


@pipeline
def train_again(sample):
    image = ops.center_crop(sample.image, size=96)
    image = ops.horizontal_flip(image, p=0.25)
    return {"image": image, "label": sample.label}


@pipeline
def numbers(sample):
    return {"number": sample.number}


@pipeline
def tensors(sample):
    return {"pixels": sample.pixels, "label": sample.label}


@pipeline
def pixels_alone(sample):
    return {"pixels": sample.pixels}


@pipeline
def padded(sample):
    return {"text": outputs.pad(sample.text), "label": sample.label}


@pipeline
def fitted(sample):
    return {"text": outputs.pad(ops.fit_length(sample.text)), "label": sample.label}
