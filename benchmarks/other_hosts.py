"""Batches over TCP against bare ZeroMQ: bytes per second and CPU time, plain and encrypted.

    python benchmarks/other_hosts.py --sizes 65536 1048576 33554432 --rounds 5

The contenders take turns in one run, all over loopback:

- `zeromq`: PUSH to PULL between two processes; one message is one batch, sent and received without
  a copy in Python.
- `zeromq, CURVE`: the same with keys.
- `tcp`: a Loader at `tcp://` of a daemon with `--insecure`; a worker fills batches with raw rows.
- `tcp, keys`: the same with keys, so CURVE for messages and TLS 1.3 for batches.
- `ipc`: a Loader on the daemon's host, to tell the worker's part.

A receiver reads one byte of each page. Rates are medians over rounds; CPU time is that of all
processes. Prints Markdown.
"""

import argparse
import contextlib
import json
import multiprocessing as mp
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zmq
from meter import tree_s

from stoker.client import Connection, Loader
from stoker.dataset import schema, write
from stoker.pipeline import pipeline

PAGE = 4096
ROWS = 64
CURVE, PLAIN = "zeromq, CURVE", "zeromq"
TCP, KEYS, IPC = "tcp", "tcp, keys", "ipc"


class Measured(NamedTuple):
    """The result of one contender in one round."""

    batches: int
    bytes: int
    wall_s: float
    cpu_s: float


@pipeline
def as_stored(sample):
    """Deliver rows as they are."""
    return {"data": sample.data}


