"""Daemon and trainer in different containers, sharing nothing but the socket directory.

Both run in mount, pid, ipc and user namespaces of their own. The trainer sees neither the dataset
nor the daemon's processes nor its /dev/shm; it still gets the stream, through shared memory. Each
/dev/shm has the 64 MB that Docker gives a container, and one slab is larger than that.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import law_pipelines
import pytest

from stoker.protocol.digest import batch_digest
from stoker.server.rows.reference import make_spec, reference_batches

ISOLATED = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--ipc",
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child=TERM",
]
SUPPORT = Path(__file__).parents[1] / "support"
"""The folder of law_pipelines."""
DEADLINE_S = 60.0
SHM_BYTES = 64 * 2**20

TRAINER = """
import json, os, sys
import numpy as np
from stoker.client import Loader
from stoker.protocol.digest import batch_digest

address, dataset = sys.argv[1:]
digests = []
with Loader(address, pipeline="training", global_batch_size=6, seed=4, device="numpy") as loader:
    for batch in loader:
        arrays = {name: np.array(batch[name]) for name in batch}
        digests.append(batch_digest(arrays, batch.epoch, batch.step))
with Loader(
    address, pipeline="large", global_batch_size=6, seed=4, prefetch=2, device="numpy"
) as loader:
    batch = next(iter(loader))
    arrays = {name: np.array(batch[name]) for name in batch}
    large = batch_digest(arrays, batch.epoch, batch.step)
print(json.dumps({
    "large": large,
    "size": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    "digests": digests,
    "pid": os.getpid(),
    "sees_dataset": os.path.exists(dataset),
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "shm": os.listdir("/dev/shm"),
    "ipc": os.readlink("/proc/self/ns/ipc"),
    "user": os.readlink("/proc/self/ns/user"),
}))
"""


def _unavailable() -> str:
    tried = subprocess.run(
        [*ISOLATED, "true"], capture_output=True, text=True, timeout=60, check=False
    )
    return tried.stderr.strip() if tried.returncode else ""


def _isolated(script: str, arguments: list[str], **options: object) -> subprocess.Popen:
    """Run a shell script in namespaces of its own, with an empty /dev/shm of 64 MiB."""
    shell = f"mount -t tmpfs -o size={SHM_BYTES} none /dev/shm && {script}"
    return subprocess.Popen([*ISOLATED, "sh", "-ec", shell, "sh", *arguments], **options)


def _wait_for_path(path: Path) -> None:
    pause, deadline = threading.Event(), time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear within {DEADLINE_S} s"
        pause.wait(0.01)


@pytest.mark.slow
def test_daemon_and_client_share_only_a_directory(tmp_path, dataset, law):
    why = _unavailable()
    if why:
        pytest.skip(f"no namespaces of one's own on this machine: {why}")
    shared, private = tmp_path / "shared", dataset.parent
    shared.mkdir(mode=0o700)
    address = f"ipc://{shared}/stoker.sock"
    daemon = _isolated(
        'exec "$@"',
        [
            *(sys.executable, "-m", "stoker.server", "serve", "--address", address),
            *("--dataset", f"photos={dataset}", "--workers", "2"),
            *("--pipeline", "training=law_pipelines:training"),
            *("--pipeline", "large=law_pipelines:large"),
        ],
        env={
            **os.environ,
            "STOKER_DAEMON_PYTHON_PATH": str(SUPPORT),
            "PYTHONPATH": str(SUPPORT),
        },
        stderr=subprocess.PIPE,
    )
    try:
        _wait_for_path(shared / "stoker.sock.fd")
        trainer = _isolated(
            'mount -t tmpfs none "$1" && shift && exec "$@"',
            [str(private), sys.executable, "-c", TRAINER, address, str(dataset)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = trainer.communicate(timeout=DEADLINE_S)
        assert trainer.returncode == 0, err.decode()
    finally:
        # unshare passes its own death on to the daemon as SIGTERM.
        daemon.send_signal(signal.SIGKILL)
        log = daemon.communicate(timeout=DEADLINE_S)[1].decode()
    seen = json.loads(out)
    assert not seen["sees_dataset"]
    assert seen["processes"] == [seen["pid"]] or seen["processes"] == [1, seen["pid"]]
    assert seen["shm"] == []
    for kind in ("ipc", "user"):
        assert seen[kind] != os.readlink(f"/proc/self/ns/{kind}")
    expected = law.reference(
        dataset, law_pipelines.training.graph(), range(1), batch_size=6, seed=4
    )
    assert seen["digests"] == expected, log
    graph = law_pipelines.large.graph()
    spec = make_spec(dataset, graph, batch_size=6, seed=4)
    step, arrays = next(reference_batches(dataset, graph, spec))
    assert seen["large"] == batch_digest(arrays, 0, step), log
    assert seen["size"] == SHM_BYTES
    assert max(map(int, re.findall(r"slab_bytes=(\d+)", log))) > SHM_BYTES, log
