"""Slabs: reserved in full, sealed, nameless, and refused with the numbers."""

import contextlib
import fcntl
import os
import select
import stat
import threading
from pathlib import Path

import pytest

from stoker.protocol.errors import ResourceError
from stoker.server.daemon.reserver import Reserver
from stoker.server.daemon.slabs import SPARE_BYTES, SlabMemory, human
from stoker.server.settings import cgroup
from stoker.server.settings.cgroup import Room

MIB = 2**20


def test_a_slab_is_fully_allocated_sealed_and_private():
    with contextlib.closing(SlabMemory.reserve(3 * MIB + 4096)) as slab:
        found = os.fstat(slab.descriptor)
        assert found.st_size == slab.size_bytes == 3 * MIB + 4096
        assert found.st_blocks * 512 == found.st_size  # every page is there: touched already
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert not os.get_inheritable(slab.descriptor)
        seals = fcntl.fcntl(slab.descriptor, fcntl.F_GET_SEALS)
        wanted = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        assert seals & wanted == wanted
        for size in (4096, 8 * MIB):
            with pytest.raises(PermissionError):
                os.ftruncate(slab.descriptor, size)


def test_a_read_only_reopening_sees_the_same_bytes_and_cannot_write():
    with contextlib.closing(SlabMemory.reserve(4096)) as slab:
        descriptor = slab.reopen_read_only()
        try:
            os.pwrite(slab.descriptor, b"row", 100)
            assert os.pread(descriptor, 3, 100) == b"row"
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.pwrite(descriptor, b"x", 0)
        finally:
            os.close(descriptor)


def test_more_than_the_room_is_refused_with_the_numbers():
    room = Room(SPARE_BYTES + 2 * MIB, "a test's limit")
    with pytest.raises(ResourceError) as caught:
        SlabMemory.reserve(3 * MIB, room=lambda: room)
    assert caught.value.message == (
        "the slab needs 3.0 MiB, but only 2.0 MiB may be used (a test's limit); lower batch_size,"
        " prefetch or the size of the outputs, end other clients, or give the daemon more memory"
    )
    assert caught.value.details["needed_bytes"] == 3 * MIB
    assert caught.value.details["allowed_bytes"] == 2 * MIB
    SlabMemory.reserve(2 * MIB, room=lambda: room).close()  # exactly the room


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**50, "1024.0 TiB"),
    ],
)
def test_sizes_for_people(size_bytes, text):
    assert human(size_bytes) == text


@pytest.fixture
def reserver():
    with contextlib.closing(Reserver(10 * MIB)) as reserver:
        yield reserver


def collected(reserver: Reserver):
    """Wait for outcomes, at most 10 s."""
    assert select.select([reserver], [], [], 10)[0], "no outcome in time"
    return reserver.collect()


def test_the_reserver_hands_out_slabs_and_takes_them_back(reserver):
    assert reserver.collect() == []
    assert reserver.reserve(7, 6 * MIB) is None
    assert collected(reserver) == [(7, None)]
    assert reserver[7].size_bytes == reserver.granted_bytes == 6 * MIB
    refusal = reserver.reserve(8, 6 * MIB)
    assert refusal is not None
    assert refusal.message.startswith(
        "the slab needs 6.0 MiB, but only 4.0 MiB may be used (memory.limit = 10.0 MiB, of which"
        " 6.0 MiB are in use); "
    )
    reserver.free(7)
    assert collected(reserver) == []
    assert reserver.granted_bytes == 0
    assert reserver.reserve(9, 10 * MIB) is None
    assert collected(reserver) == [(9, None)]


def test_a_slab_that_is_freed_while_it_is_reserved_goes_back():
    started, go_on = threading.Event(), threading.Event()

    def slow_room():
        started.set()
        assert go_on.wait(10)
        return Room(2**40, "")

    with contextlib.closing(Reserver(10 * MIB, room=slow_room)) as reserver:
        reserver.reserve(1, 4096)
        assert started.wait(10)
        reserver.free(1)
        assert reserver.granted_bytes == 4096  # not given back before it is certain
        go_on.set()
        assert collected(reserver) == []
        assert reserver.granted_bytes == 0


def test_a_failed_reservation_leaves_nothing_granted():
    with contextlib.closing(Reserver(10 * MIB, room=lambda: Room(0, "nothing free"))) as reserver:
        assert reserver.reserve(1, 4096) is None
        [(slab, error)] = collected(reserver)
        assert slab == 1
        assert "only 0 B may be used (nothing free)" in error.message
        assert reserver.granted_bytes == 0


def test_closing_in_the_middle_of_everything_leaks_nothing():
    reserver = Reserver(2**40)
    for slab in range(20):
        reserver.reserve(slab, 4 * MIB)
    reserver.free(3)
    reserver.close()  # the leak fixture looks for descriptors and the thread


# -------------------------------------------------------------------------------------- cgroups


def host(root: Path, files: dict[str, str]) -> Path:
    for name, text in {
        "proc/meminfo": "MemTotal: 2000 kB\nMemAvailable:    1000 kB\n",
        "proc/self/cgroup": "0::/a/b\n",
        "proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
        **files,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_tightest_parent_group_decides_the_room(tmp_path):
    root = host(
        tmp_path,
        {
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/b/memory.current": "5\n",
            "sys/fs/cgroup/a/memory.max": "600000\n",
            "sys/fs/cgroup/a/memory.current": "500000\n",
            "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 50000\n",
        },
    )
    assert cgroup.room(root) == Room(150000, f"{root}/sys/fs/cgroup/a/memory.max = 600000")


def test_without_limits_the_kernel_decides_the_room(tmp_path):
    assert cgroup.room(host(tmp_path, {})) == Room(1024000, "MemAvailable of /proc/meminfo")


def test_version_1_groups_are_read_too(tmp_path):
    root = host(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/x\n1:cpu,cpuacct:/y\n0::/\n",
            "proc/self/mountinfo": (
                "31 1 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n"
                "32 1 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            ),
            "cg/memory/x/memory.limit_in_bytes": "9000\n",
            "cg/memory/x/memory.usage_in_bytes": "8000\n",
            "cg/memory/x/memory.stat": "inactive_file 1\ntotal_inactive_file 500\n",
            "cg/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "cg/memory/memory.usage_in_bytes": "8000\n",
            "cg/cpu/y/cpu.cfs_quota_us": "100000\n",
            "cg/cpu/y/cpu.cfs_period_us": "100000\n",
            "cg/cpu/cpu.cfs_quota_us": "-1\n",
            "cg/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert cgroup.room(root).size_bytes == 1500
    if len(os.sched_getaffinity(0)) > 1:
        assert cgroup.cores(root) == (1, "cgroup quota of 1 cores")


@pytest.mark.parametrize(("quota", "expected"), [("50000 100000", 1), ("max 100000", None)])
def test_the_cpu_quota_bounds_the_cores(tmp_path, quota, expected):
    root = host(tmp_path, {"sys/fs/cgroup/a/b/cpu.max": quota})
    count, why = cgroup.cores(root)
    affinity = len(os.sched_getaffinity(0))
    assert count == (expected or affinity)
    assert why == ("cgroup quota of 0.5 cores" if expected else f"affinity of {affinity} cores")


def test_this_host_can_be_asked():
    assert cgroup.room().size_bytes > 0
    assert 1 <= cgroup.cores()[0] <= len(os.sched_getaffinity(0))
