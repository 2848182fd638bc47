"""Stoker as a trainer uses it: batches from a daemon's workers, through the client.

    python benchmarks/through_daemon.py PACKED --workload w1 --workers 2 --epochs 3

The daemon is a process of its own, started by the client because it is given a path. One JSON line
an epoch; the first is the warm-up.
"""

import argparse
import json
import sys
from pathlib import Path

import pipelines
from meter import measure

from stoker.client import Loader


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=Path)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    with Loader(
        str(arguments.packed),
        pipeline=getattr(pipelines, arguments.workload),
        batch_size=arguments.batch_size,
        workers=arguments.workers,
    ) as loader:
        for _ in range(arguments.epochs):
            epoch = measure(lambda: (batch.image for batch in loader))
            print(json.dumps(epoch.to_data()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
