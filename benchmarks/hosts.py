"""Two daemons against one: batches per second of a Loader; each daemon has half of the cores.

    python benchmarks/hosts.py PACKED --workload w1 --rounds 5

Each daemon is held to its half of the cores with `taskset`, as if the halves were two hosts. The
Loader runs on all cores and reads one value of each image. One daemon and two take turns. The
batches are compared: they must be the same. Prints Markdown.
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

import pipelines

from stoker.client import Loader


@contextlib.contextmanager
def serving(folder: Path, packed: Path, cores: list[int], scheme: str) -> Iterator[str]:
    """Run a daemon on some cores, a worker for each; yields its address."""
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
        yield json.loads(found)["tcp" if scheme == "tcp" else "address"]
    finally:
        process.terminate()
        process.wait()


def epoch(loader: Loader, skipped: int) -> tuple[float, str]:
    """Take an epoch; return batches per second and a digest of what was read.

    Args:
        loader: takes turns with another one, so its first batches were computed before.
        skipped: how many batches the time begins after.
    """
    digest = hashlib.sha256()
    for count, batch in enumerate(loader, 1):
        digest.update(batch.image[:, 0, 0].tobytes())
        if count == skipped:
            began = time.perf_counter()
    return (count - skipped) / (time.perf_counter() - began), digest.hexdigest()


def measure(
    packed: Path, workload: str, scheme: str, *, batch_size: int, prefetch: int, rounds: int
) -> dict[int, list[float]]:
    """Return, by number of daemons, each round's batches per second."""
    cores = sorted(os.sched_getaffinity(0))
    halves = cores[: len(cores) // 2], cores[len(cores) // 2 :]
    with contextlib.ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in halves]
        addresses = [
            stack.enter_context(serving(folder, packed, half, scheme))
            for folder, half in zip(folders, halves, strict=True)
        ]
        loaders = {
            count: stack.enter_context(
                Loader(
                    addresses[:count],
                    pipeline=getattr(pipelines, workload),
                    batch_size=batch_size,
                    prefetch=prefetch,
                    device="numpy",
                )
            )
            for count in (1, 2)
        }
        rates: dict[int, list[float]] = {1: [], 2: []}
        for number in range(rounds + 1):
            digests = {}
            for count, loader in loaders.items():
                loader.set_epoch(number)
                rate, digests[count] = epoch(loader, 4 * prefetch)
                if number:  # the first epoch warms up
                    rates[count].append(rate)
            if digests[1] != digests[2]:
                raise SystemExit("two daemons delivered other batches than one")
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=Path)
    parser.add_argument("--workload", default="w1")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--prefetch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scheme", choices=("ipc", "tcp"), default="ipc")
    asked = parser.parse_args()
    rates = measure(
        asked.packed, asked.workload, asked.scheme,
        batch_size=asked.batch_size, prefetch=asked.prefetch, rounds=asked.rounds,
    )  # fmt: skip
    one = statistics.median(rates[1])
    print("| daemons | batches/s: median (min..max) | of one |\n|---|---|---|")
    for count, found in rates.items():
        median = statistics.median(found)
        print(
            f"| {count} | {median:.1f} ({min(found):.1f}..{max(found):.1f}) | {median / one:.2f} |"
        )


if __name__ == "__main__":
    main()
