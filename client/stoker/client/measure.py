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
import contextlib
import json
import os
import sys
import time
from pathlib import Path

from stoker.client.loader import Loader
from stoker.client.options.argument_records import loader_arguments
from stoker.client.private.private_daemon import daemon_pids
from stoker.protocol.importing import add_folders
from stoker.protocol.request.stream_options import read_option

_PER_SECOND = os.sysconf("SC_CLK_TCK")
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
    options = {
        name: read_option(name, written) for name, written in json.loads(arguments.stream).items()
    }
    options.setdefault("drop_last", "buckets" in options)  # buckets carry what fills no batch
    begun = time.perf_counter()
    with Loader(
        arguments.dataset,
        pipeline=arguments.pipeline,
        workers=arguments.workers,
        prefetch=PREFETCH,
        device="numpy",
        **loader_arguments(options),
    ) as loader:
        found = _measure(loader, begun, arguments.seconds)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


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
                waited, others = loader.statistics().wait_s, _others_cpu_s()
            elif start and now - start >= seconds:
                return {
                    "rows": rows,
                    "seconds": now - start,
                    "wait_s": loader.statistics().wait_s - waited,
                    "client_cpu_s": time.process_time() - cpu,
                    "daemon_cpu_s": _daemon_cpu_s() - daemon,
                    "first_batch_s": first_batch_s,
                    "others": max(_others_cpu_s() - others, 0.0) / (now - start),
                }


def _daemon_cpu_s() -> float:
    """Return the CPU seconds that the private daemon has used, without its children."""
    return sum(map(_ticks, daemon_pids())) / _PER_SECOND


def _others_cpu_s() -> float:
    """Return the CPU seconds of this host without this process, the daemon and its children."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text().split()[1:9]]
    except (OSError, ValueError):
        return 0.0
    busy = sum(fields) - fields[3] - fields[4]  # all but idle and waiting for storage, see proc(5)
    return (busy - sum(map(_ticks, _family(os.getpid())))) / _PER_SECOND


def _family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += [later for child in task.read_text().split() for later in _family(int(child))]
    return found


def _ticks(pid: int) -> int:
    """Return the CPU time of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])  # utime and stime, see proc(5)


if __name__ == "__main__":
    sys.exit(main())
