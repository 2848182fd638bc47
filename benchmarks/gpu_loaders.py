"""The loaders that `gpu.py` compares, with the images of `w1`: crop, flip, normalized bfloat16.

Each is a context manager of an endless stream of (images, labels) on the device: images (rows, 3,
side, side), channels last in memory. Uint8 travels, and is normalized on the device.
"""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from stoker import ops
from stoker.client import Loader
from stoker.client.torch import Normalize
from stoker.pipeline import pipeline

SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Stream = Iterator[tuple[Any, Any]]


@dataclass(frozen=True)
class Work:
    """What a loader loads, and with what.

    Attributes:
        files: folder of classes with JPEGs.
        packed: the same, packed for Stoker.
        device: where batches go.
        batch_size: rows of a batch.
        side: height and width of the images.
        cores: number of workers or threads; the process may use no more cores.
    """

    files: Path
    packed: Path
    device: torch.device
    batch_size: int
    side: int
    cores: int


@contextlib.contextmanager
def stoker_loader(work: Work) -> Iterator[Stream]:
    """Stoker: uint8, normalized by `on_device`."""

    @pipeline
    def crop(sample):  # type: ignore[no-untyped-def]
        image = ops.random_resized_crop(sample.image, size=work.side, scale=SCALE, ratio=RATIO)
        return {"image": ops.horizontal_flip(image, p=0.5), "label": sample.label}

    normalize = Normalize(
        MEAN, STD, layout="CHW", dtype=torch.bfloat16, memory_format=torch.channels_last
    )
    with Loader(
        work.packed, pipeline=crop, batch_size=work.batch_size, device=work.device,
        on_device=[normalize], workers=work.cores, as_tuple=("image", "label"),
    ) as loader:  # fmt: skip
        yield ((i, n.to(work.device)) for _ in itertools.count() for i, n in loader)


@contextlib.contextmanager
def torchvision_loader(work: Work) -> Iterator[Stream]:
    """torch's DataLoader with torchvision's transforms on Pillow, pinned memory, uint8."""
    from torchvision.datasets import ImageFolder  # noqa: PLC0415
    from torchvision.transforms import v2  # noqa: PLC0415

    change = v2.Compose([
        v2.RandomResizedCrop(work.side, SCALE, RATIO), v2.RandomHorizontalFlip(), v2.PILToTensor(),
    ])  # fmt: skip
    normalize = Normalize(
        MEAN, STD, layout="CHW", dtype=torch.bfloat16, memory_format=torch.channels_last
    ).to(work.device)
    loader = torch.utils.data.DataLoader(
        ImageFolder(work.files, change), work.batch_size, shuffle=True, drop_last=True,
        num_workers=work.cores, pin_memory=work.device.type == "cuda", persistent_workers=True,
    )  # fmt: skip

    def batches() -> Stream:
        for _ in itertools.count():
            for images, labels in loader:
                there = images.to(work.device, non_blocking=True).permute(0, 2, 3, 1)
                yield normalize(there), labels.to(work.device, non_blocking=True)

    yield batches()


def _dali(work: Work, decoder: str) -> Stream:
    from nvidia.dali import fn, pipeline_def, types  # noqa: PLC0415
    from nvidia.dali.plugin.pytorch import DALIGenericIterator  # noqa: PLC0415

    cuda = work.device.type == "cuda"

    @pipeline_def
    def graph() -> Any:
        data, label = fn.readers.file(file_root=str(work.files), random_shuffle=True, name="files")
        image = fn.decoders.image_random_crop(
            data, device=decoder, output_type=types.RGB, random_area=list(SCALE),
            random_aspect_ratio=list(RATIO),
        )  # fmt: skip
        image = fn.resize(image, size=[work.side, work.side])
        image = fn.flip(image, horizontal=fn.random.coin_flip())
        image = image.gpu() if cuda else image
        image = fn.crop_mirror_normalize(
            image, dtype=types.FLOAT16, output_layout="HWC",
            mean=[255 * m for m in MEAN], std=[255 * s for s in STD],
        )  # fmt: skip
        return image, label

    made = graph(
        batch_size=work.batch_size, num_threads=work.cores, seed=1,
        device_id=work.device.index or 0 if cuda else None,
    )  # fmt: skip
    epochs = DALIGenericIterator(made, ["image", "label"], reader_name="files", auto_reset=True)
    for _ in itertools.count():
        for (batch,) in epochs:
            labels = batch["label"].long().flatten().to(work.device)
            yield batch["image"].permute(0, 3, 1, 2).to(torch.bfloat16), labels


@contextlib.contextmanager
def dali_cpu_loader(work: Work) -> Iterator[Stream]:
    """DALI that decodes on the CPU."""
    yield _dali(work, "cpu")


@contextlib.contextmanager
def dali_gpu_loader(work: Work) -> Iterator[Stream]:
    """DALI that decodes on the GPU (nvJPEG), and takes time of it."""
    if work.device.type != "cuda":
        raise ImportError("nvJPEG, which needs a CUDA device")
    yield _dali(work, "mixed")


LOADERS = {
    "stoker": stoker_loader,
    "torchvision": torchvision_loader,
    "dali-cpu": dali_cpu_loader,
    "dali-gpu": dali_gpu_loader,
}
