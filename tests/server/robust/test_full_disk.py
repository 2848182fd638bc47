"""A full disk: of kernels, which are compiled again; of log and quarantine files; of sockets."""

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import warm

from stoker.client import Loader
from stoker.pipeline.compiled.loop import compile_loop
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import ResourceError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]
# A file system of its own, in a mount namespace of its own: this needs root.
ALONE = ["unshare", "--mount", "sh", "-c"]
CULPRIT = 7


def may_mount(folder) -> bool:
    mount = 'mount -t tmpfs -o size=64k none "$0"'
    done = subprocess.run([*ALONE, mount, str(folder)], capture_output=True, check=False)
    return done.returncode == 0


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


WITH_PARTS = """
mount -t tmpfs -o mode=700,size=16m none "$0"
mkdir -m 700 "$0/kernels"
ln -s "$STOKER_TEST_PARTS"/* "$0/kernels"
rm "$0"/kernels/execute-*
! cat /dev/zero > "$0/filler" 2> /dev/null
exec "$@"
"""
"""Mounts a full disk for kernels, with links to the parts of the loop, and runs a command."""


@pytest.mark.as_a_user
def test_kernels_that_cannot_be_stored_only_cost_time(serve, loader, folder, caplog, kernel_cache):
    """To compile the loop takes longer than a claim may. Its parts, half of it, are there."""
    compile_loop()
    disk = folder / "disk"
    disk.mkdir(mode=0o700)
    if not may_mount(disk):
        pytest.skip("this user may not mount a file system")
    kernels = disk / "kernels"
    settings = {
        "STOKER_DAEMON_CACHE_ROOT": str(kernels),
        "STOKER_TEST_PARTS": str(kernel_cache.resolve()),
        "STOKER_WORKERS_CLAIM_DEADLINE_S": "1",
    }
    prefix = ["unshare", "--mount", "sh", "-ec", WITH_PARTS, str(disk)]
    daemon = serve(prefix=prefix, environment=settings, workers=1)
    with loader(daemon, timeout_s=300.0) as batches:
        assert [batch.step for batch in batches] == [0, 1]
    notes = [record.message for record in caplog.records if record.name == "stoker.client"]
    assert [note for note in notes if "kernels are compiled again by each process" in note] == notes
    assert len(notes) == 1
    log = daemon.log.read_text()
    assert log.count("kernels_not_stored") == 1
    assert "worker_killed" not in log
    assert daemon.stop() == 0


COMPILES = """
import sys
from pathlib import Path
from stoker.jit import activity, compiled, kernel, set_cache_root

set_cache_root(Path(sys.argv[1]))

@kernel
def double(number):
    return 2 * number

print(compiled(double)(21), activity.unstored())
"""


@pytest.mark.parametrize("inodes", [1, 3])
def test_kernels_without_a_folder_are_compiled_too(inodes, folder):
    """The disk has no inode left; one kernel, since a daemon would compile its loop."""
    kernels = folder / "kernels"
    kernels.mkdir(mode=0o700)
    if not may_mount(kernels):
        pytest.skip("this user may not mount a file system")
    (folder / "compiles.py").write_text(COMPILES)
    run = f'mount -t tmpfs -o mode=700,size=64k,nr_inodes={inodes} none "$0" && exec "$@"'
    script = [sys.executable, str(folder / "compiles.py"), str(kernels)]
    done = subprocess.run(
        [*ALONE, run, str(kernels), *script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    reason = "No space left on device" if inodes == 1 else f"{kernels}/double-"
    assert done.stdout.startswith(f"42 kernel cache {kernels}: {reason}")
    assert not (folder / "__pycache__").exists(), "numba's own choice, next to the source"


@pytest.mark.as_a_user
def test_a_full_disk_of_log_and_quarantine_loses_no_batch_and_is_caught_up_with(
    serve, loader, folder, sum_of, expected, wait_for
):
    """The files that a running daemon writes, on one disk: log, quarantine files and kernels."""
    disk = folder / "disk"
    disk.mkdir(mode=0o700)
    if not may_mount(disk):
        pytest.skip("this user may not mount a file system")
    run = 'mount -t tmpfs -o mode=700,size=256k none "$0" && exec "$@" 2>> "$0/log"'
    settings = {
        "STOKER_BAD_SAMPLES_FOLDER": str(disk / "bad"),
        "STOKER_BAD_SAMPLES_CRASH_POLICY": "replace",
        "STOKER_TEST_SUM": sum_of(CULPRIT),
    }
    daemon = serve(prefix=[*ALONE, run, str(disk)], environment=settings)
    inside = Path(f"/proc/{daemon.pid}/root{disk}")
    log = inside / "log"
    with loader(daemon, "closes") as batches:
        fill(inside / "filler")
        with log.open("ab", buffering=0) as file:  # the rest of its last block
            file.write(b"." * (4095 - log.stat().st_size % 4096) + b"\n")
        delivered = [batch_digest(batch, batch.epoch, batch.step) for batch in batches]
        assert "sample_crashed" not in log.read_text()
        (inside / "filler").unlink()
        wait_for(lambda: "quarantine_written" in log.read_text())
        delivered += [batch_digest(batch, batch.epoch, batch.step) for batch in batches]
    assert delivered == expected("closes", 2, crashed=[CULPRIT])
    (bad,) = (inside / "bad").iterdir()
    assert [json.loads(line)["id"] for line in bad.read_text().splitlines()] == [CULPRIT]
    lines = log.read_text().splitlines()
    (told,) = [line for line in lines if line.startswith("(dropped ")]
    assert re.fullmatch(
        r"\(dropped [1-9]\d* log lines: standard error was full or not read\)", told
    )
    assert daemon.stop() == 0


@pytest.mark.as_a_user
def test_a_private_daemon_whose_folder_is_full_is_an_error_that_says_what_to_do(
    small_dataset, session_folder, monkeypatch
):
    """A limit on the size of files, for this process, stands for the disk; its folder is gone."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    named = {"pipeline": "robust_pipelines:labels", "batch_size": 5, "device": "numpy"}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    warm.zygote(os.environ)  # which starts the daemon, without the limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(ResourceError) as caught:
            Loader(str(small_dataset), workers=1, **named)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    place = f"the folder of the private daemon, {session_folder}/run/stoker-"
    assert caught.value.message.startswith(place)
    assert caught.value.message.endswith(
        "File too large; make room there, or set XDG_RUNTIME_DIR to a folder elsewhere"
    )
    with Loader(str(small_dataset), workers=1, **named) as batches:
        assert [batch.step for batch in batches] == [0, 1]
