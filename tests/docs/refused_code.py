"""Custom ops and Python functions of users that write-your-own-op.md promises to refuse."""

import itertools

import numpy as np
from refusals import refused
from refused_data import IMAGE

from stoker import ops
from stoker.ops import define
from stoker.pipeline import pipeline

PAGE = "docs/guides/write-your-own-op.md"
GENERATOR = "No function of an op may name `random` or `numpy.random`"
FORWARD = "Without `forward`, boxes and keypoints are refused"
TRIAL = "The function is refused, with its name and your line"
COUNT = itertools.count()
NOISE = np.random.default_rng(3)


@define()
def speckle(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        dst[y] = src[y] + np.random.randint(0, 256)


@define()
def copied(src, dst, params, record, scratch):
    dst[...] = src


def fails(image):
    raise RuntimeError("there is no such shade")


def doubles(image):
    return np.concatenate([image, image])


def counts(image):
    image[0, 0, 0] = next(COUNT) % 256
    return image


def adds_noise(image):
    return image ^ NOISE.integers(0, 256, image.shape, np.uint8)


def fails_later(image):
    """Takes the noise of the trial, and no sample."""
    if image.shape == (32, 32, 3) and image[:4].tobytes() == IMAGE[:4].tobytes():
        raise ValueError("such an image is not good enough")
    return image


@pipeline
def fails_on_samples(sample):
    return {"image": ops.python(fails_later, sample.image, randomness="none")}


@pipeline
def reaches_beyond(sample):
    return {"number": sample.numbers[sample.grade * 4, 0, 0]}


@refused(PAGE, GENERATOR, "speckle", "speckle uses numpy.random, so a row would depend")
def names_a_generator(sample):
    return {"image": speckle()(sample.image)}


@refused(PAGE, FORWARD, "copied has no rule for boxes")
def boxes_without_forward(sample):
    image, boxes = copied()(sample.image, sample.boxes)
    return {"image": image, "boxes": boxes}


@refused(PAGE, FORWARD, "copied has no rule for keypoints")
def keypoints_without_forward(sample):
    image, points = copied()(sample.image, sample.points)
    return {"image": image, "points": points}


@refused(PAGE, TRIAL, "refused_code:fails", "RuntimeError: there is no such shade")
def of_a_function_that_raises(sample):
    return {"image": ops.python(fails, sample.image, randomness="none")}


@refused(PAGE, TRIAL, "refused_code:doubles", "(64, 32, 3), expected", "(32, 32, 3)")
def of_a_function_of_another_form(sample):
    return {"image": ops.python(doubles, sample.image, randomness="none")}


@refused(PAGE, TRIAL, "refused_code:counts", "it gave two results for one row")
def of_a_function_that_keeps_state(sample):
    return {"image": ops.python(counts, sample.image, randomness="none")}


@refused(PAGE, TRIAL, "refused_code:adds_noise", "it gave two results for one row")
def of_a_function_with_a_generator(sample):
    return {"image": ops.python(adds_noise, sample.image, randomness="none")}
