"""Train a model of timm with its optimizer and schedule; batches are tuples, as timm's are.

python examples/frameworks/with_timm.py PACKED [--epochs 2]
"""

import timm
import torch
from pictures import arguments, options
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter

from stoker.client import Loader


def main() -> None:
    """Train, and print the mean loss of each epoch."""
    given = arguments()
    model = timm.create_model("resnet10t", num_classes=2)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=given.epochs)
    with Loader(given.place, **options(as_tuple=("pixel_values", "labels"))) as loader:
        for epoch in range(given.epochs):
            mean = AverageMeter()
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                mean.update(loss.item(), len(labels))
            schedule.step(epoch + 1)
            print(f"epoch {epoch}: loss {mean.avg:.4f}")


if __name__ == "__main__":
    main()
