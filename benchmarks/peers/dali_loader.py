"""NVIDIA DALI on the CPU: decodes the crop's region alone, resizes antialiased, on threads.

Batches are used as DALI delivers them, without a copy.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import (
    CIFAR_MEAN,
    CIFAR_STD,
    MEAN,
    RATIO,
    SCALE,
    STD,
    arrays,
    in_levels,
    pairs,
    parser,
    photographs,
    show,
)
from nvidia.dali import fn, pipeline_def, types


def floats(image: Any, mirror: Any, mean: list[float], std: list[float]) -> Any:
    """Mirror, normalize, and put channels first."""
    return fn.crop_mirror_normalize(
        image,
        mirror=mirror,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=in_levels(mean),
        std=in_levels(std),
    )


def small(image: Any, size: int, interpolation: Any) -> Any:
    """Resize to a square."""
    return fn.resize(image, size=[size, size], interp_type=interpolation)


def train(source: Path, to_floats: bool) -> tuple[Callable[[], Any], int]:
    """W1, W1f."""
    files, labels = photographs(source)

    def graph() -> Any:
        data, label = fn.readers.file(files=files, labels=labels, random_shuffle=True)
        image = fn.decoders.image_random_crop(
            data,
            device="cpu",
            output_type=types.RGB,
            random_area=list(SCALE),
            random_aspect_ratio=list(RATIO),
            num_attempts=10,
        )
        image, mirror = small(image, 224, types.INTERP_LINEAR), fn.random.coin_flip()
        if to_floats:
            return floats(image, mirror, MEAN, STD), label
        return fn.flip(image, horizontal=mirror), label

    return graph, len(files)


def tiny(source: Path, batch_size: int) -> tuple[Callable[[], Any], int]:
    """W2."""
    images, labels = arrays(source)
    images = np.array(images)

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(1)
        while True:
            order = rng.permutation(len(images))
            for first in range(0, len(order) - batch_size + 1, batch_size):
                rows = order[first : first + batch_size]
                yield images[rows], labels[rows]

    def graph() -> Any:
        image, label = fn.external_source(
            source=batches(), num_outputs=2, batch=True, layout=["HWC", ""]
        )
        shifts = [float(shift) for shift in range(-4, 5)]
        corner = fn.cast(fn.random.uniform(values=shifts, shape=2), dtype=types.INT32)
        image = fn.slice(
            image, start=corner, shape=[32, 32], axes=[0, 1], out_of_bounds_policy="pad"
        )
        return floats(image, fn.random.coin_flip(), CIFAR_MEAN, CIFAR_STD), label

    return graph, len(images)


def pair(source: Path) -> tuple[Callable[[], Any], int]:
    """W3."""
    files = pairs(source)

    def graph() -> Any:
        # Same seed, so both readers shuffle alike.
        image, mask = (
            fn.readers.file(files=[pair[part] for pair in files], random_shuffle=True, seed=7)[0]
            for part in (0, 1)
        )
        corner, shape = fn.random_crop_generator(
            fn.peek_image_shape(image), random_area=list(SCALE), random_aspect_ratio=list(RATIO)
        )
        image = fn.decoders.image_slice(
            image, start=corner, shape=shape, axis_names="HW", device="cpu", output_type=types.RGB
        )
        mask = fn.decoders.image(mask, device="cpu", output_type=types.GRAY)
        mask = fn.slice(mask, start=corner, shape=shape, axis_names="HW")
        mirror = fn.random.coin_flip()
        return (
            fn.flip(small(image, 512, types.INTERP_LINEAR), horizontal=mirror),
            fn.flip(small(mask, 512, types.INTERP_NN), horizontal=mirror),
        )

    return graph, len(files)


def validate(source: Path) -> tuple[Callable[[], Any], int]:
    """W4."""
    files, labels = photographs(source)

    def graph() -> Any:
        data, label = fn.readers.file(files=files, labels=labels, random_shuffle=True)
        image = fn.decoders.image(data, device="cpu", output_type=types.RGB)
        image = fn.resize(image, resize_shorter=256, interp_type=types.INTERP_LINEAR)
        return fn.crop(image, crop=(224, 224)), label

    return graph, len(files)


def main() -> None:
    arguments = parser(__doc__.splitlines()[0]).parse_args()
    workload, source = arguments.workload, arguments.source
    graph, rows = {
        "w1": lambda: train(source, to_floats=False),
        "w1f": lambda: train(source, to_floats=True),
        "w2": lambda: tiny(source, arguments.batch_size),
        "w3": lambda: pair(source),
        "w4": lambda: validate(source),
    }[workload]()
    pipeline = pipeline_def(graph)(
        batch_size=arguments.batch_size,
        num_threads=arguments.workers,
        device_id=None,
        seed=1,
        prefetch_queue_depth=2,
    )
    pipeline.build()

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _ in range(rows // arguments.batch_size):
            images, second = pipeline.run()
            yield np.asarray(images.as_tensor()), np.asarray(second.as_tensor())

    show(batches, arguments, ["nvidia-dali-cuda120"])


if __name__ == "__main__":
    main()
