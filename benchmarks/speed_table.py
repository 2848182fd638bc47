"""All figures of delivery that have a target, in one table: what it is, target, measured.

    python benchmarks/speed_table.py [--rounds 5] [--data benchmarks/data] [--only batches groups]

Each part is also a program of its own, which prints more: delivery, through_daemon, groups,
other_hosts, hosts, reconnect. Everything runs on this host, so use one that is idle: the CPU time
of a batch grows with the load. Makes the data of W1 and W2 on first use. Prints Markdown.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import delivery
import groups
import hosts
import other_hosts
import reconnect
from workloads import WORKLOADS, packed_of

Row = tuple[str, str, str]
"""What, target, measured."""
HERE = Path(__file__).parent
CLIENT_US, DAEMON_US = {"ready": 25, "waiting": 80}, {"waiting": 150}
SIZES = {"64 KiB": 2**16, "1 MiB": 2**20, "16 MiB": 2**24, "256 MiB": 2**28}


def batches(given: argparse.Namespace) -> Iterator[Row]:
    """CPU time of client and daemon for a batch, and how many empty ones pass in a second."""

    def both(name: str, packed: Path, chosen: object, times: int = 1, **options: object) -> float:
        found = delivery.measure(packed, chosen, given.rounds, 1, **options)
        for when, cost in found.items():
            for who, spent, slept, bound in (
                ("client", cost.client_s, cost.client_wakeups, CLIENT_US),
                ("daemon", cost.daemon_s, cost.daemon_wakeups, DAEMON_US),
            ):
                limit = bound.get(when, 0) * (times if who == "client" else 1)
                measured = f"{1e6 * spent:.0f} us"
                if when == "waiting":
                    measured += f", {slept:.1f} wakeups"
                target = f"<= {limit} us" if limit else ""
                rows.append((f"{who}, {name}, {when}", target, measured))
        return 1 / found["waiting"].wall_s

    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size, count in SIZES.items():
            both(size, delivery.arrays(folder, count), delivery.passed_on)
            for when, spent_s in delivery.bare(count, given.rounds).items():
                rows.append((f"bare ZeroMQ, {size}, {when}", "", f"{1e6 * spent_s:.0f} us"))
        small = folder / str(SIZES["64 KiB"])
        both("64 KiB, digests", small, delivery.passed_on, 2, verify=True)
        images = delivery.images(folder / "images")
        both("images of 32x32", images, delivery.flipped)
        both("images of 32x32, params", images, delivery.flipped, 2, params=True)
        rate = both("label alone", small, delivery.label_alone)
        yield from rows
        yield "batches of a label", ">= 5,000 a second", f"{rate:,.0f}"
        died = delivery.death_s(small, given.rounds, 2, folder)
        yield "worker death to re-issued work", "<= 10 ms", f"{1e3 * died:.1f} ms"


def slots(given: argparse.Namespace) -> Iterator[Row]:
    """W2 through the daemon, against plain loops that write as many slots in turn."""
    packed = packed_of(given.data, "w2", "packed")
    size = str(WORKLOADS["w2"].batch_size)
    options = ["--workload=w2", f"--batch-size={size}", "--workers=2", "--epochs=4"]
    rates: dict[str, list[float]] = {"plain_loops": [], "through_daemon": []}
    for _ in range(given.rounds):
        for name, found in rates.items():
            more = ["--slots=8"] if name == "plain_loops" else []
            command = [sys.executable, str(HERE / f"{name}.py"), str(packed), *options, *more]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            epochs = [json.loads(line) for line in done.stdout.splitlines()]
            found += [epoch["images_per_s"] for epoch in epochs[1:]]
    plain, daemon = (statistics.median(found) for found in rates.values())
    yield "W2 through the daemon, of plain loops", ">= 0.9", f"{daemon / plain:.2f}"


def members(given: argparse.Namespace) -> Iterator[Row]:
    """CPU time of four members of a group, against one."""
    packed = packed_of(given.data, "w1", "packed")
    cpu_s, decodes = groups.measure(
        packed,
        "w1",
        [("mirror", 1), ("mirror", 4)],
        batch_size=256,
        rounds=given.rounds,
        epochs=2,
        workers=2,
    )
    ratio = statistics.median(cpu_s["mirror", 4]) / statistics.median(cpu_s["mirror", 1])
    yield "group of four, CPU time of one", "<= 1.15", f"{ratio:.2f}"
    yield "group of four, decodes per sample", "1", f"{statistics.median(decodes['mirror', 4]):.2f}"


def tcp(given: argparse.Namespace) -> Iterator[Row]:
    """Batches of 1 and 32 MiB over loopback, against bare ZeroMQ and CURVE."""
    for size in (2**20, 2**25):
        found = other_hosts.rounds_of(size, given.rounds, 2.0)
        rate = {
            kind: statistics.median(m.bytes / m.wall_s for m in measured)
            for kind, measured in found.items()
        }
        plain, curve = (
            rate["tcp"] / rate[other_hosts.PLAIN],
            rate["tcp, keys"] / rate[other_hosts.CURVE],
        )
        name = f"{size // 2**20} MiB over tcp"
        yield f"{name}, of bare ZeroMQ", ">= 0.8", f"{plain:.2f}"
        yield f"{name} with keys, of ZeroMQ with CURVE", ">= 2.5", f"{curve:.2f}"


def daemons(given: argparse.Namespace) -> Iterator[Row]:
    """Two daemons with half of the cores each, against one with half."""
    packed = packed_of(given.data, "w1", "packed")
    for scheme in ("ipc", "tcp"):
        rates = hosts.measure(packed, "w1", scheme, batch_size=8, prefetch=4, rounds=given.rounds)
        ratio = statistics.median(rates[2]) / statistics.median(rates[1])
        yield f"two daemons over {scheme}, of one", ">= 1.9", f"{ratio:.2f}"


def restart(given: argparse.Namespace) -> Iterator[Row]:
    """From the start of a new daemon to the next batch of a loop."""
    packed = packed_of(given.data, "w1", "packed")
    reconnect.standing(packed, 2)  # it fills the cache of compiled code
    found = [reconnect.standing(packed, 2) for _ in range(given.rounds)]
    yield "restart of the daemon to the next batch", "<= 3 s", f"{statistics.median(found):.2f} s"


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    part.__name__: part for part in (batches, slots, members, tcp, daemons, restart)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    print("| what | target | measured |\n|---|---|---|")
    for name in given.only:
        for row in PARTS[name](given):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
