"""Train with Accelerate: `save_state` saves the place in the data too.

accelerate launch examples/frameworks/with_accelerate.py PACKED [--epochs 2]
"""

from pathlib import Path

import torch
from accelerate import Accelerator
from pictures import arguments, epochs_done, network, options

from stoker.client import Loader, as_dataloader

STATE = Path("accelerate-state")


def main() -> None:
    """Train, and continue where the last run ended."""
    given = arguments()
    accelerator = Accelerator()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with Loader(given.place, **options(device=accelerator.device)) as loader:
        model, optimizer, batches = accelerator.prepare(model, optimizer, as_dataloader(loader))
        if STATE.exists():
            accelerator.load_state(STATE)
        for _ in range(epochs_done(loader), given.epochs):
            for batch in batches:
                loss = torch.nn.functional.cross_entropy(model(batch.pixel_values), batch.labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            accelerator.print(f"epoch {batch.epoch}: loss {loss.item():.4f}")
            accelerator.save_state(STATE)


if __name__ == "__main__":
    main()