def send_for_ever(port: int, size: int, keys: tuple[bytes, bytes] | None) -> None:
    """Send messages of one size until the process is ended."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.setsockopt(zmq.SNDHWM, 4)
        if keys is not None:
            push.curve_server = True
            push.curve_publickey, push.curve_secretkey = keys
        push.bind(f"tcp://127.0.0.1:{port}")
        data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
        while True:
            push.send(data, copy=False)


@contextlib.contextmanager
def zeromq(size: int, *, curve: bool) -> Iterator[Callable[[], int]]:
    """Yield a function that receives one batch and returns its size."""
    daemon_keys, own = zmq.curve_keypair(), zmq.curve_keypair()
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pull.linger = 0
        pull.setsockopt(zmq.RCVHWM, 4)
        with context.socket(zmq.PAIR) as probe:
            port = probe.bind_to_random_port("tcp://127.0.0.1")
        if curve:
            pull.curve_serverkey = daemon_keys[0]
            pull.curve_publickey, pull.curve_secretkey = own
        args = (port, size, daemon_keys if curve else None)
        sender = mp.get_context("spawn").Process(target=send_for_ever, args=args)
        sender.start()
        pull.connect(f"tcp://127.0.0.1:{port}")

        def receive() -> int:
            frame = pull.recv(copy=False)
            touch(np.frombuffer(frame.buffer, np.uint8))
            return len(frame)

        try:
            yield receive
        finally:
            sender.terminate()
            sender.join()


@contextlib.contextmanager
def stoker(address: str, rows: int, connection: Connection) -> Iterator[Callable[[], int]]:
    """Yield a function that takes one batch of a Loader and returns its size."""
    with Loader(
        address,
        pipeline=as_stored,
        batch_size=rows,
        device="numpy",
        prefetch=4,
        shuffle=False,
        connection=connection,
    ) as loader:

        def batches() -> Iterator[np.ndarray]:
            while True:
                for batch in loader:
                    yield batch.data

        taken = batches()

        def receive() -> int:
            data = next(taken).reshape(-1)
            touch(data)
            return data.nbytes

        yield receive


def touch(data: np.ndarray) -> None:
    """Read one byte of each page."""
    data[::PAGE].sum()


def measure(receive: Callable[[], int], seconds: float) -> Measured:
    """Take batches for a while, after some to begin with."""
    for _ in range(8):
        receive()
    cpu, began = tree_s(os.getpid()), time.perf_counter()
    batches = total = 0
    while (wall := time.perf_counter() - began) < seconds:
        total += receive()
        batches += 1
    return Measured(batches, total, wall, tree_s(os.getpid()) - cpu)


@contextlib.contextmanager
def serving(folder: Path, size: int, *flags: str) -> Iterator[dict[str, str]]:
    """Run a daemon; yields its addresses."""
    ready, theirs = os.pipe()
    command = [sys.executable, "-m", "stoker.server", "serve", f"--address=ipc://{folder}/s.sock"]
    command += [
        f"--dataset=rows={folder}/{size}",
        "--tcp=tcp://127.0.0.1:0",
        f"--ready-fd={theirs}",
    ]
    command += ["--workers=1", "--log-level=error", *flags]
    process = subprocess.Popen(command, pass_fds=[theirs])
    os.close(theirs)
    try:
        with open(ready) as file:
            yield json.load(file)
    finally:
        process.terminate()
        process.wait()


def contenders(folder: Path, size: int, rows: int) -> dict[str, Callable[[], object]]:
    """Return name -> a function that makes a context of a receiver."""
    keys = Connection(key=f"{folder}/me.key", daemon_key=f"{folder}/daemon.key.pub")
    guarded = (f"--key={folder}/daemon.key", f"--clients={folder}/me.key.pub")

    @contextlib.contextmanager
    def loader(kind: str) -> Iterator[Callable[[], int]]:
        flags = guarded if kind == KEYS else ("--insecure",)
        with serving(folder, size, *flags) as ready:
            address = ready["address" if kind == IPC else "tcp"]
            with stoker(address, rows, keys if kind == KEYS else Connection()) as receive:
                yield receive

    return {
        PLAIN: lambda: zeromq(size, curve=False),
        CURVE: lambda: zeromq(size, curve=True),
        TCP: lambda: loader(TCP),
        KEYS: lambda: loader(KEYS),
        IPC: lambda: loader(IPC),
    }


def make(folder: Path, size: int) -> int:
    """Write a dataset whose batches have that size; return the number of rows in one."""
    rows = min(ROWS, max(1, size // 16384))
    data = np.random.default_rng(1).integers(0, 256, (4 * rows, size // rows), np.uint8)
    write(
        folder / str(size),
        [schema.array("data", "uint8", (size // rows,))],
        [{"data": row} for row in data],
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[65536, 2**20, 2**25])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    asked = parser.parse_args()
    for size in asked.sizes:
        report(size, rounds_of(size, asked.rounds, asked.seconds))


def rounds_of(size: int, rounds: int, seconds: float) -> dict[str, list[Measured]]:
    """Return what each contender moved in each round, with batches of that many bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key in ("daemon", "me"):
            command = [sys.executable, "-m", "stoker.server", "keygen", f"{folder}/{key}.key"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, list[Measured]] = {}
        made = contenders(folder, size, make(folder, size))
        for number in range(rounds):
            for kind, start in made.items():
                with start() as receive:
                    found.setdefault(kind, []).append(measure(receive, seconds))
            print(f"{size}: round {number + 1} of {rounds}", file=sys.stderr)
    return found


def report(size: int, found: dict[str, list[Measured]]) -> None:
    rates = {kind: [m.bytes / m.wall_s / 1e9 for m in measured] for kind, measured in found.items()}
    medians = {kind: statistics.median(rate) for kind, rate in rates.items()}
    print(f"\nBatches of {size:,} bytes\n\n| contender | GB/s: median (min..max) | of zeromq |"
          " of zeromq, CURVE | batches/s | CPU-ms a GB |\n|---|---|---|---|---|---|")  # fmt: skip
    for kind, rate in rates.items():
        cpu = statistics.median(m.cpu_s * 1e3 / (m.bytes / 1e9) for m in found[kind])
        print(
            f"| {kind} | {medians[kind]:.2f} ({min(rate):.2f}..{max(rate):.2f})"
            f" | {medians[kind] / medians[PLAIN]:.2f} | {medians[kind] / medians[CURVE]:.2f}"
            f" | {medians[kind] * 1e9 / size:,.0f} | {cpu:,.0f} |"
        )


if __name__ == "__main__":
    main()
