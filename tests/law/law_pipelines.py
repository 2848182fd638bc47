"""Pipelines of the Law test, served by name: every feature adds one."""

from stoker import ops
from stoker.pipeline import pipeline


@pipeline
def crops(sample):
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=48, scale=(0.2, 1.0))
    image, mask = ops.horizontal_flip(image, mask, p=0.5)
    return {"image": image, "mask": mask, "label": sample.label}


@pipeline
def training(sample):
    image, mask = ops.random_resized_crop(
        sample.image, sample.mask, size=(40, 56), interpolation="bicubic"
    )
    image, mask = ops.horizontal_flip(image, mask)
    image = ops.color_jitter(image, brightness=0.3, contrast=0.3, saturation=0.2)
    image = ops.normalize(
        image,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        dtype="float16",
        layout="CHW",
    )
    return {"image": image, "mask": mask, "label": sample.label}


@pipeline
def padded(sample):
    image, mask = ops.resize(sample.image, sample.mask, size=40)
    image, mask = ops.random_crop(image, mask, size=32, padding=4)
    return {"image": image, "mask": mask}


@pipeline
def evaluation(sample):
    image, mask = ops.resize(sample.image, sample.mask, size=64)
    image, mask = ops.center_crop(image, mask, size=48)
    image = ops.normalize(image, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    return {"image": image, "mask": mask, "label": sample.label}
