"""Latency of batches: after the start of a daemon, for a second client, between epochs.

    python benchmarks/start.py --workers 16 --rounds 5

Each round starts a daemon on packed JPEGs (W1, batches of 128) whose pipeline is already compiled,
and measures from outside:

- `listening`: from the start of the process to its ready line;
- `first batch`: from the start of the process to a client's first batch, including the client's
  connection (its imports are done before);
- `all workers up`: from the start until every worker has reported that it is ready;
- `second client`: from the call of a second Loader of the same pipeline, while the first trains, to
  its first batch;
- `one batch`: the median time between batches within an epoch, for one consumer;
- `epoch turn`: the time between the last batch and the first of the next epoch.

CPU seconds are those of the daemon's whole process tree at its first batch. On a machine that is
busy or has fewer cores than workers, they say more than wall-clock time. The first round fills the
compile cache and is not counted. It also writes Python's bytecode, which an installation has, even
if the environment forbids writing it. Prints Markdown: least and median over the rounds, because
other programs only ever add time.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pipelines
from meter import tree_s
from workloads import packed_of

from stoker.client import Loader
from stoker.client.client_session import ClientSession
from stoker.protocol.messages import AskStatus, Status

HERE = Path(__file__).parent
BATCH = 128
EPOCHS = 3


@contextlib.contextmanager
def daemon(packed: Path, workers: int) -> Iterator[tuple[str, int]]:
    """Run a daemon; yield its address and process id once it listens."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/stoker.sock"
        reader, writer = os.pipe()
        command = [sys.executable, "-m", "stoker.server", "serve", "--address", address]
        command += ["--dataset", f"photos={packed}", "--workers", str(workers)]
        command += ["--ready-fd", str(writer), "--log-level", "warning"]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(command, pass_fds=(writer,), env=environment)
        os.close(writer)
        try:
            with os.fdopen(reader) as ready:
                assert "address" in json.loads(ready.readline())
            yield address, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def loader(address: str) -> Loader:
    """Open the workload at a daemon."""
    return Loader(
        address, dataset="photos", pipeline=pipelines.w1, batch_size=BATCH, device="numpy"
    )


def workers_up(address: str) -> int:
    """Return the number of ready workers of a daemon."""
    session = ClientSession(address, 60.0)
    session.send(AskStatus())
    session.receive(time.monotonic() + 60.0)
    status = session.inbox.popleft()
    session.close()
    assert isinstance(status, Status)
    return int(status.counters["workers_up"])


def turns_s(first: Loader) -> tuple[float, float]:
    """Return (median seconds from batch to batch, median seconds from epoch to epoch)."""
    steps, turns, before = [], [], None
    for _ in range(EPOCHS):
        for batch in first:
            now = time.perf_counter()
            if before is not None:
                (steps if batch.step else turns).append(now - before)
            before = now
    return statistics.median(steps), statistics.median(turns)


def measure(packed: Path, workers: int) -> dict[str, float]:
    """Run one round."""
    found = {}
    begun = time.perf_counter()
    with daemon(packed, workers) as (address, pid):
        found["listening"] = time.perf_counter() - begun
        with loader(address) as first:
            batches = iter(first)
            next(batches)
            found["first batch"] = time.perf_counter() - begun
            found["CPU-seconds to the first batch"] = tree_s(pid)
            while workers_up(address) < workers:
                pass
            found["all workers up"] = time.perf_counter() - begun
            found["CPU-seconds to all workers up"] = tree_s(pid)
            asked = time.perf_counter()
            with loader(address) as second:
                next(iter(second))
                found["second client"] = time.perf_counter() - asked
            found["one batch"], found["epoch turn"] = turns_s(first)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    packed = packed_of(arguments.data, "w1", "packed")
    rounds = [measure(packed, arguments.workers) for _ in range(arguments.rounds + 1)][1:]
    print(f"{arguments.workers} workers, {len(os.sched_getaffinity(0))} cores\n")
    print("| what | least, s | median, s |\n|---|---|---|")
    for name in rounds[0]:
        values = [found[name] for found in rounds]
        print(f"| {name} | {min(values):.3f} | {statistics.median(values):.3f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
