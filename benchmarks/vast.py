"""Measures the cost of the number of samples: order and cursor of 10^3 to 10^12 samples.

    python benchmarks/vast.py --rounds 200

For each number of samples: the time for the ids of a batch of 256 at a random step, compiled and in
plain NumPy, the peak of memory that Python allocates meanwhile, and the size of a cursor. Prints
Markdown; medians over the rounds.
"""

import argparse
import json
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable

from stoker.jit.arithmetic import COMPILED, PLAIN, Arithmetic
from stoker.order.compose import dataset_order
from stoker.order.stream_order import StreamOrder
from stoker.protocol.cursor import Cursor
from stoker.protocol.spec import StreamSpec

BATCH = 256


def spec_of(rows: int) -> StreamSpec:
    """Return a shuffled stream of that number of samples."""
    digest = "0" * 32
    return StreamSpec(
        dataset=f"content:{digest}", dataset_rows=rows, pipeline=digest, batch_size=BATCH
    )


def lookups(order: StreamOrder, rows: int) -> Callable[[], None]:
    """Return a function that looks the ids of a batch at a random step up."""
    draw = random.Random(rows)

    def one() -> None:
        step = draw.randrange(rows // BATCH)
        order.rows(3, step, 0, BATCH)

    one()
    return one


def median_us(rows: int, arithmetic: Arithmetic, rounds: int) -> float:
    """Return the median time of a batch in microseconds."""
    one = lookups(dataset_order(spec_of(rows), arithmetic=arithmetic), rows)
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        one()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def peak_kib(rows: int) -> float:
    """Return the peak of memory while an order is made and used, in KiB."""
    tracemalloc.start()
    try:
        lookups(dataset_order(spec_of(rows)), rows)
        return tracemalloc.get_traced_memory()[1] / 1024
    finally:
        tracemalloc.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Order and cursor over the number of samples.")
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    sys.stdout.write("| samples | compiled us | plain us | peak KiB | cursor bytes |\n")
    sys.stdout.write("|---|---|---|---|---|\n")
    peak_kib(1000)  # what Python allocates once
    for exponent in (3, 6, 9, 12):
        rows = 10**exponent
        cursor = Cursor.at(spec_of(rows), 3, rows // BATCH).to_data()
        sys.stdout.write(
            f"| 10^{exponent} | {median_us(rows, COMPILED, rounds):.1f} "
            f"| {median_us(rows, PLAIN, rounds):.0f} | {peak_kib(rows):.0f} "
            f"| {len(json.dumps(cursor))} |\n"
        )


if __name__ == "__main__":
    main()
