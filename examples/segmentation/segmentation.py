"""The pipeline of the example: one decision for image and mask, compiled to one loop."""

from stoker import ops
from stoker.pipeline import pipeline

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


@pipeline
def train(sample):  # type: ignore[no-untyped-def]
    """Crop and flip image and mask together, jitter the colors of the image alone, normalize."""
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=128, scale=(0.2, 1.0))
    image, mask = ops.horizontal_flip(image, mask, p=0.5)
    image = ops.color_jitter(image, brightness=0.2, contrast=0.2, saturation=0.2)
    image = ops.normalize(image, mean=MEAN, std=STD, layout="CHW")
    return {"image": image, "mask": mask, "label": sample.label}
