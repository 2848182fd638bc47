"""Pipelines whose ops take a known time: some wait, some compute."""

import select
import time

from stoker import ops
from stoker.pipeline import pipeline

NAP_S = 0.01
BURN_S = 0.01


def naps(image):
    """Wait."""
    select.select([], [], [], NAP_S)
    return image


def burns(image):
    """Compute."""
    end = time.thread_time() + BURN_S
    while time.thread_time() < end:
        pass
    return image


@pipeline
def crops(sample):
    image = ops.random_resized_crop(sample.image, size=64)
    image = ops.gaussian_blur(ops.horizontal_flip(image), kernel_size=9)
    return {"image": ops.normalize(image), "label": sample.label}


@pipeline
def choices(sample):
    image = ops.random_resized_crop(sample.image, size=64)
    if sample.label > 11:
        image = ops.gaussian_blur(image, kernel_size=9)
        if sample.label > 17:
            image = ops.invert(image, p=1.0)
    else:
        image = ops.vertical_flip(image)
    return {"image": image, "label": sample.label}


def resized(size):
    """A pipeline of its own for each size."""

    @pipeline
    def resizes(sample):
        return {"image": ops.resize(sample.image, size=(size, size)), "label": sample.label}

    return resizes


@pipeline
def sleepy(sample):
    image = ops.random_resized_crop(sample.image, size=64)
    image = ops.python(naps, image, randomness="none")
    return {"image": image, "label": sample.label}


@pipeline
def busy(sample):
    image = ops.random_resized_crop(sample.image, size=64)
    image = ops.python(burns, image, randomness="none")
    return {"image": image, "label": sample.label}
