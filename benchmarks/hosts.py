"""Two daemons against one: batches per second of a Loader; each daemon has half of the cores.

    python benchmarks/hosts.py PACKED --workload w1 --rounds 5

Each daemon is held to its half of the cores with `taskset`, as if the halves were two hosts. The
Loader runs on all cores and reads one value of each image. One daemon and two take turns. The
batches are compared: they must be the same. Prints Markdown.

The CPU time of a batch is that of the Loader's process and that of all daemons with their workers.
On two cores the Loader shares the core of the second daemon: a batch that costs d there and c in
the Loader gives at most 2 / (1 + c / d) of one daemon.
"""

import argparse
import contextlib
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pipelines
from meter import tree_s

from stoker.client import Loader


class Epoch(NamedTuple):
    """The rate of an epoch in batches per second, and CPU milliseconds of a batch."""

    rate: float
    loader_ms: float
    daemons_ms: float


@contextlib.contextmanager
def serving(folder: Path, packed: Path, cores: list[int], scheme: str) -> Iterator[tuple[str, int]]:
    """Run a daemon on some cores, a worker for each; yields its address and its process id."""
    address = f"ipc://{folder}/stoker.sock"
    held = ["taskset", "-c", ",".join(map(str, cores))]
    command = [*held, sys.executable, "-m", "stoker.server", "serve", f"--address={address}"]
    command += [f"--dataset=photos={packed}", f"--workers={len(cores)}", "--log-level=error"]
    ready, theirs = os.pipe()
    more = ["--tcp=tcp://127.0.0.1:0", "--insecure"] if scheme == "tcp" else []
    process = subprocess.Popen([*command, *more, f"--ready-fd={theirs}"], pass_fds=[theirs])
    os.close(theirs)
    try:
        with open(ready) as file:
            found = file.read()
        yield json.loads(found)["tcp" if scheme == "tcp" else "address"], process.pid
    finally:
        process.terminate()
        process.wait()


def epoch(loader: Loader, skipped: int, pids: list[int]) -> tuple[Epoch, str]:
    """Take an epoch; return what it took and a digest of what was read.

    Args:
        loader: takes turns with another one, so its first batches were computed before.
        skipped: how many batches the time begins after.
        pids: the daemons.
    """
    digest = hashlib.sha256()
    for count, batch in enumerate(loader, 1):
        digest.update(batch.image[:, 0, 0].tobytes())
        if count == skipped:
            began = now(pids)
    wall, own, theirs = (after - before for after, before in zip(now(pids), began, strict=True))
    batches = count - skipped
    took = Epoch(batches / wall, 1000 * own / batches, 1000 * theirs / batches)
    return took, digest.hexdigest()


def now(pids: list[int]) -> tuple[float, float, float]:
    """Return the time, this process's CPU seconds, and those of the daemons with their workers."""
    return time.perf_counter(), time.process_time(), sum(map(tree_s, pids))


def measure(
    packed: Path, workload: str, scheme: str, *, batch_size: int, prefetch: int, rounds: int
) -> dict[int, list[Epoch]]:
    """Return, by number of daemons, what each round took."""
    cores = sorted(os.sched_getaffinity(0))
    halves = cores[: len(cores) // 2], cores[len(cores) // 2 :]
    with contextlib.ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in halves]
        daemons = [
            stack.enter_context(serving(folder, packed, half, scheme))
            for folder, half in zip(folders, halves, strict=True)
        ]
        pids = [pid for _, pid in daemons]
        loaders = {
            count: stack.enter_context(
                Loader(
                    [address for address, _ in daemons[:count]],
                    pipeline=getattr(pipelines, workload),
                    batch_size=batch_size,
                    prefetch=prefetch,
                    device="numpy",
                )
            )
            for count in (1, 2)
        }
        found: dict[int, list[Epoch]] = {1: [], 2: []}
        for number in range(rounds + 1):
            digests = {}
            for count, loader in loaders.items():
                loader.set_epoch(number)
                took, digests[count] = epoch(loader, 4 * prefetch, pids)
                if number:  # the first epoch warms up
                    found[count].append(took)
            if digests[1] != digests[2]:
                raise SystemExit("two daemons delivered other batches than one")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=Path)
    parser.add_argument("--workload", default="w1")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--prefetch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scheme", choices=("ipc", "tcp"), default="ipc")
    asked = parser.parse_args()
    found = measure(
        asked.packed, asked.workload, asked.scheme,
        batch_size=asked.batch_size, prefetch=asked.prefetch, rounds=asked.rounds,
    )  # fmt: skip
    one = statistics.median(took.rate for took in found[1])
    print("| daemons | batches/s: median (min..max) | of one | CPU-ms a batch: Loader | daemons |")
    print("|---|---|---|---|---|")
    for count, epochs in found.items():
        rates, own, theirs = zip(*epochs, strict=True)
        median = statistics.median(rates)
        print(
            f"| {count} | {median:.1f} ({min(rates):.1f}..{max(rates):.1f}) | {median / one:.2f} |"
            f" {statistics.median(own):.2f} | {statistics.median(theirs):.2f} |"
        )


if __name__ == "__main__":
    main()
