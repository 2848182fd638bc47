"""The small disk of a storm is full when it says so, also for others, and then has room again."""

import errno
import subprocess
import sys

import pytest
from disks import BLOCK_BYTES, make_disk

WRITE = f"import sys; open(sys.argv[1], 'ab', buffering=0).write(bytes({BLOCK_BYTES}))"


def write_as_another(path):
    """Write a block in a process of its own; return what it says."""
    command = [sys.executable, "-S", "-c", WRITE, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_a_disk_that_is_full_for_a_while():
    disk = make_disk()
    if disk is None:
        pytest.skip("this user may not make a file system")
    disk.bad.mkdir()
    disk.fill()
    assert f"[Errno {errno.ENOSPC}]" in write_as_another(disk.bad / "file")
    disk.make_room()
    assert write_as_another(disk.bad / "file") == ""
    assert disk.close() == ""
