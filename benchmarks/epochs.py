"""The output of a contender that yields batches: times of its epochs, or a summary of them.

Runs in every contender's process, also under the interpreter of a peer, so it needs only NumPy.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from accelerator import feed
from meter import measure

Batches = Callable[[], Iterable[tuple[Any, Any]]]
BANDS = 3
"""Number of bands of rows in which means are taken, so that an image upside down is noticed."""


def parser(what: str) -> argparse.ArgumentParser:
    """Return the parser of the options that all contenders have."""
    made = argparse.ArgumentParser(description=what)
    made.add_argument("source", type=Path)
    made.add_argument("--workload", required=True)
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--batch-size", type=int, default=256)
    made.add_argument("--epochs", type=int, default=3)
    made.add_argument("--check", action="store_true", help="print a summary of the batches instead")
    made.add_argument("--step-s", type=float, help="feed an emulated accelerator instead")
    return made


def show(batches: Batches, arguments: argparse.Namespace, packages: Iterable[str] = ()) -> None:
    """Print the versions, then one JSON line per epoch, or one for all of them.

    Args:
        batches: begins an epoch; yields (images, labels or masks), each with the rows first.
        arguments: the parsed arguments of `parser`.
        packages: names of the packages whose versions are printed.
    """
    versions = {name: version(name) for name in packages}
    if versions:
        versions["Python"] = ".".join(map(str, sys.version_info[:3]))
        print(json.dumps({"versions": versions}))
    if arguments.check:
        print(json.dumps(summary(batches, arguments.epochs)))
        return
    if arguments.step_s:
        stream = (images for _ in range(arguments.epochs) for images, _ in batches())
        print(json.dumps(asdict(feed(stream, arguments.step_s))))
        return
    for _ in range(arguments.epochs):
        epoch = measure(lambda: (images for images, _ in batches()))
        print(json.dumps(epoch.to_data()), flush=True)


def summary(batches: Batches, epochs: int) -> dict[str, Any]:
    """Summarize some epochs, independent of the order of their rows and channels.

    Returns:
        `images`: their number; `shape` of one, (3, height, width); `dtype`; `means` of each channel
        in each band of rows; `low` and `high`, the ends of the range; `masks`, the values of masks.
    """
    total, images, low, high = np.zeros((3, BANDS)), 0, np.inf, -np.inf
    masks: set[int] = set()
    for _ in range(epochs):
        for batch, second in batches():
            pixels, dtype = planes(np.asarray(batch))
            images += len(pixels)
            low, high = min(low, pixels.min()), max(high, pixels.max())
            bands = np.array_split(pixels, BANDS, axis=2)
            total += np.stack([band.mean((0, 2, 3), float) for band in bands], 1) * len(pixels)
            beside = np.asarray(second)
            if beside.size > len(pixels):
                masks.update(np.unique(beside).tolist())
    return {
        "images": images,
        "shape": list(pixels.shape[1:]),
        "dtype": dtype,
        "means": (total / images).tolist(),
        "low": float(low),
        "high": float(high),
        "masks": sorted(masks),
    }


def planes(batch: np.ndarray) -> tuple[np.ndarray, str]:
    """Return a batch with the channels before the rows, and its dtype's name."""
    return (batch if batch.shape[1] == 3 else batch.transpose(0, 3, 1, 2)), batch.dtype.name
