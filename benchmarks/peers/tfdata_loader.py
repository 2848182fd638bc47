"""tf.data on threads: decodes the crop's region alone; its resize does not antialias.

It keeps the default, which decodes JPEGs by the fast, inexact DCT.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from harness import (
    CIFAR_MEAN,
    CIFAR_STD,
    MEAN,
    RATIO,
    SCALE,
    STD,
    arrays,
    pairs,
    parser,
    photographs,
    show,
)

Rows = tuple[Any, Callable[[Any, Any], tuple[Any, Any]]]


def window(data: Any) -> tuple[Any, Any]:
    """Draw (top, left, 0) and (height, width, 3) of a random resized crop."""
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(data),
        tf.zeros([1, 0, 4]),
        min_object_covered=0.0,
        aspect_ratio_range=RATIO,
        area_range=SCALE,
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    return begin, size


def cropped(data: Any, begin: Any, size: Any) -> Any:
    """Decode a window."""
    corners = tf.stack([begin[0], begin[1], size[0], size[1]])
    return tf.image.decode_and_crop_jpeg(data, corners, channels=3)


def levels(image: Any) -> Any:
    """Convert floats to bytes."""
    return tf.cast(tf.round(image), tf.uint8)


def floats(image: Any, mean: list[float], std: list[float]) -> Any:
    """Normalize and put channels first."""
    return tf.transpose((image / 255 - mean) / std, [2, 0, 1])


def train(source: Path, to_floats: bool) -> Rows:
    """W1, W1f."""

    def row(path: Any, label: Any) -> tuple[Any, Any]:
        data = tf.io.read_file(path)
        image = tf.image.resize(cropped(data, *window(data)), [224, 224], "bilinear")
        image = tf.image.random_flip_left_right(image)
        return (floats(image, MEAN, STD) if to_floats else levels(image)), label

    return photographs(source), row


def tiny(source: Path) -> Rows:
    """W2."""

    def row(image: Any, label: Any) -> tuple[Any, Any]:
        image = tf.image.random_crop(tf.pad(image, [[4, 4], [4, 4], [0, 0]]), [32, 32, 3])
        image = tf.image.random_flip_left_right(image)
        return floats(tf.cast(image, tf.float32), CIFAR_MEAN, CIFAR_STD), label

    return arrays(source), row


def pair(source: Path) -> Rows:
    """W3."""

    def row(image_path: Any, mask_path: Any) -> tuple[Any, Any]:
        data = tf.io.read_file(image_path)
        begin, size = window(data)
        image = levels(tf.image.resize(cropped(data, begin, size), [512, 512], "bilinear"))
        mask = tf.io.decode_png(tf.io.read_file(mask_path), channels=1)
        mask = tf.slice(mask, [begin[0], begin[1], 0], [size[0], size[1], 1])
        mask = tf.image.resize(mask, [512, 512], "nearest")
        mirror = tf.random.uniform([]) < 0.5
        first, second = (
            tf.cond(mirror, lambda part=part: part[:, ::-1], lambda part=part: part)
            for part in (image, mask)
        )
        return first, second

    images, masks = zip(*pairs(source), strict=True)
    return (list(images), list(masks)), row


def validate(source: Path) -> Rows:
    """W4."""

    def row(path: Any, label: Any) -> tuple[Any, Any]:
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        sides = tf.cast(tf.shape(image)[:2], tf.float32)
        sides = tf.cast(tf.round(sides * (256 / tf.reduce_min(sides))), tf.int32)
        image = tf.image.resize(image, sides, "bilinear")
        corner = (sides - 224) // 2
        return levels(tf.slice(image, [corner[0], corner[1], 0], [224, 224, 3])), label

    return photographs(source), row


def main() -> None:
    arguments = parser(__doc__.splitlines()[0]).parse_args()
    source = arguments.source
    rows, transform = {
        "w1": lambda: train(source, to_floats=False),
        "w1f": lambda: train(source, to_floats=True),
        "w2": lambda: tiny(source),
        "w3": lambda: pair(source),
        "w4": lambda: validate(source),
    }[arguments.workload]()
    dataset = tf.data.Dataset.from_tensor_slices(rows).shuffle(len(rows[0]))
    dataset = dataset.map(transform, num_parallel_calls=arguments.workers)
    dataset = dataset.batch(arguments.batch_size, drop_remainder=True).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = arguments.workers
    options.deterministic = False
    dataset = dataset.with_options(options)
    show(dataset.as_numpy_iterator, arguments, ["tensorflow-cpu"])


if __name__ == "__main__":
    main()
