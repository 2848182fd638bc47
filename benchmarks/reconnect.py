"""Measures the wait of a loop whose daemon is killed and started again at once.

    python benchmarks/reconnect.py --rounds 10 --workers 2

Each round starts a daemon on packed JPEGs (W1, batches of 128) whose pipeline is already compiled,
takes a few batches of a Loader that reconnects, kills the daemon with SIGKILL, starts another at
the same address at the same moment, and takes batches until one comes from it. It measures from the
start of that process to the batch. `private` is the same with a private daemon, which the loader
starts; there the time begins with the kill. Prints Markdown: median and greatest over the rounds.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pipelines
from workloads import packed_of

from stoker.client import Connection, Loader
from stoker.client.private.private_daemon import daemon_pids

BATCH = 128


def started(address: str, packed: Path, workers: int) -> "subprocess.Popen[bytes]":
    """Start a daemon; return without waiting for it."""
    command = [sys.executable, "-m", "stoker.server", "serve", "--address", address]
    command += ["--dataset", f"photos={packed}", "--workers", str(workers)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.Popen([*command, "--log-level", "error"], env=environment)


def until_reconnected(loader: Loader, before: int) -> None:
    """Take batches until one comes from a new daemon."""
    while True:
        for _ in loader:
            if loader.statistics().reconnects > before:
                return


def standing(packed: Path, workers: int) -> float:
    """Return the seconds of one round with a daemon at an address."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/stoker.sock"
        process = started(address, packed, workers)
        try:
            while not Path(folder, "stoker.sock.fd").exists():
                time.sleep(0.01)
            with Loader(
                address,
                pipeline=pipelines.w1,
                batch_size=BATCH,
                connection=Connection(reconnect_s=60),
            ) as loader:
                next(iter(loader))
                process.kill()
                process.wait()
                begun = time.perf_counter()
                process = started(address, packed, workers)
                until_reconnected(loader, 0)
                return time.perf_counter() - begun
        finally:
            process.terminate()
            process.wait()


def private(packed: Path, workers: int) -> float:
    """Return the seconds of one round with a private daemon."""
    with Loader(
        packed,
        pipeline=pipelines.w1,
        batch_size=BATCH,
        connection=Connection(reconnect_s=60),
        workers=workers,
    ) as loader:
        next(iter(loader))
        begun = time.perf_counter()
        os.kill(daemon_pids()[-1], signal.SIGKILL)
        until_reconnected(loader, 0)
        return time.perf_counter() - begun


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="From a daemon's restart to the next batch.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--packed", type=Path, help="a packed dataset in place of that of W1")
    given = parser.parse_args()
    packed = given.packed or packed_of(given.data, "w1", "packed")
    sys.stdout.write("| daemon | median s | greatest s |\n|---|---|---|\n")
    for name, measure in (("standing", standing), ("private", private)):
        measure(packed, given.workers)  # it fills the cache of compiled code
        found = [measure(packed, given.workers) for _ in range(given.rounds)]
        sys.stdout.write(f"| {name} | {statistics.median(found):.2f} | {max(found):.2f} |\n")


if __name__ == "__main__":
    main()
