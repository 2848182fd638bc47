"""torch.utils.data.DataLoader over the files, with OpenCV or Pillow transforms.

    python benchmarks/torch_loader.py DATA --style cv2|pillow --epochs 3

`cv2`: cv2.imdecode, crop, cv2.resize INTER_LINEAR, which does not antialias. `pillow`: Image.resize
with a box, bilinear and antialiased, as torchvision's RandomResizedCrop on PIL images. Both decode
the whole image. One JSON line an epoch; the first is the warm-up.
"""

import argparse
import io
import json
import math
import random
import sys
from pathlib import Path

import cv2
import numpy as np
import torch
from meter import measure
from PIL import Image
from torch.utils.data import DataLoader, Dataset

SIZE, SCALE, RATIO = 224, (0.08, 1.0), (3 / 4, 4 / 3)


def window(height: int, width: int) -> tuple[int, int, int, int]:
    """Draw (top, left, height, width) as torchvision's RandomResizedCrop."""
    logs = (math.log(RATIO[0]), math.log(RATIO[1]))
    for _ in range(10):
        area = height * width * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(*logs))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randrange(height - h + 1), random.randrange(width - w + 1), h, w
    w, h = min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))
    return (height - h) // 2, (width - w) // 2, h, w


def with_cv2(data: bytes) -> np.ndarray:
    cv2.setNumThreads(0)
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    top, left, height, width = window(*image.shape[:2])
    image = image[top : top + height, left : left + width]
    image = cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(image[:, ::-1] if random.random() < 0.5 else image)


def with_pillow(data: bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(data)).convert("RGB")
    top, left, height, width = window(image.height, image.width)
    image = image.resize(
        (SIZE, SIZE), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height)
    )
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.array(image)


class Files(Dataset):
    """(image (224, 224, 3) uint8, label) of each file."""

    def __init__(self, folder: Path, style: str) -> None:
        self.paths = sorted(str(path) for path in folder.glob("*/*.jpg"))
        self.labels = {
            p: i for i, p in enumerate(sorted({Path(p).parent.name for p in self.paths}))
        }
        self.transform = {"cv2": with_cv2, "pillow": with_pillow}[style]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        path = self.paths[index]
        with open(path, "rb") as file:
            return self.transform(file.read()), self.labels[Path(path).parent.name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--style", choices=("cv2", "pillow"), required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(
        Files(arguments.data / "images", arguments.style),
        batch_size=arguments.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=arguments.workers,
        persistent_workers=True,
    )
    for _ in range(arguments.epochs):
        epoch = measure(lambda: (images for images, _ in loader))
        print(json.dumps(epoch.to_data()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
