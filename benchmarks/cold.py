"""Read-ahead with an empty page cache: a worker's code with and without it.

    python benchmarks/cold.py [--rounds 3] [--rows 1024]

Each run is a fresh process that first drops the dataset's files from the page cache, then computes
rows of a shuffled epoch of W1 on one core. `warm` does not drop them. The possible gain depends on
the machine's storage and its own read-ahead (`/sys/block/*/queue/read_ahead_kb`). Prints rows per
second, medians over the rounds, and how often the process waited for storage.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pipelines
from workloads import packed_of

from stoker.dataset import open_dataset
from stoker.jit.arithmetic import COMPILED
from stoker.pipeline.compiled.executor import compile_plan
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.reference import make_spec
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource

BATCH = 64
KINDS = ("warm", "cold", "cold, read ahead")


def forget(folder: Path) -> None:
    """Make the kernel drop the pages of the files."""
    for path in folder.glob("*.arrow"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def run(kind: str, packed: Path, rows: int) -> dict[str, float]:
    """Compute rows; return rows per second and the number of major faults."""
    graph = pipelines.w1.graph()
    spec = make_spec(packed, graph, batch_size=BATCH)
    with open_dataset(packed) as dataset:
        engine = compile_plan(worker_plan(graph, dataset))
        layout = slot_layout(engine.plan.delivered, BATCH)
        slot = np.zeros(layout.slot_bytes, np.uint8)
        RowComputer(spec, [RowSource(dataset, engine)], layout, arithmetic=COMPILED).fill(
            slot, 0, 0, 0, 4
        )
    if kind != "warm":
        forget(packed)
    with open_dataset(packed) as dataset:
        computer = RowComputer(spec, [RowSource(dataset, engine)], layout, arithmetic=COMPILED)
        if kind == "cold":
            computer._ahead = None
        waits, begun = resource.getrusage(resource.RUSAGE_SELF).ru_majflt, time.perf_counter()
        for step in range(rows // BATCH):
            for low in range(0, BATCH, 16):
                computer.fill(slot, 0, 1 + step, low, low + 16)
        seconds = time.perf_counter() - begun
        waits = resource.getrusage(resource.RUSAGE_SELF).ru_majflt - waits
    return {"rows_per_s": rows / seconds, "waits": waits}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--kind", choices=KINDS)
    arguments = parser.parse_args()
    packed = packed_of(arguments.data, "w1", "packed")
    if arguments.kind:
        print(json.dumps(run(arguments.kind, packed, arguments.rows)))
        return 0
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for _ in range(arguments.rounds):
        for kind in KINDS:
            command = [sys.executable, __file__, "--data", str(arguments.data), "--kind", kind]
            command += ["--rows", str(arguments.rows)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[kind].append(json.loads(done.stdout.splitlines()[-1]))
    print("| | rows/s | waits for storage |\n|---|---|---|")
    for kind, runs in found.items():
        rate, waits = (statistics.median(r[name] for r in runs) for name in ("rows_per_s", "waits"))
        print(f"| {kind} | {rate:,.0f} | {waits:,.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
