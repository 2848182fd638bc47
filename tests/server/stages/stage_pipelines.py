"""Pipelines whose ops take a known time: some wait, some compute."""

import os
import select
import time

import numpy as np

from stoker import ops
from stoker.dataset import schema
from stoker.ops import define
from stoker.pipeline import pipeline

NAP_S = 0.01
BURN_S = 0.01


class Slow:
    """A live source that waits for each sample."""

    fields = (
        schema.bounded(schema.image(encoding="raw"), 64, 64, fixed=True),
        schema.label(classes=("all",)),
    )
    fingerprint = "slow, version 1"

    def __len__(self):
        return 24

    def __getitem__(self, index):
        select.select([], [], [], NAP_S)
        return {"image": np.full((64, 64, 3), index, np.uint8), "label": 0}


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


def waits(image):
    """Wait for a byte of a pipe, for one image."""
    if int(image.sum()) == int(os.environ["STOKER_TEST_HANG"]):
        pipe = os.open(os.environ["STOKER_TEST_PIPE"], os.O_RDONLY)
        os.read(pipe, 1)
        os.close(pipe)
    return image


@define()
def spins(src, dst, params, record, scratch):
    """Never end, in compiled code."""
    dst[...] = src
    while dst.shape[0] > 0:
        dst[0, 0, 0] = np.uint8(dst[0, 0, 0] + np.uint8(1))


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
def plain(sample):
    return {"image": sample.image, "label": sample.label}


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


@pipeline
def stuck(sample):
    image = sample.image
    if sample.label == 3:
        image = ops.python(waits, image, randomness="none")
    image = ops.random_resized_crop(image, size=64)
    return {"image": image, "label": sample.label}


@pipeline
def spinning(sample):
    return {"image": spins()(sample.image), "label": sample.label}
