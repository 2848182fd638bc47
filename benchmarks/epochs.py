"""What a contender that yields batches prints: its epochs' times, or what its batches hold.

Runs in every contender's process, under the interpreter of a peer too: it needs nothing but NumPy.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from meter import measure

Batches = Callable[[], Iterable[tuple[Any, Any]]]
BANDS = 3
"""A picture's mean is taken in so many bands of rows, so that one upside down is noticed."""


def parser(what: str) -> argparse.ArgumentParser:
    """Return the options that all contenders have."""
    made = argparse.ArgumentParser(description=what)
    made.add_argument("source", type=Path)
    made.add_argument("--workload", required=True)
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--batch-size", type=int, default=256)
    made.add_argument("--epochs", type=int, default=3)
    made.add_argument("--check", action="store_true", help="print what the batches hold instead")
    return made


def show(batches: Batches, arguments: argparse.Namespace, packages: Iterable[str] = ()) -> None:
    """Print one JSON line an epoch, or with `--check` one for all of them; versions before.

    Args:
        batches: begins an epoch; yields (images, what belongs to them), each with the rows first.
        arguments: what `parser` parsed.
        packages: whose versions are told.
    """
    versions = {name: version(name) for name in packages}
    if versions:
        versions["Python"] = ".".join(map(str, sys.version_info[:3]))
        print(json.dumps({"versions": versions}))
    if arguments.check:
        print(json.dumps(summary(batches, arguments.epochs)))
        return
    for _ in range(arguments.epochs):
        epoch = measure(lambda: (images for images, _ in batches()))
        print(json.dumps(epoch.to_data()), flush=True)


def summary(batches: Batches, epochs: int) -> dict[str, Any]:
    """Describe what some epochs hold, whatever the order of their rows and channels.

    Returns:
        `images`: how many; `shape`: of one, (3, height, width); `dtype`; `means`: of each channel
        in each band of rows; `low`, `high`: the ends of the range; `masks`: the values of masks.
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
