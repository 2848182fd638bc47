"""A training process of its own: reads a stream and prints the digest of each batch.

    python reader.py ADDRESS OPTIONS

Both are JSON: an address or a list of them, and the arguments of a Loader; `graph` in place of a
name is the pipeline as data, and `buckets` are the arguments of `Buckets` or `LengthBuckets`. Each
line is whole, so that a test that kills the process can compare what it had received.
"""

import json
import sys
import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace

from stoker.client import Buckets, LengthBuckets, Loader
from stoker.pipeline.graph.graph import Graph
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import PeerError


def main() -> None:
    where, options = json.loads(sys.argv[1]), loader_options(json.loads(sys.argv[2]))
    with open_loader(where, options) as loader:
        for _ in range(options["total_epochs"]):
            for batch in loader:
                sys.stdout.write(batch_digest(batch, batch.epoch, batch.step) + "\n")
                sys.stdout.flush()


def loader_options(data: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of a Loader that came as JSON."""
    options = dict(data)
    if "graph" in options:
        graph = Graph.from_data(options.pop("graph"))
        options["pipeline"] = SimpleNamespace(graph=lambda: graph)
    if "buckets" in options:
        buckets = options["buckets"]
        options["buckets"] = (LengthBuckets if "field" in buckets else Buckets)(**buckets)
    return options


def open_loader(where: str | list[str], options: dict[str, object]) -> Loader:
    """Open a stream, as soon as all its daemons listen: they may be killed and start again."""
    pause, deadline = threading.Event(), time.monotonic() + (options["reconnect_s"] or 0.0)
    while True:
        try:
            return Loader(where, device="numpy", **options)
        except PeerError:
            if time.monotonic() > deadline:
                raise
            pause.wait(0.05)


if __name__ == "__main__":
    main()
