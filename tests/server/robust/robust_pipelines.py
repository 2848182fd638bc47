"""Pipelines for the daemon's tests: one that is fine, and some that hang on request."""

import select

from stoker import ops
from stoker.pipeline import pipeline


@pipeline
def labels(sample):
    return {"label": sample.label}


def sleeping(image):
    """Sleep."""
    select.select([], [], [], 3600)
    return image


def slow(image):
    """Take a moment."""
    select.select([], [], [], 0.2)
    return image


@pipeline
def huge(sample):
    large = ops.resize(sample.image, size=(20000, 20000))
    return {"image": ops.resize(ops.horizontal_flip(large), size=(8, 8)), "label": sample.label}


def looping(image):
    """Never end."""
    while True:
        image = image + 1


@pipeline
def sleeps(sample):
    return {"image": ops.python(sleeping, sample.image, randomness="none")}


@pipeline
def loops(sample):
    return {"image": ops.python(looping, sample.image, randomness="none")}


@pipeline
def slowly(sample):
    return {"image": ops.python(slow, sample.image, randomness="none"), "label": sample.label}
