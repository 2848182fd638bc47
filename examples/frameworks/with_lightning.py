"""Train with Lightning: a Loader takes the place of a DataLoader; checkpoints have its cursor.

python examples/frameworks/with_lightning.py PACKED [--epochs 2]
"""

from typing import Any

import pytorch_lightning as pl
import torch
from pictures import arguments, network, options

from stoker.client import Loader


class Classifier(pl.LightningModule):
    """A network with one layer, and its training."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place, self.network = place, network()

    def train_dataloader(self) -> Loader:
        """Make the loader after the process group."""
        return Loader(self.place, **options())

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        """Return the loss of a batch."""
        return torch.nn.functional.cross_entropy(self.network(batch.pixel_values), batch.labels)

    def on_train_batch_end(self, outputs: Any, batch: Any, number: int) -> None:
        """Print the loss of the last batch of each epoch."""
        if self.trainer.is_last_batch:
            print(f"epoch {self.current_epoch}: loss {outputs['loss'].item():.4f}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=1e-4)


def main() -> None:
    """Train, and save a checkpoint."""
    given = arguments()
    trainer = pl.Trainer(
        max_epochs=given.epochs, logger=False, enable_progress_bar=False,
        enable_checkpointing=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(given.place))
    trainer.save_checkpoint("lightning.ckpt")
    trainer.train_dataloader.close()


if __name__ == "__main__":
    main()
