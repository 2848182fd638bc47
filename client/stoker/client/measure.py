"""Measure how fast batches arrive.

    python -m stoker.client.measure DATASET MODULE:PIPELINE --workers 2 --stream '{"seed": 3}'

`stoker bench` runs this as a process of its own: a private daemon with that many workers, and one
client that iterates and releases each batch. Batches that arrive before the loader's buffers are
full are not counted. Prints one JSON line: rows, seconds, wait_s (the time that the consumer
waited), client_cpu_s (CPU time of this process), daemon_cpu_s (CPU time of the daemon without its
workers), first_batch_s (from the loader's construction to the first batch), others (processors that
other processes kept busy while it measured).
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from stoker.client.loader import Loader
from stoker.client.options.argument_records import loader_arguments
from stoker.client.private.private_daemon import daemon_pids
from stoker.client.process_family import others_cpu_s, own_cpu_s
from stoker.protocol.importing import add_folders
from stoker.protocol.request.stream_options import read_option

WARM_S = 0.5
PREFETCH = 4


def main() -> int:
    """Measure, print, return the exit status."""
    parser = argparse.ArgumentParser(description="Measure the rate of batches.")
    parser.add_argument("dataset")
    parser.add_argument("pipeline", help="module:attribute")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--stream", default="{}", help="options of a stream by name, as JSON")
    parser.add_argument("--python-path", action="append", default=[], help="folder of modules")
    arguments = parser.parse_args()
    add_folders(arguments.python_path)
    begun = time.perf_counter()
    with measured_loader(
        arguments.dataset, arguments.pipeline, arguments.workers, json.loads(arguments.stream)
    ) as loader:
        found = _measure(loader, begun, arguments.seconds)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def measured_loader(
    dataset: str, pipeline: str, workers: int, stream: Mapping[str, Any]
) -> Loader[Any]:
    """Return a loader with a private daemon, whose batches are arrays.

    Args:
        dataset: folder of the dataset.
        pipeline: `module:attribute`.
        workers: of the daemon.
        stream: options of a stream by name, as `read_option` takes them.
    """
    options = {name: read_option(name, written) for name, written in stream.items()}
    options.setdefault("drop_last", "buckets" in options)  # buckets carry what fills no batch
    return Loader(
        dataset, pipeline=pipeline, workers=workers, prefetch=PREFETCH, device="numpy",
        **loader_arguments(options),
    )  # fmt: skip


def _measure(loader: Loader, begun: float, seconds: float) -> dict[str, float]:
    rows, batches, first_batch_s = 0, 0, 0.0
    start = cpu = daemon = waited = others = 0.0
    while True:
        for batch in loader:
            now = time.perf_counter()
            first_batch_s = first_batch_s or now - begun
            batches += 1
            rows += len(batch["index"])
            if not start and batches > PREFETCH and now - begun - first_batch_s > WARM_S:
                start, cpu, daemon, rows = now, time.process_time(), _daemon_cpu_s(), 0
                waited, others = loader.statistics().wait_s, others_cpu_s(os.getpid())
            elif start and now - start >= seconds:
                return {
                    "rows": rows,
                    "seconds": now - start,
                    "wait_s": loader.statistics().wait_s - waited,
                    "client_cpu_s": time.process_time() - cpu,
                    "daemon_cpu_s": _daemon_cpu_s() - daemon,
                    "first_batch_s": first_batch_s,
                    "others": max(others_cpu_s(os.getpid()) - others, 0.0) / (now - start),
                }


def _daemon_cpu_s() -> float:
    """Return the CPU seconds that the private daemon has used, without its children."""
    return sum(map(own_cpu_s, daemon_pids()))


if __name__ == "__main__":
    sys.exit(main())
