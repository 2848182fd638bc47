"""Daemons on a Ray cluster of several nodes on this computer: `python scenes.py DATA SEEN`.

A program of its own, because Ray leaves threads and descriptors in the process that uses it. It
plays the scenes below one after the other on one cluster, and writes what it saw as JSON.
"""

import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

import stoker.ray
from stoker.client import Connection, Loader
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import StokerError

HERE = Path(__file__).parent
OPTIONS = {"pipeline": "plain", "device": "numpy", "seed": 5, "batch_size": 4}
PATIENCE_S = 120.0
PAUSE = threading.Event()
NODE = {"num_cpus": 1, "resources": {"loader": 1}, "object_store_memory": 80 * 2**20}


def digests(loader: Loader, count: int | None = None) -> list[str]:
    taken = itertools.islice(loader, count)
    return [batch_digest(digest_parts(b), b.epoch, b.step) for b in taken]


def named(of: Any) -> tuple[str, str]:
    """Return class and message of the error that a call raises."""
    try:
        of()
    except StokerError as error:
        return type(error).__name__, error.message
    return "", "no error"


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def read_until(loader: Loader, done: Any) -> list[list[str]]:
    """Read whole epochs until something is true; return the digests of each."""
    epochs, end = [], time.monotonic() + PATIENCE_S
    while not done(loader.statistics().by_host):
        assert time.monotonic() < end, loader.statistics()
        epochs.append(digests(loader))
        PAUSE.wait(0.5)
    return epochs


def alone(data: Path, epochs: int) -> list[list[str]]:
    """Return the digests of some epochs from one daemon without Ray."""
    with Loader(data, **{**OPTIONS, "pipeline": "ray_pipelines:tensors"}, workers=1) as loader:
        return [digests(loader) for _ in range(epochs)]


def served(data: Path, **more: Any) -> Any:
    options = {"hosts": 2, "workers": 1, "resources": {"loader": 1}, **more}
    return stoker.ray.serve(data, {"plain": "ray_pipelines:tensors"}, **options)


def remote_reader(node_id: str) -> Any:
    """Return a task for a node: reads an epoch, and looks at what it was given."""
    where = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)

    @ray.remote(num_cpus=0, scheduling_strategy=where)
    def read(daemons: Any) -> Any:
        with Loader(daemons, **OPTIONS) as loader:
            seen = digests(loader)
            return seen, sorted(loader.statistics().by_host), named(daemons.close)

    return read


def stored_bytes(cluster: Cluster) -> int:
    """Return how many bytes the object stores of all nodes have used since they began.

    A store is a sparse file of its raylet. It gives no page back, so objects that lived for a
    moment are in the sum.
    """
    total = 0
    for node in cluster.list_all_nodes():
        (raylet,) = node.all_processes["raylet"]
        for descriptor in Path(f"/proc/{raylet.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                if "/plasma" in os.readlink(descriptor):
                    total += os.stat(descriptor).st_blocks * 512
    return total


def read_and_look(loader: Loader, cluster: Cluster) -> tuple[list[str], list[int], int]:
    """Read an epoch; return its digests, what the object stores have used after several of its
    batches, and the size of the smallest batch."""
    found, stored, least = [], [], 2**62
    for batch in loader:
        parts = digest_parts(batch)
        found.append(batch_digest(parts, batch.epoch, batch.step))
        least = min(least, batch.pixels.nbytes)
        if batch.step % 4 == 3:
            stored.append(stored_bytes(cluster))
    return found, stored, least


def play(data: Path, cluster: Cluster) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    nodes = [cluster.add_node(**NODE) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)

    # Errors: no node has it, too few nodes.
    seen["missing"] = named(lambda: served(data.parent / "nothing"))
    seen["crowded"] = named(lambda: served(data, hosts=3, timeout_s=2))

    # Two daemons, read by the driver (which is on a node without a daemon), and by a node's task.
    daemons = served(data)
    places = daemons.places()
    seen["nodes"] = [place.node for place in places]
    seen["pids"] = [place.pid for place in places]
    seen["addresses"] = daemons.addresses()
    seen["repr"] = repr(daemons)
    seen["keyless"] = named(lambda: Loader(daemons.addresses(), **OPTIONS))
    seen["stored_before"] = stored_bytes(cluster)
    seen["task"] = ray.get(remote_reader(places[0].node).remote(daemons))
    loader = Loader(daemons, **OPTIONS, connection=Connection(reconnect_s=PATIENCE_S))
    first, seen["stored"], seen["batch_bytes"] = read_and_look(loader, cluster)
    epochs = [first]
    kept = ray.put(np.zeros(seen["batch_bytes"], np.uint8))  # what one batch would have added
    seen["stored_after_put"] = stored_bytes(cluster)
    del kept
    seen["set_hosts"] = named(lambda: loader.set_hosts(daemons.addresses()))

    # SIGKILL of a daemon: Ray starts it again, and the loader uses the new one.
    os.kill(places[0].pid, signal.SIGKILL)
    epochs += read_until(loader, lambda by_host: len(by_host) == 3)

    # A node is lost; another one comes, and gets its daemon.
    lost = next(node for node in nodes if node.node_id == places[1].node)
    cluster.remove_node(lost, allow_graceful=False)
    epochs.append(digests(loader))
    cluster.add_node(**NODE)
    epochs += read_until(loader, lambda by_host: len(by_host) == 4)
    seen["epochs"] = epochs
    seen["statistics"] = loader.statistics().by_host
    loader.close()

    seen["later_pids"] = [place.pid for place in daemons.places()]
    daemons.close()
    daemons.close()
    seen["closed"] = named(lambda: Loader(daemons, **OPTIONS))
    seen["alone"] = alone(data, len(epochs))
    return seen


def forget(data: Path, seen: dict[str, Any]) -> None:
    """End like a program that does not call close()."""
    forgotten = served(data, insecure=True, hosts=1)
    with Loader(forgotten, **OPTIONS) as loader:
        seen["insecure"] = digests(loader)
    seen["forgotten_pids"] = [place.pid for place in forgotten.places()]
    ray.shutdown()
    end = time.monotonic() + PATIENCE_S
    while any(map(runs, seen["forgotten_pids"])) and time.monotonic() < end:
        PAUSE.wait(0.01)
    seen["left"] = [pid for name in ("pids", "later_pids", "forgotten_pids")
                    for pid in seen[name] if runs(pid)]  # fmt: skip


def main() -> None:
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as short:  # paths of sockets have at most 107 bytes
        os.environ["TMPDIR"] = short
        tempfile.tempdir = None
        Path(short, "ray").mkdir()
        head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": short}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            found = play(data, cluster)
            forget(data, found)
        finally:
            ray.shutdown()
            cluster.shutdown()
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
