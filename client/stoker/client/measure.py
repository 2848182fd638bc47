"""How fast batches arrive: `python -m stoker.client.measure DATASET MODULE:PIPELINE --workers 2`.

A process of its own, for `stoker bench`: a private daemon with that many workers, one client that
reads one element of each row and gives the batch back. What arrives before the loader has its
buffers full is not counted. Prints one JSON line: rows, seconds, wait_s (the consumer waited),
client_cpu_s (of this process), first_batch_s (from the loader's making to the first batch).
"""

import argparse
import json
import sys
import time

from stoker.client.loader import Loader
from stoker.protocol.lengths import request_from_bytes

WARM_S = 0.5
PREFETCH = 4


def main() -> int:
    """Measure, print, return the exit status."""
    parser = argparse.ArgumentParser(description="How fast batches arrive.")
    parser.add_argument("dataset")
    parser.add_argument("pipeline", help="module:attribute")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--buckets", default="", help="canonical form of a request for buckets")
    parser.add_argument("--exclude", help="file that lists samples to leave out")
    arguments = parser.parse_args()
    buckets = request_from_bytes(arguments.buckets.encode()) if arguments.buckets else None
    begun = time.perf_counter()
    with Loader(
        arguments.dataset,
        pipeline=arguments.pipeline,
        batch_size=arguments.batch_size,
        workers=arguments.workers,
        prefetch=PREFETCH,
        drop_last=buckets is not None,  # buckets carry what fills no batch
        buckets=buckets,
        exclude=arguments.exclude,
        as_numpy=True,
    ) as loader:
        found = _measure(loader, begun, arguments.seconds)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def _measure(loader: Loader, begun: float, seconds: float) -> dict[str, float]:
    rows, batches, first_batch_s = 0, 0, 0.0
    start = cpu = waited = 0.0
    while True:
        for batch in loader:
            now = time.perf_counter()
            first_batch_s = first_batch_s or now - begun
            batches += 1
            rows += len(batch["index"])
            if not start and batches > PREFETCH and now - begun - first_batch_s > WARM_S:
                start, cpu, rows = now, time.process_time(), 0
                waited = loader.statistics().wait_s
            elif start and now - start >= seconds:
                return {
                    "rows": rows,
                    "seconds": now - start,
                    "wait_s": loader.statistics().wait_s - waited,
                    "client_cpu_s": time.process_time() - cpu,
                    "first_batch_s": first_batch_s,
                }


if __name__ == "__main__":
    sys.exit(main())
