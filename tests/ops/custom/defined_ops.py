"""Ops out of one function, as a user would write them."""

import numpy as np

from stoker.jit import kernel
from stoker.ops import define, horizontal_flip, random_crop
from stoker.pipeline import pipeline
from stoker.rng.draws import integers, uniform_range


@kernel
def towards_white(level, haze):
    return np.uint8(level + (((np.int32(255) - level) * haze) >> np.int32(8)))


@define(most=128, least=0)
def fog(src, dst, params, record, scratch):
    """Levels move toward white."""
    haze = np.int32(record["haze"])
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            for c in range(src.shape[2]):
                dst[y, x, c] = towards_white(np.int32(src[y, x, c]), haze)


@fog.draws(haze=int, weight=float, sunny=bool)
def decide(key, params, height, width, record):
    record["haze"] = params["least"] + integers(key, 0, params["most"] - params["least"] + 1)
    record["weight"] = uniform_range(key, 1, 0.0, 1.0)
    record["sunny"] = record["haze"] == 0


@define(version=3, upside=True)
def turn_over(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        dst[y] = src[src.shape[0] - 1 - y] if params["upside"] else src[y]


@turn_over.rule("mask")
def turn_mask(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        dst[y] = src[src.shape[0] - 1 - y] if params["upside"] else src[y]


@turn_over.rule("forward")
def where_it_goes(params, record, sizes):
    if params["upside"]:
        return 1.0, 0.0, 0.0, 0.0, -1.0, float(sizes[0]), 0.0, 0.0, 1.0
    return 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0


@define(kind="array")
def doubled(src, dst, params, record, scratch):
    for i in range(src.size):
        dst[i] = src[i] + src[i]


@define()
def wrong(src, dst, params, record, scratch):
    dst[0] = params["absent"]


@pipeline
def foggy(sample):
    image = random_crop(sample.image, size=20)
    image = fog(most=200)(image)
    image = turn_over()(image)
    return {"image": horizontal_flip(image), "label": sample.label}
