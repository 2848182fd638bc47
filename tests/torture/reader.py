"""A training process of its own: reads a stream and prints the digest of each batch.

    python reader.py ADDRESS OPTIONS

OPTIONS is JSON, the arguments of a Loader; `graph` in place of a name is the pipeline as data, and
`buckets` are the arguments of `Buckets`. Each line is whole, so that a test that kills the
process can compare what it had received.
"""

import json
import os
import sys
import time
from types import SimpleNamespace

from stoker.client import Buckets, Loader
from stoker.pipeline.graph.graph import Graph
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import ConnectError


def main() -> None:
    address, options = sys.argv[1], json.loads(sys.argv[2])
    epochs = options["total_epochs"]
    if "graph" in options:
        graph = Graph.from_data(options.pop("graph"))
        options["pipeline"] = SimpleNamespace(graph=lambda: graph)
    if "buckets" in options:
        options["buckets"] = Buckets(**options["buckets"])
    with open_loader(address, options) as loader:
        for _ in range(epochs):
            for batch in loader:
                sys.stdout.write(batch_digest(batch, batch.epoch, batch.step) + "\n")
                sys.stdout.flush()


def open_loader(address: str, options: dict[str, object]) -> Loader:
    """Open a stream, as soon as a daemon listens: it may be killed and start again."""
    deadline = time.monotonic() + (options["reconnect_s"] or 0.0)
    while True:
        try:
            return Loader(address, device="numpy", **options)
        except ConnectError:
            if time.monotonic() > deadline:
                raise
            os.sched_yield()


if __name__ == "__main__":
    main()
