"""Measures the cost of delivery: CPU time of client and daemon for each batch, and the batch rate.

    python benchmarks/delivery.py [--rounds 5] [--sizes 64Ki 1Mi 16Mi 64Mi] [--workers 2]

All on one host, with a private daemon, on raw arrays of random bytes, so that workers have little
to do. A process's CPU time is that of all its threads, by its CPU clock.

- `first`: the first batch after a pause in which all that are prepared ahead have arrived. It also
  reads the announcements of the others, and finds none of its code in the processor's caches.
- `ready`: each of the next three, which have arrived too. (The client keeps back credits for fewer
  than half of what is prepared ahead, so at least that many are there.)
- `waiting`: the client takes them as fast as they come, so it waits for each.
- `bare`: what ZeroMQ alone costs the client: one message each way for a batch, which another
  process sends after it has copied as many bytes. `first` and `ready` as above, with half of the
  messages answered at once.
- `wakeups`: how often threads of client and daemon sleep for a batch, by the kernel's count.
- `batches/s`: with a pipeline that passes a label on, one client.
- `verify`, `params`: `waiting` with digests, with draw records.
- `death`: from SIGKILL of a worker to the daemon's log line, after which its rows are claimed again
  in the same turn of the loop.

Prints Markdown: the median of the rounds.
"""

import argparse
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zmq

from stoker import ops
from stoker.client import Batch, Loader
from stoker.client.private.private_daemon import daemon_pids
from stoker.dataset import schema, write
from stoker.pipeline import pipeline

UNITS = {"Ki": 2**10, "Mi": 2**20}
ROWS = 16
PREFETCH = 8
DEPTH_S = 5.0
"""Seconds to wait until all batches that are prepared ahead have arrived."""


@pipeline
def passed_on(sample):
    """Return the stored array and label."""
    return {"data": sample.data, "label": sample.label}


@pipeline
def label_alone(sample):
    """Return nothing but a label."""
    return {"label": sample.label}


@pipeline
def flipped(sample):
    """Draw one decision for each row."""
    return {"image": ops.horizontal_flip(sample.image), "label": sample.label}


class Cost(NamedTuple):
    """Of one batch: seconds of CPU, seconds until the next one, and sleeps of threads."""

    client_s: float
    daemon_s: float
    wall_s: float
    client_wakeups: float
    daemon_wakeups: float


def medians(costs: list[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))


def wakeups(pid: int) -> int:
    """Return how often threads of a process have gone to sleep."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(n.split()[1]) for n in lines if n.startswith("voluntary_ctxt_switches"))
    return total


def thread_s(pid: int) -> float:
    """Return the CPU seconds of all threads of a process, to the nanosecond.

    By the process's CPU clock, see clock_getcpuclockid(3). The counts in /proc lack what a thread
    has used since the last tick, up to 4 ms.
    """
    return time.clock_gettime(~pid << 3 | 2)


def endless(loader: Loader) -> Iterator[Batch]:
    """Yield the batches of epoch after epoch."""
    while True:
        yield from loader


def costs(batches: Iterator[Batch], count: int, *, slept: bool = True) -> Cost:
    """Take batches; return what each of them costs.

    To read wakeups costs the client as much as some batches, and what it needs leaves the caches.
    So it does not count, and without `slept` it is not done.
    """
    client, daemon = os.getpid(), daemon_pids()[-1]
    both = (client, daemon) if slept else ()
    before, daemon_s = [wakeups(pid) for pid in both], thread_s(daemon)
    client_s, begun = thread_s(client), time.perf_counter()
    for _ in range(count):
        next(batches)
    wall_s, client_s = time.perf_counter() - begun, thread_s(client) - client_s
    daemon_s = thread_s(daemon) - daemon_s
    woken = [wakeups(pid) - old for pid, old in zip(both, before, strict=True)] or [0, 0]
    return Cost(*(spent / count for spent in (client_s, daemon_s, wall_s, *woken)))


def until_ready() -> None:
    """Wait until the daemon can prepare no more batches."""
    daemon, deadline = daemon_pids()[-1], time.monotonic() + DEPTH_S
    seen = -1.0
    while (now := thread_s(daemon)) != seen and time.monotonic() < deadline:
        seen = now
        time.sleep(0.1)


def measure(
    packed: Path, chosen: object, rounds: int, workers: int, **options: object
) -> dict[str, Cost]:
    """Return the median costs of batches: first, ready, waiting."""
    found: dict[str, list[Cost]] = {"first": [], "ready": [], "waiting": []}
    with Loader(
        str(packed), pipeline=chosen, batch_size=ROWS, workers=workers, prefetch=PREFETCH, **options
    ) as loader:
        batches = endless(loader)
        for _ in range(4 * PREFETCH):
            next(batches)
        for _ in range(rounds):
            until_ready()
            found["first"].append(costs(batches, 1, slept=False))
            found["ready"].append(costs(batches, PREFETCH // 2 - 1, slept=False))
            found["waiting"].append(costs(batches, 100))
    return {name: medians(each) for name, each in found.items()}


def death_s(packed: Path, rounds: int, workers: int, log: Path) -> float:
    """Return the median seconds from the kill of a worker to the daemon's log line about it."""
    taken = []
    with Loader(str(packed), pipeline=passed_on, batch_size=ROWS, workers=workers) as loader:
        batches = endless(loader)
        for _ in range(rounds):
            next(batches)
            template = _children(daemon_pids()[-1])[0]
            lines = _deaths(loader)
            victim = _children(template)[0]
            at = time.time()
            os.kill(victim, signal.SIGKILL)
            while len(now := _deaths(loader)) == len(lines):
                time.sleep(0.005)
            taken.append(now[-1] - at)
            for _ in range(2 * PREFETCH):
                next(batches)
            time.sleep(0.5)
    return statistics.median(taken)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _deaths(loader: Loader) -> list[float]:
    """Return the times of the log lines about workers that died, of the private daemon."""
    daemon = daemon_pids()[-1]
    log = Path(os.readlink(f"/proc/{daemon}/fd/2"))
    found = [line for line in log.read_text().splitlines() if " worker_down " in line]
    return [_seconds(line) for line in found]


