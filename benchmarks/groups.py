"""Measures further members of a group: CPU time of N trainings against one, through one daemon.

    python benchmarks/groups.py PACKED --workload w1 --members 1 4 --rounds 5 --workers 2
    python benchmarks/groups.py PACKED --workload w1 --members 1 2 4 --mode alone fork

Starts a daemon and N member processes with `Loader(group=...)`. All begin an epoch at the same time
and read one value of each image; a round measures the CPU time of daemon, workers and members for
`--epochs` of them. Numbers of members and modes take turns, so that other programs disturb all
alike. In the mode "fork" each member has a seed of its own, and in "alone" it also has no group.
`decodes` is the number of fields decoded for each sample delivered to one member, whole or a box of
it. Prints Markdown.
"""

import argparse
import contextlib
import multiprocessing as mp
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pipelines
from meter import tree_s

from stoker.client import Group, Loader, Shuffle
from stoker.client.client_session import ClientSession
from stoker.protocol.messages import AskStatus, Status


def member(
    address: str, workload: str, batch_size: int, more: dict[str, object], pipe: Connection
) -> None:
    """Take an epoch at each word from the pipe, until it is closed."""
    with Loader(
        address,
        pipeline=getattr(pipelines, workload),
        batch_size=batch_size,
        device="numpy",
        **more,
    ) as loader:
        pipe.send(len(loader))
        with contextlib.suppress(EOFError):
            while True:
                pipe.recv()
                total = sum(int(batch.image[:, 0, 0, 0].sum()) for batch in loader)
                pipe.send(total)


class Members:
    """The processes of a group."""

    def __init__(self, address: str, count: int, mode: str, workload: str, batch_size: int) -> None:
        spawn = mp.get_context("spawn")
        self.pipes, self.processes, self.alike = [], [], mode == "mirror"
        for number in range(count):
            ours, theirs = spawn.Pipe()
            more: dict[str, object] = {}
            if mode != "alone":
                more["group"] = Group(f"{mode}-{count}", size=count, mode=mode)
            if mode != "mirror":
                more |= {"seed": number, "shuffle": Shuffle(seed=0)}
            asked = (address, workload, batch_size, more, theirs)
            process = spawn.Process(target=member, args=asked)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self.steps, *_ = [pipe.recv() for pipe in self.pipes]

    def epoch(self) -> None:
        """Have all take an epoch at the same time, and compare what they read."""
        for pipe in self.pipes:
            pipe.send(None)
        totals = {pipe.recv() for pipe in self.pipes}
        if self.alike and len(totals) != 1:
            raise SystemExit(f"members of a group read different batches: {totals}")

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join()


@contextlib.contextmanager
def serving(packed: Path, workers: int) -> Iterator[str]:
    """Run a daemon; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/stoker.sock"
        command = [sys.executable, "-m", "stoker.server", "serve", "--address", address]
        command += ["--dataset", f"photos={packed}", "--workers", str(workers)]
        process = subprocess.Popen([*command, "--log-level", "error"])
        try:
            while not Path(folder, "stoker.sock.fd").exists():
                time.sleep(0.01)
            yield address
        finally:
            process.terminate()
            process.wait()


def decodes(address: str) -> int:
    session = ClientSession(address, 10.0)
    with contextlib.closing(session):
        session.send(AskStatus())
        session.receive(time.monotonic() + 10.0)
        status = next(record for record in session.inbox if isinstance(record, Status))
        return int(status.counters["decodes_total"])


def measure(
    packed: Path, workload: str, wanted: Sequence[tuple[str, int]], *,
    batch_size: int, rounds: int, epochs: int, workers: int,
) -> tuple[dict[tuple[str, int], list[float]], dict[tuple[str, int], list[float]]]:  # fmt: skip
    """Return, by mode and number of members, each round's CPU seconds and decodes per sample."""
    cpu_s: dict[tuple[str, int], list[float]] = {one: [] for one in wanted}
    per_sample: dict[tuple[str, int], list[float]] = {one: [] for one in wanted}
    with serving(packed, workers) as address:
        for number in range(rounds):
            for mode, count in wanted:
                group = Members(address, count, mode, workload, batch_size)
                try:
                    group.epoch()  # workers open the stream, members map the memory
                    before, decoded = tree_s(os.getpid()), decodes(address)
                    for _ in range(epochs):
                        group.epoch()
                    cpu_s[mode, count].append(tree_s(os.getpid()) - before)
                    samples = group.steps * batch_size * epochs
                    per_sample[mode, count].append((decodes(address) - decoded) / samples)
                finally:
                    group.close()
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return cpu_s, per_sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=Path)
    parser.add_argument("--workload", default="w1")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 4])
    parser.add_argument(
        "--mode", nargs="+", default=["mirror"], choices=["mirror", "fork", "alone"]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    wanted = [(mode, count) for mode in asked.mode for count in asked.members]
    cpu_s, per_sample = measure(
        asked.packed, asked.workload, wanted,
        batch_size=asked.batch_size, rounds=asked.rounds, epochs=asked.epochs,
        workers=asked.workers,
    )  # fmt: skip
    one = statistics.median(cpu_s[wanted[0]])
    print("| mode | members | CPU-s, median (min..max) | of the first | decodes |")
    print("|--|--|--|--|--|")
    for mode, count in wanted:
        found = cpu_s[mode, count]
        print(
            f"| {mode} | {count} | {statistics.median(found):.2f}"
            f" ({min(found):.2f}..{max(found):.2f}) | {statistics.median(found) / one:.3f}"
            f" | {statistics.median(per_sample[mode, count]):.2f} |"
        )


if __name__ == "__main__":
    main()
