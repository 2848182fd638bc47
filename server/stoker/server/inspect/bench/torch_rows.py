"""torch's DataLoader over the same data and pipeline: what a user would write without a daemon.

`python -m stoker.server.inspect.bench.torch_rows DATASET MODULE:PIPELINE --workers 2`, a process of
its own, for `stoker bench`. Each item is decoded whole and computed by the same compiled pipeline,
so the loading around it is compared: workers, queues and collating are torch's. Prints the
JSON line of `stoker.client.measure`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from stoker.dataset import open_dataset
from stoker.order.select import Remaining
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.graph.graph import Graph
from stoker.protocol.exclude import Excluded, read_ids
from stoker.protocol.importing import add_folders
from stoker.rng.row import Row
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.sample_reader import SampleReader
from stoker.server.rows.subject import load_pipeline

WARM_BATCHES = 5


class TorchRows:
    """A map-style dataset: item i is the row of sample i that is left, a dict of arrays.

    Maps and compiled code cannot go to another process: they are made there.
    """

    def __init__(self, dataset: str, graph: Graph, exclude: str | None = None) -> None:
        self._path, self._graph = dataset, graph
        self._made: tuple[Any, ...] | None = None
        with open_dataset(dataset) as opened:
            excluded = None if exclude is None else Excluded(read_ids(exclude))
            self._left = Remaining(len(opened), excluded)

    def __len__(self) -> int:
        return self._left.count

    def __getitem__(self, number: int) -> dict[str, np.ndarray]:
        if self._made is None:
            dataset = open_dataset(self._path)
            plan = worker_plan(self._graph, dataset)
            self._made = compile_plan(plan), SampleReader(dataset, plan.fields)
        engine, reader = self._made
        outputs = [np.empty(output.shape, output.dtype) for output in engine.plan.outputs]
        number = self._left.id(number)
        engine.run(Row(0, number, 0, 0, 0), reader.read(number), outputs)
        names = (output.name for output in engine.plan.outputs)
        return dict(zip(names, outputs, strict=True))


def main() -> int:
    """Measure, print, return the exit status."""
    parser = argparse.ArgumentParser(description="Measure the rate of a DataLoader's batches.")
    parser.add_argument("dataset")
    parser.add_argument("pipeline", help="module:attribute")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--exclude", help="file that lists samples to leave out")
    parser.add_argument("--python-path", action="append", default=[], help="folder of modules")
    arguments = parser.parse_args()
    add_folders(arguments.python_path)
    from torch.utils.data import DataLoader  # noqa: PLC0415 - a child's own, seconds to import

    begun = time.perf_counter()
    loader: Any = DataLoader(
        TorchRows(arguments.dataset, load_pipeline(arguments.pipeline), arguments.exclude),  # type: ignore[arg-type]
        batch_size=arguments.batch_size,
        shuffle=True,
        num_workers=arguments.workers,
        persistent_workers=True,
    )
    sys.stdout.write(json.dumps(_measure(loader, begun, arguments.seconds)) + "\n")
    return 0


def _measure(loader: Any, begun: float, seconds: float) -> dict[str, float]:
    rows, batches, first_batch_s, waited, start, cpu = 0, 0, 0.0, 0.0, 0.0, 0.0
    asked = time.perf_counter()
    while True:
        for batch in loader:
            now = time.perf_counter()
            first_batch_s = first_batch_s or now - begun
            batches += 1
            waited += now - asked
            rows += len(next(iter(batch.values())))
            if batches == WARM_BATCHES:
                start, cpu, rows, waited = now, time.process_time(), 0, 0.0
            elif start and now - start >= seconds:
                return {
                    "rows": rows,
                    "seconds": now - start,
                    "wait_s": waited,
                    "client_cpu_s": time.process_time() - cpu,
                    "first_batch_s": first_batch_s,
                }
            asked = time.perf_counter()


if __name__ == "__main__":
    sys.exit(main())