def _seconds(line: str) -> float:
    stamp = line[:23]  # local time, to the millisecond
    return time.mktime(time.strptime(stamp[:19], "%Y-%m-%d %H:%M:%S")) + float(stamp[19:])


def arrays(folder: Path, size: int) -> Path:
    """Pack rows of random bytes, of which `ROWS` have a size together.

    An epoch has 256 steps, or as many as fit into 512 MiB: the turn of an epoch costs the client
    about as much as a batch.
    """
    packed, width = folder / str(size), size // ROWS
    steps = max(2, min(256, 2**29 // size))
    data = np.random.default_rng(0).integers(0, 256, width, np.uint8)
    rows = ({"data": np.roll(data, n), "label": n} for n in range(steps * ROWS))
    write(packed, [schema.array("data", "uint8", (width,)), schema.label()], rows)
    return packed


def images(packed: Path) -> Path:
    """Pack raw images of 32x32, for epochs of 256 steps."""
    rng = np.random.default_rng(0)
    rows = (
        {"image": rng.integers(0, 256, (32, 32, 3), dtype=np.uint8), "label": n}
        for n in range(256 * ROWS)
    )
    write(packed, [schema.image(encoding="raw"), schema.label()], rows)
    return packed


def bare(size: int, rounds: int) -> dict[str, float]:
    """Return the CPU seconds of a batch with nothing but pyzmq: first, ready, waiting."""
    found: dict[str, list[float]] = {"first": [], "ready": [], "waiting": []}
    with tempfile.TemporaryDirectory() as folder, zmq.Context() as context:
        address = f"ipc://{folder}/bare"
        process = multiprocessing.get_context("fork").Process(target=_send, args=(address, size))
        process.start()
        with context.socket(zmq.DEALER) as socket:
            socket.connect(address)
            socket.send(b"%d" % PREFETCH)
            for _ in range(rounds):
                time.sleep(0.3)
                found["first"].append(_taken_s(socket, 1, 1))
                found["ready"].append(_taken_s(socket, PREFETCH // 2 - 1, 2))
                found["waiting"].append(_taken_s(socket, 100, 1))
            socket.send(b"0")
            process.join()
    return {name: statistics.median(each) for name, each in found.items()}


def _taken_s(socket: "zmq.Socket[bytes]", count: int, every: int) -> float:
    """Take messages, and answer every n-th; return the CPU seconds of each."""
    begun = thread_s(os.getpid())
    for number in range(1, count + 1):
        socket.poll()
        socket.recv()
        if number % every == 0:
            socket.send(b"%d" % every)
    if count % every:
        socket.send(b"%d" % (count % every))
    return (thread_s(os.getpid()) - begun) / count


def _send(address: str, size: int) -> None:
    """Copy that number of bytes and send a message, as often as each arriving message says."""
    source, slots = np.ones(size, np.uint8), np.empty((PREFETCH, size), np.uint8)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.bind(address)
        slot = 0
        while True:
            peer, wanted = socket.recv_multipart()
            if wanted == b"0":
                return
            for _ in range(int(wanted)):
                slots[slot] = source
                slot = (slot + 1) % PREFETCH
                socket.send_multipart([peer, bytes(200)])


def size_of(text: str) -> int:
    """Return the bytes of a size such as 64Ki."""
    return int(text[:-2]) * UNITS[text[-2:]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", default=["64Ki", "1Mi", "16Mi", "64Mi"])
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    rounds, workers = arguments.rounds, arguments.workers
    print("| batch | when it is taken | client, us | daemon, us | wakeups of both | batches/s |")
    print("|---|---|---|---|---|---|")

    def show(name: str, found: dict[str, Cost]) -> None:
        for when, cost in found.items():
            counted = when == "waiting"
            rate = f"{1 / cost.wall_s:,.0f}" if counted else ""
            cpu = f"{1e6 * cost.client_s:.0f} | {1e6 * cost.daemon_s:.0f}"
            slept = f"{cost.client_wakeups:.1f}, {cost.daemon_wakeups:.1f}" if counted else ""
            print(f"| {name} | {when} | {cpu} | {slept} | {rate} |")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.sizes:
            size = size_of(name)
            packed = arrays(Path(folder), size)
            show(name + "B", measure(packed, passed_on, rounds, workers))
            for when, spent_s in bare(size, rounds).items():
                print(f"| {name}B, bare | {when} | {1e6 * spent_s:.0f} | | | |", flush=True)
        first = Path(folder, str(size_of(arguments.sizes[0])))
        show("label alone", measure(first, label_alone, rounds, workers))
        show("with verify", measure(first, passed_on, rounds, workers, verify=True))
        pictures = images(Path(folder, "images"))
        show("images", measure(pictures, flipped, rounds, workers))
        show("images, with params", measure(pictures, flipped, rounds, workers, params=True))
        died = death_s(first, rounds, workers, Path(folder))
        print(f"\nworker death to re-issued work: {1e3 * died:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
