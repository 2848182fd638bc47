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
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stoker.client import Batch, Buckets, LengthBuckets, Loader
from stoker.pipeline.graph.graph import Graph
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import PeerError

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
from loading import grouped


def main() -> None:
    where, options = json.loads(sys.argv[1]), loader_options(json.loads(sys.argv[2]))
    with open_loader(where, options) as loader:
        for _ in range(options["total_epochs"]):
            for batch in loader:
                parts = batch_parts(batch, options)
                sys.stdout.write(batch_digest(parts, batch.epoch, batch.step) + "\n")
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


def batch_parts(batch: Batch, options: Mapping[str, object]) -> dict[str, Any]:
    """Return the arrays of a batch that its digest covers, and its draw records, if it has them."""
    return with_params(batch, batch.params if options.get("params") else {})


def with_params(batch: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a batch, and the fields of its draw records."""
    fields = {
        f"params.{name}.{field}": array[field]
        for name, array in params.items()
        for field in array.dtype.names
    }
    return digest_parts(batch) | fields


def open_loader(where: str | list[str], options: dict[str, object]) -> Loader:
    """Open a stream, as soon as all its daemons listen: they may be killed and start again."""
    pause, deadline = threading.Event(), time.monotonic() + (options["reconnect_s"] or 0.0)
    while True:
        try:
            return Loader(where, **grouped(device="numpy", **options))
        except PeerError:
            if time.monotonic() > deadline:
                raise
            pause.wait(0.05)


if __name__ == "__main__":
    main()
