"""The cost of an operation of FFCV's guide: an epoch with PickACorner against one without.

    python benchmarks/ffcv_guide.py --images 50000 --epochs 20

The setup is that of the guide: images of CIFAR-10's size, batches of 512, random order, decoder,
PickACorner, ToTensor. Both pipelines run in one process, with alternating epochs. For the serial
and the parallel form the script prints the seconds of the fastest epoch without and with the
operation, and their ratio, in wall-clock and CPU time. The guide got 1.26x for the parallel form.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from skimage import data

from stoker.compat.ffcv.fields import IntField, RGBImageField
from stoker.compat.ffcv.fields.decoders import SimpleRGBImageDecoder
from stoker.compat.ffcv.loader import Loader, OrderOption
from stoker.compat.ffcv.transforms import ToTensor
from stoker.compat.ffcv.writer import DatasetWriter

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "compat"))
from guide_script import PickACorner, PickACornerParallel

SIDE = 32


class Pictures:
    """Crops of a photograph with noise, (32, 32, 3) uint8, and a label."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.photo = data.astronaut()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        top, left = index * 7 % (512 - SIDE), index * 13 % (512 - SIDE)
        return self.photo[top : top + SIDE, left : left + SIDE], index % 10


def epoch_s(loader: Loader) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds of an epoch."""
    began, used = time.perf_counter(), time.process_time()
    for _ in loader:
        pass
    return time.perf_counter() - began, time.process_time() - used


def compare(path: Path, arguments: argparse.Namespace, operation: object) -> tuple[float, ...]:
    """Return seconds without, with, and their ratio: first wall-clock, then CPU time."""
    loaders = [
        Loader(
            str(path),
            batch_size=512,
            num_workers=arguments.workers,
            order=OrderOption.RANDOM,
            seed=0,
            pipelines={"image": [SimpleRGBImageDecoder(), *middle, ToTensor()]},
        )
        for middle in ([], [operation])
    ]
    for loader in loaders:
        epoch_s(loader)
    turns = [[epoch_s(loader) for loader in loaders] for _ in range(arguments.epochs)]
    figures: list[float] = []
    for which in (0, 1):
        without, with_it = (min(turn[form][which] for turn in turns) for form in (0, 1))
        figures += [without, with_it, with_it / without]
    return tuple(figures)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pictures.beton"
        fields = {"image": RGBImageField(), "label": IntField()}
        DatasetWriter(str(path), fields).from_indexed_dataset(Pictures(arguments.images))
        print("| form | s without | s with | ratio | CPU-s without | CPU-s with | ratio |")
        print("|---|---|---|---|---|---|---|")
        for name, operation in (("serial", PickACorner()), ("parallel", PickACornerParallel())):
            figures = compare(path, arguments, operation)
            print(f"| {name} | " + " | ".join(f"{figure:.4f}" for figure in figures) + " |")


if __name__ == "__main__":
    main()
