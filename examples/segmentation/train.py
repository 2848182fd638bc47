"""Train a small segmentation network on batches from a daemon.

    stoker serve --config stoker.toml &
    python train.py ipc:///run/stoker/stoker.sock --classes data/classes.json

The loop is plain PyTorch: iterate over the loader, use the batch, and drop it. When the tensors of
a batch are freed, its memory goes back to the daemon.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from network import Network
from torch.nn import functional

from stoker.client import Connection, Loader


def train_epoch(
    network: Network, optimizer: torch.optim.Optimizer, loader: Loader
) -> tuple[float, int]:
    """Train on one epoch; return the mean loss and the number of images."""
    network.train()
    losses, images = [], 0
    for batch in loader:
        images += len(batch.image)
        pixels, labels = network(batch.image)
        loss = functional.cross_entropy(pixels, batch.mask.long())
        loss = loss + 0.3 * functional.cross_entropy(labels, batch.label.long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses), images


def train(loader: Loader, classes: dict[str, object], epochs: int) -> list[float]:
    """Train for some epochs, print each, and return their mean losses."""
    torch.manual_seed(0)
    labels, pixel_classes = classes["labels"], classes["mask_classes"]
    assert isinstance(labels, list)
    assert isinstance(pixel_classes, int)
    network = Network(pixel_classes, len(labels))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    losses = []
    for epoch in range(epochs):
        begun = time.perf_counter()
        loss, images = train_epoch(network, optimizer, loader)
        rate = images / (time.perf_counter() - begun)
        losses.append(loss)
        print(f"epoch {epoch}: {rate:5.0f} images/s, loss {loss:.3f}", flush=True)
    return losses


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("--classes", type=Path, required=True)
    parser.add_argument("--dataset", default="photos")
    parser.add_argument("--pipeline", default="train")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument(
        "--reconnect-s", type=float, help="how long to wait for a daemon that is started again"
    )
    arguments = parser.parse_args()
    with Loader(
        arguments.address,
        dataset=arguments.dataset,
        pipeline=arguments.pipeline,
        batch_size=arguments.batch_size,
        seed=0,
        connection=Connection(reconnect_s=arguments.reconnect_s),
    ) as loader:
        losses = train(loader, json.loads(arguments.classes.read_text()), arguments.epochs)
    if losses[-1] >= losses[0]:
        print(f"the loss did not fall: {losses}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
