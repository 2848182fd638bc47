"""Train in a plain loop of PyTorch; save a checkpoint after each epoch, and continue from it.

python examples/frameworks/plain_pytorch.py PACKED [--epochs 2]
"""

from pathlib import Path

import torch
from pictures import arguments, epochs_done, network, options

from stoker.client import Loader

CHECKPOINT = Path("checkpoint.pt")


def main() -> None:
    """Train, and print the loss of each epoch."""
    given = arguments()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with Loader(given.place, **options()) as loader:
        if CHECKPOINT.exists():
            saved = torch.load(CHECKPOINT, weights_only=True)
            model.load_state_dict(saved["model"])
            loader.load_state_dict(saved["loader"])
        for _ in range(epochs_done(loader), given.epochs):
            for batch in loader:
                loss = torch.nn.functional.cross_entropy(model(batch.pixel_values), batch.labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {batch.epoch}: loss {loss.item():.4f}")
            torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, CHECKPOINT)


if __name__ == "__main__":
    main()
