"""Proof: a training gives the same weights, however many workers load, and whatever is killed.

    python benchmarks/same_weights.py [--epochs 2] [--kills 20] [--data DIR]

A small network is trained on the CPU on randomly cropped and flipped photographs (`w1f`), with
deterministic algorithms of PyTorch on one thread, from the same initial weights. Stoker's Loader
starts a private daemon for each run. One run has one worker and no disturbance, one has three
workers. In two more, with two and four workers, a random worker gets SIGKILL after randomly chosen
steps; every fifth kill hits the daemon, which the Loader then starts again (`reconnect_s`).
DataLoader reads the same files in the same rig, with OpenCV's transforms and a fixed seed: with two
workers, twice; with three; and with two, of which one is killed.

Prints a row for each run, and the SHA-256 of all weights after the last step. Exits with status 1
if those of Stoker's runs differ.
"""

import argparse
import contextlib
import hashlib
import os
import random
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pipelines
import torch
import torch_loader
from torch import nn
from torch.utils.data import DataLoader
from workloads import packed_of, source_of

from stoker.client import Connection, Loader
from stoker.client.private.private_daemon import daemon_pids

HERE = Path(__file__).parent
CLASSES, BATCH = 8, 50
WORKER, DAEMON = "worker", "daemon"
PATIENCE_S = 60.0
ENDED = ("", "Z", "X")


@dataclass
class Trained:
    """The result of a run: steps that were trained, kills, and SHA-256 of the weights."""

    steps: int = 0
    kills: int = 0
    weights: str = ""
    fault: str = ""


def network() -> nn.Module:
    """Return a small network with the same weights each time."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, stride=4),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(32 * 16, CLASSES),
    )


def digest_of(model: nn.Module) -> str:
    """Return the SHA-256 of all weights."""
    found = hashlib.sha256()
    for name, values in model.state_dict().items():
        found.update(name.encode())
        found.update(values.numpy().tobytes())
    return found.hexdigest()


def train(batches: Iterable[tuple[Any, Any]], after: Callable[[int], None], done: Trained) -> None:
    """Train the network on batches of (images, labels).

    Args:
        batches: float32 images (B, 3, H, W), and class numbers (B,).
        after: called after each step, with the number of steps.
        done: receives the steps and the digest.
    """
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for images, labels in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        done.steps += 1
        after(done.steps)
    done.weights = digest_of(model)


def living_children(pid: int) -> list[int]:
    """Return the children of a process that have not ended."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if _state(child) not in ENDED]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Killer:
    """Kills by plan; while nothing is there to be killed, after a later step."""

    def __init__(self, plan: Mapping[int, str], done: Trained) -> None:
        """Take which steps to kill what after, WORKER or DAEMON; count kills in `done`."""
        self._plan, self._done = plan, done
        self._due: list[str] = []
        self._random = random.Random(1)

    def after(self, step: int) -> None:
        """Kill what is due after a step."""
        self._due += [self._plan[step]] if step in self._plan else []
        victims = self._victims(self._due[0]) if self._due else []
        if victims:
            os.kill(self._random.choice(victims), signal.SIGKILL)
            self._done.kills += 1
            self._due.pop(0)

    def _victims(self, what: str) -> list[int]:
        """Return the private daemon, or its workers, that have not ended."""
        daemons = [pid for pid in daemon_pids() if _state(pid) not in ENDED]
        if what == DAEMON:
            return daemons
        templates = [pid for daemon in daemons for pid in living_children(daemon)]
        return sorted(pid for template in templates for pid in living_children(template))


def planned(steps: int, kills: int, chooser: random.Random) -> dict[int, str]:
    """Return after which steps to kill what: step -> WORKER, or, for one in five, DAEMON."""
    places = sorted(chooser.sample(range(1, steps - steps // 10), kills))
    return {place: DAEMON if turn % 5 == 4 else WORKER for turn, place in enumerate(places)}


def with_stoker(
    packed: Path, workers: int, epochs: int, plan: Mapping[int, str], **options: Any
) -> Trained:
    """Train through a Loader with a private daemon; kill by plan."""
    done = Trained()
    killer = Killer(plan, done)
    given = {"pipeline": pipelines.w1f, "batch_size": BATCH, "seed": 0, **options}
    with Loader(
        packed, workers=workers, connection=Connection(reconnect_s=PATIENCE_S), **given
    ) as loader:
        batches = (batch for _ in range(epochs) for batch in loader)
        train(((batch.image, batch.label) for batch in batches), killer.after, done)
    return done


def with_dataloader(source: Path, workers: int, epochs: int, kill_after: int = 0) -> Trained:
    """Train through a DataLoader with fixed seeds; kill a worker after a step, unless it is 0."""
    done = Trained()
    torch.manual_seed(0)
    loader = DataLoader(
        torch_loader.dataset_of("w1f", source, "cv2"),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=True,
        generator=torch.Generator().manual_seed(0),
    )

    def after(step: int) -> None:
        if step == kill_after:
            done.kills += 1
            os.kill(living_children(os.getpid())[0], signal.SIGKILL)

    try:
        train((batch for _ in range(epochs) for batch in loader), after, done)
    except (RuntimeError, OSError, EOFError) as error:
        done.fault = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return done


def show(name: str, workers: int, done: Trained) -> None:
    """Print the row of a run."""
    result = f"`{done.weights[:16]}`" if done.weights else done.fault
    print(f"| {name} | {workers} | {done.kills} | {done.steps} | {result} |", flush=True)


def main() -> int:
    """Train, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    source, packed = source_of(given.data, "w1"), packed_of(given.data, "w1", "packed")
    print("| loader | workers | killed | steps | SHA-256 of the weights begins with |")
    print("|---|---|---|---|---|")
    calm = with_stoker(packed, 1, given.epochs, {})
    show("Stoker", 1, calm)
    digests = {calm.weights}
    for workers, kills in ((3, 0), (2, given.kills), (4, given.kills)):
        plan = planned(calm.steps, kills, random.Random(workers))
        done = with_stoker(packed, workers, given.epochs, plan)
        show("Stoker", workers, done)
        digests.add(done.weights)
    for workers, kill_after in ((2, 0), (2, 0), (3, 0), (2, calm.steps // 4)):
        done = with_dataloader(source, workers, given.epochs, kill_after)
        show("DataLoader", workers, done)
    return 0 if len(digests) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
