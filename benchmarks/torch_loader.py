"""torch.utils.data.DataLoader over the files, with OpenCV or Pillow transforms.

    python benchmarks/torch_loader.py SOURCE --workload w1 --style cv2|pillow --epochs 3

`cv2`: cv2.imdecode, crop, cv2.resize INTER_LINEAR, which does not antialias. `pillow`: Image.resize
with a box, bilinear and antialiased, like torchvision's transforms on PIL images. Both decode the
whole image. Normalized output is one multiplication and one addition in float32, then channels
first. Prints one JSON line per epoch; the first is the warm-up.
"""

import io
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from epochs import parser, show
from files import arrays, pairs, photographs
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from stoker.ops import Normalize

SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
MEAN, STD = (np.array(part, np.float32) for part in (Normalize().mean, Normalize().std))
CIFAR_MEAN = np.array((0.4914, 0.4822, 0.4465), np.float32)
CIFAR_STD = np.array((0.2470, 0.2435, 0.2616), np.float32)
Window = tuple[int, int, int, int]


def window(height: int, width: int) -> Window:
    """Draw (top, left, height, width) like torchvision's RandomResizedCrop."""
    logs = (math.log(RATIO[0]), math.log(RATIO[1]))
    for _ in range(10):
        area = height * width * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(*logs))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randrange(height - h + 1), random.randrange(width - w + 1), h, w
    w, h = min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))
    return (height - h) // 2, (width - w) // 2, h, w


class Cv2:
    """Decodes and resizes by OpenCV, on one thread."""

    def __init__(self) -> None:
        cv2.setNumThreads(0)

    def image(self, data: bytes) -> np.ndarray:
        bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)

    def mask(self, data: bytes) -> np.ndarray:
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)

    def size(self, image: np.ndarray) -> tuple[int, int]:
        return image.shape[:2]

    def resized(
        self, image: np.ndarray, box: Window, size: tuple[int, int], how: str
    ) -> np.ndarray:
        top, left, height, width = box
        part = image[top : top + height, left : left + width]
        taps = cv2.INTER_LINEAR if how == "image" else cv2.INTER_NEAREST
        return cv2.resize(part, size[::-1], interpolation=taps)


class Pillow:
    """Decodes and resizes by Pillow."""

    def image(self, data: bytes) -> Image.Image:
        return Image.open(io.BytesIO(data)).convert("RGB")

    def mask(self, data: bytes) -> Image.Image:
        return Image.open(io.BytesIO(data))

    def size(self, image: Image.Image) -> tuple[int, int]:
        return image.height, image.width

    def resized(
        self, image: Image.Image, box: Window, size: tuple[int, int], how: str
    ) -> np.ndarray:
        top, left, height, width = box
        taps = Image.Resampling.BILINEAR if how == "image" else Image.Resampling.NEAREST
        done = image.resize(size[::-1], taps, box=(left, top, left + width, top + height))
        return np.asarray(done)


def flipped(*arrays: np.ndarray) -> list[np.ndarray]:
    """Mirror all values, or none."""
    mirror = random.random() < 0.5
    return [np.ascontiguousarray(array[:, ::-1] if mirror else array) for array in arrays]


def normalized(image: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Return float32, channels first."""
    scaled = image * (1 / (255 * std)) - mean / std
    return np.ascontiguousarray(scaled.transpose(2, 0, 1), np.float32)


def train(by: Any, data: bytes) -> np.ndarray:
    """W1."""
    image = by.image(data)
    return flipped(by.resized(image, window(*by.size(image)), (224, 224), "image"))[0]


def validate(by: Any, data: bytes) -> np.ndarray:
    """W4."""
    image = by.image(data)
    height, width = by.size(image)
    short = min(height, width)
    size = max(256, 256 * height // short), max(256, 256 * width // short)
    small = by.resized(image, (0, 0, height, width), size, "image")
    top, left = ((side - 224) // 2 for side in size)
    return np.ascontiguousarray(small[top : top + 224, left : left + 224])


def pair(by: Any, image_data: bytes, mask_data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """W3."""
    image, mask = by.image(image_data), by.mask(mask_data)
    box = window(*by.size(image))
    done = (by.resized(image, box, (512, 512), "image"), by.resized(mask, box, (512, 512), "mask"))
    first, second = flipped(*done)
    return first, second


def tiny(image: np.ndarray) -> np.ndarray:
    """W2."""
    padded = np.zeros((40, 40, 3), np.uint8)
    padded[4:36, 4:36] = image
    top, left = random.randrange(9), random.randrange(9)
    (image,) = flipped(padded[top : top + 32, left : left + 32])
    return normalized(image, CIFAR_MEAN, CIFAR_STD)


class Files(Dataset):
    """(image, label) of each file."""

    def __init__(self, folder: Path, transform: Callable[[bytes], np.ndarray]) -> None:
        self.paths, self.labels = photographs(folder)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.transform(Path(self.paths[index]).read_bytes()), self.labels[index]


class Pairs(Dataset):
    """(image, mask) of each pair."""

    def __init__(self, folder: Path, by: Any) -> None:
        self.paths = pairs(folder)
        self.by = by

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        image, mask = self.paths[index]
        return pair(self.by, Path(image).read_bytes(), Path(mask).read_bytes())


class Arrays(Dataset):
    """(image, label) of arrays in memory."""

    def __init__(self, folder: Path) -> None:
        self.images, self.labels = arrays(folder)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return tiny(self.images[index]), int(self.labels[index])


def dataset_of(workload: str, source: Path, style: str) -> Dataset:
    """Return the dataset of a workload."""
    by = {"cv2": Cv2, "pillow": Pillow}[style]()
    if workload == "w2":
        return Arrays(source)
    if workload == "w3":
        return Pairs(source, by)
    transforms: dict[str, Callable[[bytes], np.ndarray]] = {
        "w1": lambda data: train(by, data),
        "w1f": lambda data: normalized(train(by, data), MEAN, STD),
        "w4": lambda data: validate(by, data),
    }
    return Files(source, transforms[workload])


def main() -> int:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--style", choices=("cv2", "pillow"), required=True)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(
        dataset_of(arguments.workload, arguments.source, arguments.style),
        batch_size=arguments.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=arguments.workers,
        persistent_workers=True,
    )
    show(lambda: iter(loader), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
