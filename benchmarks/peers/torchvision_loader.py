"""torch's DataLoader with torchvision: libjpeg-turbo by `decode_jpeg`, transforms v2 on tensors.

Its resize antialiases. It decodes whole images.
"""

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

import torch
from harness import CIFAR_MEAN, CIFAR_STD, MEAN, STD, arrays, pairs, parser, photographs, show
from torch.utils.data import DataLoader, Dataset


def declare_missing_ops() -> None:
    """Make torchvision importable if its wheel is built for CUDA and torch is not.

    Its extension then does not load, and its import needs ops of it that nothing here calls.
    """
    spec = importlib.util.find_spec("torchvision")
    extension = Path(spec.submodule_search_locations[0]) / "_C.so"
    try:
        ctypes.CDLL(str(extension))
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        kept.append(library)  # its ops live as long as this library


kept: list[torch.library.Library] = []
declare_missing_ops()

from torchvision import tv_tensors  # noqa: E402 - only now it can be imported
from torchvision.io import ImageReadMode, decode_image, decode_jpeg  # noqa: E402
from torchvision.transforms import v2  # noqa: E402


def read(path: str) -> torch.Tensor:
    """Return a file's bytes."""
    return torch.frombuffer(bytearray(Path(path).read_bytes()), dtype=torch.uint8)


def picture(path: str) -> torch.Tensor:
    """(3, height, width) uint8."""
    return decode_jpeg(read(path), mode=ImageReadMode.RGB)


def normalized(mean: list[float], std: list[float]) -> list[Any]:
    """Convert to floats."""
    return [v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]


def transforms_of(workload: str) -> v2.Compose:
    """Return the transforms of the workload for an image."""
    crop = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    steps = {
        "w1": crop,
        "w1f": [*crop, *normalized(MEAN, STD)],
        "w2": [
            v2.RandomCrop(32, padding=4),
            v2.RandomHorizontalFlip(),
            *normalized(CIFAR_MEAN, CIFAR_STD),
        ],
        "w3": [v2.RandomResizedCrop(512, antialias=True), v2.RandomHorizontalFlip()],
        "w4": [v2.Resize(256, antialias=True), v2.CenterCrop(224)],
    }
    return v2.Compose(steps[workload])


class Rows(Dataset):
    """(image, label or mask) of each row."""

    def __init__(self, workload: str, source: Path) -> None:
        self.workload, self.transform = workload, transforms_of(workload)
        if workload == "w2":
            images, labels = arrays(source)
            self.rows: list[Any] = list(zip(torch.from_numpy(images.copy()), labels, strict=True))
        else:
            files = pairs(source) if workload == "w3" else zip(*photographs(source), strict=True)
            self.rows = list(files)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        first, second = self.rows[index]
        if self.workload == "w2":
            return self.transform(first.permute(2, 0, 1)), int(second)
        if self.workload == "w3":
            mask = tv_tensors.Mask(decode_image(read(second), ImageReadMode.UNCHANGED)[0])
            image, mask = self.transform(picture(first), mask)
            return image.as_subclass(torch.Tensor), mask.as_subclass(torch.Tensor)
        return self.transform(picture(first)), second


def main() -> None:
    arguments = parser(__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(
        Rows(arguments.workload, arguments.source),
        batch_size=arguments.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=arguments.workers,
        persistent_workers=True,
    )
    show(lambda: iter(loader), arguments, ["torch", "torchvision"])


if __name__ == "__main__":
    main()
