"""W1: what training on ImageNet does to an image."""

from stoker import ops
from stoker.pipeline import pipeline


@pipeline
def w1(sample):  # type: ignore[no-untyped-def]
    """Random resized crop to 224 (antialiased, as Pillow), flip, uint8."""
    image = ops.random_resized_crop(sample.image, size=224, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    image = ops.horizontal_flip(image, p=0.5)
    return {"image": image, "label": sample.label}
