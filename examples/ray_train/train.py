"""Train with Ray Train on batches from daemons that Ray places, one on each of several nodes.

    python examples/ray_train/train.py PACKED [--hosts 1] [--trainers 2] [--epochs 3]

PACKED is a packed dataset with the fields `image` and `label`, at the same path on every node. The
program connects to the cluster of RAY_ADDRESS, or starts one on this computer.
docs/guides/ray.md explains it.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

import stoker.ray
from stoker import ops
from stoker.client import Connection, Loader
from stoker.pipeline import pipeline

BATCH_SIZE = 16


@pipeline
def augmented(sample: Any) -> dict[str, Any]:
    """Return a random part of the image, 64 pixels wide, and the label."""
    image = ops.random_resized_crop(sample.image, size=64)
    image = ops.horizontal_flip(image, p=0.5)
    image = ops.normalize(
        image, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225], layout="CHW"
    )
    return {"image": image, "label": sample.label}


def train(config: dict[str, Any]) -> None:
    """Train in one process of Ray Train; its rank comes from `torch.distributed`."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.LazyLinear(config["classes"]),
    )  # fmt: skip
    with Loader(
        config["daemons"],
        pipeline=augmented,
        batch_size=BATCH_SIZE,
        seed=1,
        connection=Connection(reconnect_s=120),
    ) as loader:
        model(torch.zeros(1, 3, 64, 64))  # gives the lazy layer its shape
        model = prepare_model(model)
        device = next(model.parameters()).device
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        start = 0
        checkpoint = ray.train.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                saved = torch.load(Path(folder, "state.pt"), weights_only=True)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            loader.load_state_dict(saved["loader"])
            start = saved["epoch"] + 1
        for epoch in range(start, config["epochs"]):
            total, count = 0.0, 0
            for batch in loader:
                images, labels = batch["image"].to(device), batch["label"].to(device)
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total, count = total + loss.item(), count + 1
            report(model, optimizer, loader, epoch, total / count)


def report(model: Any, optimizer: Any, loader: Loader, epoch: int, loss: float) -> None:
    """Send the loss to Ray, and from rank 0 a checkpoint: the weights and the loader's cursor."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if ray.train.get_context().get_world_rank() == 0:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict(),
                "epoch": epoch,
            }
            torch.save(state, Path(folder, "state.pt"))
            checkpoint = Checkpoint.from_directory(folder)
        ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)


def main() -> None:
    """Start the daemons and the training; print the last loss."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packed", type=Path, help="folder of the packed dataset")
    parser.add_argument("--hosts", type=int, default=1, help="nodes with a daemon")
    parser.add_argument("--trainers", type=int, default=2, help="processes that train")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("ray-results"), help="for checkpoints")
    args = parser.parse_args()
    ray.init(num_cpus=None if "RAY_ADDRESS" in os.environ else args.trainers + args.hosts)
    with stoker.ray.serve(args.packed, hosts=args.hosts, workers=1) as daemons:
        trainer = TorchTrainer(
            train,
            train_loop_config={
                "daemons": daemons,
                "epochs": args.epochs,
                "classes": args.classes,
            },
            scaling_config=ScalingConfig(
                num_workers=args.trainers, use_gpu=torch.cuda.is_available()
            ),
            run_config=RunConfig(name="stoker", storage_path=str(args.out.resolve())),
        )
        result = trainer.fit()
        print(f"epoch {result.metrics['epoch']}: loss {result.metrics['loss']:.4f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
