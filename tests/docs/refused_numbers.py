"""Pipelines that docs/ops.md promises to refuse: numbers of another scale, too few classes."""

import numpy as np
from refusals import refused

from stoker import ops
from stoker.dataset import schema

PAGE = "docs/ops.md"
RANGE = "If they leave 0 to 1, as in CT, these ops are refused"
TARGETS = "docs/guides/image-and-target.md"


class Tissue:
    """A live source of two slices of CT, and of the same brought to 0 to 1."""

    fields = tuple(
        schema.bounded(schema.image(name, "raw", dtype="float32", channels=1), 32, 32, fixed=True)
        for name in ("ct", "unit")
    )
    fingerprint = "tissue, version 1"

    def __len__(self):
        return 2

    def __getitem__(self, index):
        ct = np.linspace(-1000, 1200 + index, 32 * 32, dtype=np.float32).reshape(32, 32, 1)
        return {"ct": ct, "unit": (ct + 1000) / 4000}


@refused(PAGE, RANGE, "brightness expects floats from 0 to 1", "from -1000 to 1200", "ops.define")
def brighter_tissue(sample):
    return {"ct": ops.brightness(ops.center_crop(sample.ct, size=16), p=1.0)}


@refused(TARGETS, "which it would clip, such as CT", "color_jitter expects floats from 0 to 1")
def jittered_tissue(sample):
    return {"ct": ops.color_jitter(sample.ct, brightness=0.2)}


@refused(
    PAGE,
    "so are from_float, gaussian_noise, salt_and_pepper and sharpness",
    "from_float expects floats from 0 to 1",
    "-1000 to 1200",
)
def levels_of_tissue(sample):
    return {"ct": ops.from_float(sample.ct)}


@refused(PAGE, "so are from_float, gaussian_noise, salt_and_pepper and sharpness", "gaussian_noise")
def noise_on_tissue(sample):
    ct = ops.horizontal_flip(sample.ct) if sample.label else sample.ct
    return {"ct": ops.gaussian_noise(ct, p=1.0)}


@refused(
    PAGE, "as in `mean=(123.7, 116.3, 103.5)`, are on the scale of levels", "divide both by 255"
)
def mean_of_levels(sample):
    image = ops.normalize(sample.image, mean=(123.7, 116.3, 103.5), std=(58.4, 57.1, 57.4))
    return {"image": image}


@refused(
    PAGE, "as in `mean=(123.7, 116.3, 103.5)`, are on the scale of levels", "divide both by 255"
)
def mean_of_levels_after_to_float(sample):
    return {"image": ops.normalize(ops.to_float(sample.image), mean=127.5, std=127.5)}


@refused(
    PAGE,
    "so are those of 0 to 1 for stored floats that reach beyond 16",
    "normalize: mean=(0.5,)",
    "-1000 to 1200",
)
def mean_of_other_floats(sample):
    return {"ct": ops.normalize(sample.ct, mean=0.5, std=0.25, layout="CHW")}


@refused(PAGE, "Fewer classes than a label or mask has names", "4 classes (cat, dog, eel, ...)")
def three_of_four_classes(sample):
    return {"image": sample.image, "label": ops.one_hot(sample.label, classes=3)}


@refused(
    PAGE, "or than the greatest number of a packed label needs", "numbers up to 10", "classes=11"
)
def ten_for_labels_from_one(sample):
    return {"image": sample.image, "grade": ops.one_hot(sample.grade, classes=10)}


@refused(
    PAGE, "A fill below 0 or above 1 is refused for an image that is known to have", "fill=(255,)"
)
def level_as_fill_of_floats(sample):
    return {"image": ops.pad(ops.to_float(sample.image), padding=2, fill=255)}
