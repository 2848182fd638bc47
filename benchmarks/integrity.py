"""Measures what a worker can do besides: its code with and without it, on W1 and W2.

    python benchmarks/integrity.py [--check rows|verify|stages] [--workload w1 w2] [--data DIR]

`rows` compares stored rows (`integrity = "rows"`), `verify` computes the digests of rows for a
`Loader(verify=True)`; for that, the time that a client takes to compute them again is printed too.
`stages` times the stages of some rows (`metrics.stage_times = true`).

Both run in one process on one thread, and take turns step by step, on the same steps, with all
files in the page cache. Prints the CPU time of a row without the check, and the median over the
rounds of the ratio with it to without it.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pipelines
from workloads import WORKLOADS, packed_of

from stoker.dataset import open_dataset
from stoker.jit.arithmetic import COMPILED
from stoker.pipeline.compiled.executor import compile_plan
from stoker.protocol.row_digests import RowDigests
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.reference import make_spec
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.row_times import RowTimes
from stoker.server.rows.sample_rows import RowSource


def measure(
    workload: str, packed: Path, check: str, rounds: int, steps: int
) -> tuple[float, float, float]:
    """Return CPU seconds of a row without the check, the median ratio, and seconds of a client."""
    graph, batch = getattr(pipelines, workload).graph(), WORKLOADS[workload].batch_size
    spec = make_spec(packed, graph, batch_size=batch)
    ways = []
    for on in (False, True):
        dataset = open_dataset(packed, integrity="rows" if on and check == "rows" else "off")
        engine = compile_plan(worker_plan(graph, dataset))
        layout = slot_layout(engine.plan.delivered, batch)
        verify = on and check == "verify"
        times = RowTimes() if on and check == "stages" else None
        source = RowSource(dataset, engine, times)
        ways.append(RowComputer(spec, [source], layout, arithmetic=COMPILED, verify=verify))
    slot = np.zeros(layout.slot_bytes, np.uint8)
    taken: list[list[float]] = []
    for number in range(rounds + 1):  # the first warms up
        seconds = [0.0, 0.0]
        for step in range(steps):
            order = (0, 1) if (number + step) % 2 else (1, 0)
            for way in order:
                begun = time.process_time()
                ways[way].fill(slot, number, step, 0, batch)
                if way and times is not None and times.rows:
                    times.take()
                seconds[way] += time.process_time() - begun
        taken.append(seconds)
    plain = statistics.median(off for off, _ in taken[1:])
    ratio = statistics.median(rows / off for off, rows in taken[1:])
    digests, begun = RowDigests(engine.plan.delivered), time.process_time()
    for _ in range(rounds):
        digests.of(slot, layout.outputs, 0, batch)
    client_s = (time.process_time() - begun) / (rounds * batch)
    return plain / (steps * batch), ratio, client_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--check", choices=("rows", "verify", "stages"), default="rows")
    parser.add_argument("--workload", choices=WORKLOADS, nargs="+", default=["w1", "w2"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2, help="of a round")
    arguments = parser.parse_args()
    for workload in arguments.workload:
        packed = packed_of(arguments.data, workload, "packed")
        row_s, ratio, client_s = measure(
            workload, packed, arguments.check, arguments.rounds, arguments.steps
        )
        client = f", a client {1e6 * client_s:.1f} us" if arguments.check == "verify" else ""
        print(f"{workload}: {1e6 * row_s:.1f} us a row, with the check {ratio:.3f} of it{client}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
