"""Train a classifier of photographs with NumPy, on batches of the client in stream.py.

    stoker serve --dataset tiles=tiles.stoker --pipeline train=my_pipelines:train &
    python train.py ipc:///tmp/stoker-1000/stoker.sock --classes 2

The model is multinomial logistic regression on the mean colors of an 8x8 grid. The pipeline has the
outputs `image`, (size, size, 3) uint8, and `label`.
"""

import argparse
import sys

import numpy as np
from stream import Array, Batch, Stream

GRID = 8


def numpy_array(array: Array) -> np.ndarray:
    """Return an output as an array in the daemon's memory, without a copy."""
    return np.frombuffer(array.memory, array.dtype).reshape(array.shape)


def features(image: np.ndarray) -> np.ndarray:
    """Return the mean colors of a grid: (B, H, W, 3) uint8 to (B, GRID * GRID * 3 + 1)."""
    batch, height, width, channels = image.shape
    side = (height // GRID, width // GRID)
    cells = image[:, : side[0] * GRID, : side[1] * GRID]
    cells = cells.reshape(batch, GRID, side[0], GRID, side[1], channels)
    means = cells.mean(axis=(2, 4), dtype=np.float64).reshape(batch, -1) / 255 - 0.5
    return np.hstack([means, np.ones((batch, 1))])


def train_step(weights: np.ndarray, batch: Batch, rate: float) -> float:
    """Update the weights in place by one step of gradient descent; return the mean loss."""
    inputs = features(numpy_array(batch.arrays["image"]))
    labels = numpy_array(batch.arrays["label"]).astype(np.int64)
    scores = inputs @ weights
    scores -= scores.max(axis=1, keepdims=True)
    odds = np.exp(scores)
    odds /= odds.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(odds[rows, labels]).mean()
    odds[rows, labels] -= 1
    weights -= rate * inputs.T @ odds / len(labels)
    return float(loss)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--dataset", default="")
    parser.add_argument("--pipeline", default="train")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    arguments = parser.parse_args()
    weights = np.zeros((GRID * GRID * 3 + 1, arguments.classes))
    losses = []
    with Stream(
        arguments.address,
        dataset=arguments.dataset,
        pipeline=arguments.pipeline,
        batch_size=arguments.batch_size,
    ) as stream:
        for epoch in range(arguments.epochs):
            steps = [train_step(weights, batch, 0.5) for batch in stream.epoch(epoch)]
            losses.append(float(np.mean(steps)))
            print(f"epoch {epoch}: {len(steps)} batches, loss {losses[-1]:.3f}", flush=True)
    if losses[-1] >= losses[0]:
        print(f"the loss did not fall: {losses}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
