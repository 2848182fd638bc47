"""Python functions as a user puts them into a pipeline: good ones, and ones that break the law.

The functions that draw from global generators stand here on purpose.
"""

import itertools
import random
import sys

import numpy as np

from stoker import ops
from stoker.pipeline import pipeline

SOURCE = np.random.default_rng()
COUNT = itertools.count()


def jitter(image, rng):
    shift = rng.integers(-20, 21, image.shape[-1])
    return np.clip(image.astype(np.int64) + shift, 0, 255).astype(np.uint8)


def roll(array, rng):
    return np.roll(array, int(rng.integers(array.shape[0])), axis=0)


def negative(image):
    image ^= 255  # what a function is given is its own
    return image


def thumbnail(image):
    return image[:8, :12].mean(axis=2, keepdims=True).astype(np.float32)


def noisy(image):
    add = np.random.randint(0, 30, image.shape) + random.randrange(10)
    return np.clip(image + add, 0, 255).astype(np.uint8)


def own_generator(image):
    return np.clip(image + SOURCE.integers(0, 9, image.shape), 0, 255).astype(np.uint8)


def counting(image):
    image[0, 0, 0] = next(COUNT) % 256
    return image


def grown(image, rng):
    return np.concatenate([image, image])


def fails_on_bright(image):
    if image.mean() > 200:
        raise ValueError("too bright")
    return image


def upside_down(image):
    return image[::-1]


def column_major(image):
    return np.asfortranarray(image)


def every_second(image):
    return np.repeat(image, 2, axis=1)[:, ::2]


def read_only(image):
    return np.broadcast_to(image[:1], image.shape)


def as_lists(image):
    return image.astype(object)


def big_endian(image):
    return image.astype(">u2")


def as_float(image):
    return image / 255


def as_text(image):
    return "image"


def nothing(image):
    return None


def leaves(image):
    if image.mean() > 200:
        raise SystemExit(3)
    return image


def fails(image, rng):
    raise RuntimeError("no")


def leaves_at_once(image, rng):
    sys.exit("enough")


def interrupts_on_bright(image):
    if image.mean() > 200:
        raise KeyboardInterrupt("stop")
    return image


NOT_A_FUNCTION = 3


@pipeline
def noisy_corners(sample):
    image = ops.center_crop(sample.image, size=16)
    image = ops.python(jitter, image)
    return {"image": ops.python("custom_functions:noisy", image, randomness="global")}


CALLS = []


def flip_both(image, mask, rng):
    """One decision for two arrays, of which only the image gets brighter."""
    CALLS.append(image.shape)
    add = int(rng.integers(1, 60))
    if rng.random() < 0.5:
        image, mask = image[:, ::-1], mask[:, ::-1]
    return np.clip(image.astype(int) + add, 0, 255).astype(np.uint8), mask


def where_bright(image, mask, weights):
    """The result of each depends on the others."""
    bright = image.mean(axis=2, keepdims=True).astype(np.float32)
    return bright, np.where(bright[..., 0] > 100, mask, 0).astype(np.uint8), weights * mask.max()


def only_one(image, mask, rng):
    return image


def too_few(image, mask, weights):
    return image, mask


def forgets(image, mask):
    mask[0, 0] = next(COUNT) % 256
    return image, mask


def fails_on_dark(image, mask):
    if image.mean() < 9:
        raise ValueError("too dark")
    return image, mask


def forgets_nothing(image, mask):
    return image, mask
