"""What the examples of frameworks share: pipelines, a small network, the command line."""

import argparse
from typing import Any

import torch

from stoker import ops
from stoker.client import Loader
from stoker.client.torch import Normalize
from stoker.pipeline import pipeline

SIDE, BATCH_SIZE = 32, 8


@pipeline
def levels(sample: Any) -> dict[str, Any]:
    """Return an image of uint8, which is normalized after the transfer, and its label."""
    image = ops.horizontal_flip(ops.resize(sample.image, size=(SIDE, SIDE)), p=0.5)
    return {"pixel_values": image, "labels": sample.label}


@pipeline
def floats(sample: Any) -> dict[str, Any]:
    """Return a normalized image and its label, for frameworks without torch."""
    image = ops.horizontal_flip(ops.resize(sample.image, size=(SIDE, SIDE)), p=0.5)
    return {"pixel_values": ops.normalize(image), "labels": sample.label}


def options(**more: Any) -> dict[str, Any]:
    """Return the arguments of the Loaders, with others."""
    normalize = Normalize(layout="CHW")
    return {"pipeline": levels, "batch_size": BATCH_SIZE, "on_device": [normalize], **more}


def network(classes: int = 2) -> torch.nn.Module:
    """Return a network with one layer."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * SIDE * SIDE, classes))


def epochs_done(loader: Loader) -> int:
    """Return the number of epochs that ended before the loader's place."""
    place = loader.state_dict()
    return place["epoch"] + (place["step"] == len(loader))


def arguments(*switches: str) -> argparse.Namespace:
    """Return the place of the data, the number of epochs, and switches."""
    parser = argparse.ArgumentParser()
    parser.add_argument("place", help="a packed dataset with image and label, or a daemon")
    parser.add_argument("--epochs", type=int, default=2)
    for switch in switches:
        parser.add_argument(f"--{switch}", action="store_true")
    return parser.parse_args()
