"""A pipeline of images of uint16; imported by daemons by name."""

from stoker import ops
from stoker.pipeline import pipeline


@pipeline
def wide(sample):
    image = ops.center_crop(sample.image, size=24)
    small = ops.center_crop(ops.resize(sample.image, size=(20, 20)), size=12)
    return {
        "image": ops.layout(image),
        "unit": ops.to_float(image),
        "mean": image.mean(),
        "small": small,
    }
