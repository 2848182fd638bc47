"""Measures batches when other work uses the processor's caches between them.

    python benchmarks/delivery_caches.py [--rounds 5] [--copied 0 1 4 16 64]

Batches come from a private daemon with one worker. Two tables in Markdown, with medians:

- Batches of 64 KiB, between which the reader copies some MiB, as a training step might. Its
  copying does not count: the client's figure is the CPU time of the reading thread inside `next()`,
  the daemon's that of the whole process. So all rows run the same code for the same bytes.
- Ready batches, as `delivery.py` takes them: three after the first one that follows a pause. They
  are grouped by whether the client read a message of the daemon meanwhile. Eight times as many
  rounds.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import delivery
import numpy as np

from stoker.client import Batch, Loader
from stoker.client.client_session import ClientSession
from stoker.client.private.private_daemon import daemon_pids

SIZE = 65536
BATCHES = 300


def costs(batches: Iterator[Batch], copied: int) -> tuple[float, float]:
    """Take batches and copy that number of bytes after each; return seconds of CPU of one.

    Returns:
        Those of the reading thread in `next()`, and those of the daemon.
    """
    source, target = np.ones(copied, np.uint8), np.empty(copied, np.uint8)
    daemon = daemon_pids()[-1]
    client_s, daemon_s = 0.0, delivery.thread_s(daemon)
    for _ in range(BATCHES):
        np.copyto(target, source)
        begun = time.thread_time()
        next(batches)
        client_s += time.thread_time() - begun
    return client_s / BATCHES, (delivery.thread_s(daemon) - daemon_s) / BATCHES


def ready_costs(
    batches: Iterator[Batch], before: int, received: Callable[[], int]
) -> tuple[float, int]:
    """Take some batches, pause, take one; return what the next three cost.

    Returns:
        The client's seconds of CPU of one, and how many records it received for all three.
    """
    for _ in range(before):
        next(batches)
    delivery.until_ready()
    next(batches)
    records = received()
    cost = delivery.costs(batches, delivery.PREFETCH // 2 - 1, slept=False)
    return cost.client_s, received() - records


@contextlib.contextmanager
def records_counted() -> Iterator[Callable[[], int]]:
    """Count the records that sessions of this process receive; yields what returns the count."""
    admit, counts = ClientSession._admit, []

    def counted(session: ClientSession, records: list[object]) -> None:
        counts.append(len(records))
        admit(session, records)

    with mock.patch.object(ClientSession, "_admit", counted):
        yield lambda: sum(counts)


def copies(folder: Path, rounds: int, copied: list[int]) -> None:
    """Print what batches cost with copies between them."""
    found: dict[int, list[tuple[float, float, float]]] = {mib: [] for mib in copied}
    with opened(folder, SIZE) as loader:
        batches = delivery.endless(loader)
        costs(batches, 0)
        for _ in range(rounds):
            for mib, each in found.items():
                waits = loader.statistics().waits
                spent = costs(batches, mib * 2**20)
                each.append((*spent, (loader.statistics().waits - waits) / BATCHES))
    print("| MiB copied between batches | client, us | daemon, us | waited for |")
    print("|---|---|---|---|")
    for mib, each in found.items():
        client_s, daemon_s, waited = map(statistics.median, zip(*each, strict=True))
        print(f"| {mib} | {1e6 * client_s:.0f} | {1e6 * daemon_s:.0f} | {waited:.0%} |")


def ready(folder: Path, rounds: int, sizes: list[int]) -> None:
    """Print what ready batches cost, with and without a message that is read meanwhile."""
    print("| ready batches of | no message, us | a message, us | rounds | records in it |")
    print("|---|---|---|---|---|")
    for kib in sizes:
        with opened(folder, kib * 1024) as loader, records_counted() as received:
            batches = delivery.endless(loader)
            found = [
                ready_costs(batches, 4 * delivery.PREFETCH + number % 8, received)
                for number in range(rounds)
            ]
        without = [1e6 * spent_s for spent_s, records in found if not records]
        having = [(1e6 * spent_s, records) for spent_s, records in found if records]
        if not without or not having:
            print(f"| {kib} KiB | too few rounds | | {len(without)}, {len(having)} | |")
            continue
        spent_us, records = map(statistics.median, zip(*having, strict=True))
        print(
            f"| {kib} KiB | {statistics.median(without):.0f} | {spent_us:.0f} |"
            f" {len(without)}, {len(having)} | {records:g} |",
            flush=True,
        )


def opened(folder: Path, size: int) -> Loader:
    """Pack batches of a size, and return a loader of them."""
    packed = folder / str(size)
    if not packed.exists():
        delivery.arrays(folder, size)
    return Loader(
        str(packed), pipeline=delivery.passed_on, batch_size=delivery.ROWS, workers=1,
        prefetch=delivery.PREFETCH,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copied", type=int, nargs="+", default=[0, 1, 4, 16, 64])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copies(Path(folder), given.rounds, given.copied)
        print()
        ready(Path(folder), 8 * given.rounds, [64, 1024])
    return 0


if __name__ == "__main__":
    sys.exit(main())
