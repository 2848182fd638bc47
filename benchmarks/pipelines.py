"""The pipelines of the workloads, written for Stoker."""

from stoker import ops
from stoker.pipeline import pipeline

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


@pipeline
def w1(sample):  # type: ignore[no-untyped-def]
    """Random resized crop to 224 (antialiased, as Pillow), flip, uint8."""
    image = ops.random_resized_crop(sample.image, size=224, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    image = ops.horizontal_flip(image, p=0.5)
    return {"image": image, "label": sample.label}


@pipeline
def w1_scaled(sample):  # type: ignore[no-untyped-def]
    """w1 of images that are decoded at a fraction of their size."""
    image = ops.random_resized_crop(
        sample.image, size=224, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), decode="scaled"
    )
    image = ops.horizontal_flip(image, p=0.5)
    return {"image": image, "label": sample.label}


@pipeline
def w1f(sample):  # type: ignore[no-untyped-def]
    """The same to normalized float32, channels first."""
    image = ops.random_resized_crop(sample.image, size=224, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    image = ops.horizontal_flip(image, p=0.5)
    return {"image": ops.normalize(image, layout="CHW"), "label": sample.label}


@pipeline
def w2(sample):  # type: ignore[no-untyped-def]
    """Crop of the padded image, flip, normalized float32, channels first."""
    image = ops.random_crop(sample.image, size=32, padding=4)
    image = ops.horizontal_flip(image, p=0.5)
    image = ops.normalize(image, mean=CIFAR_MEAN, std=CIFAR_STD, layout="CHW")
    return {"image": image, "label": sample.label}


@pipeline
def w3(sample):  # type: ignore[no-untyped-def]
    """Random resized crop to 512 and flip of image and mask alike."""
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=512)
    image, mask = ops.horizontal_flip(image, mask, p=0.5)
    return {"image": image, "mask": mask}


@pipeline
def w4(sample):  # type: ignore[no-untyped-def]
    """Shorter side to 256, center crop of 224."""
    image = ops.resize_short(sample.image, size=256, max_size=1024)
    return {"image": ops.center_crop(image, size=224), "label": sample.label}
