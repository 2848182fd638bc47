"""Pipelines for attacks on a daemon: an honest one, and one that takes all memory on request."""

import os

import numpy as np

from stoker import ops
from stoker.pipeline import pipeline


@pipeline
def honest(sample):
    return {"image": sample.image, "label": sample.label}


def greedy(image):
    """Take memory until the limit, for one image."""
    if int(image.sum()) == int(os.environ.get("STOKER_TEST_SUM", "-1")):
        taken = []
        while True:
            taken.append(np.ones(2**26, np.uint8))
    return image


@pipeline
def takes_all(sample):
    return {"image": ops.python(greedy, sample.image, randomness="none"), "label": sample.label}
