"""Train a small vision transformer with the Trainer of transformers.

python examples/frameworks/with_transformers.py PACKED [--epochs 2]
"""

from pictures import SIDE, arguments, options
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

from stoker.client import Loader

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


class LoaderTrainer(Trainer):
    """A Trainer whose batches come from a Loader, as arguments of the model."""

    place = ""

    def get_train_dataloader(self) -> Loader:
        """Make the loader after the process group."""
        return Loader(self.place, **options(as_dict=("pixel_values", "labels")))


def main() -> None:
    """Train, and print the mean loss of all steps."""
    given = arguments()
    config = ViTConfig(image_size=SIDE, patch_size=8, intermediate_size=32, num_labels=2, **SIZES)
    settings = TrainingArguments(
        "transformers-out", num_train_epochs=given.epochs, learning_rate=0.01, report_to=[],
        save_strategy="no", disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    trainer = LoaderTrainer(model=ViTForImageClassification(config), args=settings)
    trainer.place = given.place
    print(f"epochs {given.epochs}: loss {trainer.train().training_loss:.4f}")


if __name__ == "__main__":
    main()
