"""FFCV: its own file, written next to the data on first use; decodes whole images, on threads.

`--form jpeg`: every image re-encoded as JPEG of quality 93, in its size. `--form half`: the longer
side at most 400, half of the images as raw pixels, the other half JPEGs of quality 90. These are
other pixels, fewer of them, and half of the images need no decoding. Arrays are stored raw. The
resize is OpenCV's area filter. Floats have the channels first in memory, as the workloads require,
by FFCV's own option. With `--view`, and for bytes, the channels come first as a view, which copies
nothing. Each field draws its own crop, so an image and its mask cannot be cropped alike (no W3).
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import (
    NormalizeImage,
    RandomHorizontalFlip,
    RandomTranslate,
    Squeeze,
    ToTensor,
    ToTorchImage,
)
from ffcv.writer import DatasetWriter
from harness import (
    CIFAR_MEAN,
    CIFAR_STD,
    MEAN,
    RATIO,
    SCALE,
    STD,
    arrays,
    in_levels,
    parser,
    photographs,
    show,
)
from PIL import Image

FIELDS = {
    "jpeg": {"write_mode": "jpg", "jpeg_quality": 93},
    "half": {
        "write_mode": "proportion",
        "max_resolution": 400,
        "compress_probability": 0.5,
        "jpeg_quality": 90,
    },
}


class Rows:
    """(image, label) of each row, in the form of FFCV's writer."""

    def __init__(self, images: Any, labels: Any) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = self.images[index]
        pixels = Image.open(image).convert("RGB") if isinstance(image, str) else image
        return pixels, int(self.labels[index])


def written(arguments: argparse.Namespace) -> Path:
    """Return FFCV's file of the data; write it if it does not exist."""
    source, small = arguments.source, arguments.workload == "w2"
    form = "raw" if small else arguments.form
    path = source.with_name(f"{source.name}-ffcv-{form}.beton")
    if not path.exists():
        rows = Rows(*(arrays(source) if small else photographs(source)))
        image = RGBImageField() if small else RGBImageField(**FIELDS[form])
        partial = path.with_suffix(".partial")
        writer = DatasetWriter(str(partial), {"image": image, "label": IntField()}, num_workers=2)
        writer.from_indexed_dataset(rows)
        os.rename(partial, path)
    return path


def normalized(mean: list[float], std: list[float]) -> NormalizeImage:
    """Convert to floats."""
    return NormalizeImage(np.array(in_levels(mean)), np.array(in_levels(std)), np.float32)


def steps_of(workload: str) -> list[Any]:
    """Return the operations on an image."""
    crop = [RandomResizedCropRGBImageDecoder((224, 224), SCALE, RATIO), RandomHorizontalFlip()]
    return {
        "w1": crop,
        "w1f": [*crop, normalized(MEAN, STD)],
        "w2": [
            SimpleRGBImageDecoder(),
            RandomHorizontalFlip(),
            RandomTranslate(padding=4),
            normalized(CIFAR_MEAN, CIFAR_STD),
        ],
        "w4": [CenterCropRGBImageDecoder((224, 224), ratio=224 / 256)],
    }[workload]


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--form", choices=FIELDS, default="jpeg")
    options.add_argument("--view", action="store_true", help="deliver floats as a view")
    arguments = options.parse_args()
    as_view = arguments.view or arguments.workload in ("w1", "w4")
    loader = Loader(
        str(written(arguments)),
        batch_size=arguments.batch_size,
        num_workers=arguments.workers,
        os_cache=True,
        drop_last=True,
        order=OrderOption.RANDOM,
        pipelines={
            "image": [*steps_of(arguments.workload), ToTensor(), ToTorchImage(as_view)],
            "label": [IntDecoder(), ToTensor(), Squeeze()],
        },
    )
    show(lambda: iter(loader), arguments, ["ffcv", "torch", "numba"])


if __name__ == "__main__":
    main()
