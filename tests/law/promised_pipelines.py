"""Pipelines of test_promises.py: each shows one promise in the pixels that a Loader delivers."""

import io
import random
import zlib

import numpy as np
from PIL import Image

from stoker import ops
from stoker.dataset import schema
from stoker.pipeline import outputs, pipeline, pipelines, shared_views, sync_seed

SAMPLES = 24
DAMAGED = (3, 11, 12)


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


@pipeline
def kept(sample):
    values = ops.bbox_safe_random_crop(sample.image, sample.mask, sample.boxes)
    image, mask, boxes = ops.pad_to_size(*values, size=64)
    return {"image": image, "mask": mask, "boxes": boxes}


@pipeline
def overlapping(sample):
    image, boxes = ops.iou_crop(sample.image, sample.boxes)
    image, boxes = ops.pad_to_size(image, boxes, size=64)
    return {"image": image, "boxes": boxes}


@pipeline
def tiled(sample):
    image, mask, boxes = ops.random_crop(sample.image, sample.mask, sample.boxes, size=(48, 56))
    image, mask, boxes = ops.mosaic(image, mask, boxes)
    return {"image": image, "mask": mask, "boxes": boxes}


@pipeline
def one_call(sample):
    image, mask = ops.horizontal_flip(sample.image, sample.mask, stream="flip")
    return {"image": image, "mask": mask}


@pipeline
def one_instance(sample):
    flip = ops.HorizontalFlip()
    image = flip(sample.image, stream="flip")
    return {"image": image, "mask": flip(sample.mask)}


@pipeline
def one_name(sample):
    image = ops.horizontal_flip(sample.image, stream="flip")
    return {"image": image, "mask": ops.horizontal_flip(sample.mask, stream="flip")}


CROP = {"size": 48, "interpolation": "nearest"}
FLIP = ops.HorizontalFlip()
synchronized = pipelines(
    {
        "image": [sync_seed("crop"), ops.RandomResizedCrop(**CROP), ops.Brightness(p=0.0),
                  sync_seed("flip"), ops.HorizontalFlip()],
        "mask": [sync_seed("crop"), ops.RandomResizedCrop(**CROP), sync_seed("flip"),
                 ops.HorizontalFlip()],
    }
)  # fmt: skip
"""FFCV #86: a seed before each transform that both lists share, and one that only one has."""
shared_instance = pipelines({"image": [ops.Brightness(p=0.0), FLIP], "mask": [FLIP]})
"""FFCV #86: one instance in both lists."""


@pipeline
def before(sample):
    image = ops.brightness(ops.horizontal_flip(sample.image), factor_range=(0.7, 1.3))
    return {"image": ops.rotate(image, degrees=30)}


@pipeline
def edited(sample):
    image = ops.contrast(ops.rotate(sample.image, degrees=30))
    return {"image": ops.horizontal_flip(ops.brightness(image, factor_range=(0.7, 1.3), p=0.0))}


@pipeline
def dots(sample):
    return {"image": ops.gaussian_noise(sample.image)}


@pipeline
def one_window(sample):
    with shared_views():
        image = ops.random_crop(sample.image, size=32)
    return {"image": ops.horizontal_flip(image)}


@pipeline
def mixed_up(sample):
    image = ops.resize(sample.image, size=(16, 16))
    label = ops.one_hot(sample.label, classes=SAMPLES)
    image, label = ops.mixup(image, label, p=1.0)
    return {"image": image, "label": label}


@pipeline
def watched(sample):
    image = ops.random_resized_crop(sample.image, size=16)
    image = ops.gaussian_noise(ops.color_jitter(ops.elastic(image), brightness=0.2, hue=0.1))
    return {"image": image, "state": sample.state + 0}


class Spoilt:
    """Images of one color each; three are no images. Their states tell of global generators."""

    fields = (
        schema.bounded(schema.image(), 20, 20), schema.label(), schema.scalar("state", "int64"),
    )  # fmt: skip
    fingerprint = "24 colors, three of them damaged"

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        file = io.BytesIO()
        Image.fromarray(np.full((20, 20, 3), 10 * index, np.uint8)).save(file, "PNG")
        image = b"no image" if index in DAMAGED else file.getvalue()
        states = repr((random.getstate(), np.random.get_state()))
        return {"image": image, "label": index, "state": zlib.crc32(states.encode())}
