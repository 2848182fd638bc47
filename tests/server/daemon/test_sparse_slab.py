"""The slab of a group: room for many members, memory for those that are there."""

import contextlib
import os
import select
import threading

import pytest

from stoker.protocol.errors import ResourceError
from stoker.server.daemon.reserver import Reserver
from stoker.server.daemon.slabs import CHUNK_BYTES, SPARE_BYTES, SlabMemory, parts_of
from stoker.server.settings.cgroup import Room

MIB = 2**20


def memory_of(slab: SlabMemory) -> int:
    return os.fstat(slab.descriptor).st_blocks * 512


def collected(reserver: Reserver) -> list[tuple[int, ResourceError | None]]:
    assert select.select([reserver.fileno()], [], [], 30)[0]
    return reserver.collect()


def settled(reserver: Reserver, granted: int) -> None:
    """Wait until that number of bytes is granted."""
    while reserver.granted_bytes != granted:
        collected(reserver)


def test_parts_of_slots_that_are_neighbors_are_one():
    assert parts_of([5, 1, 2, 3, 7], 10) == [(10, 30), (50, 10), (70, 10)]
    assert parts_of([], 10) == []


def test_only_what_was_filled_has_memory():
    with contextlib.closing(SlabMemory.reserve(2 * MIB, capacity_bytes=2**36)) as slab:
        assert slab.size_bytes == os.fstat(slab.descriptor).st_size == 2**36
        assert memory_of(slab) == 2 * MIB
        slab.fill([(8 * MIB, MIB), (2**35, MIB)])
        assert memory_of(slab) == 4 * MIB
        os.pwrite(slab.descriptor, b"row", 8 * MIB)
        slab.punch([(8 * MIB, MIB)])
        assert memory_of(slab) == 3 * MIB
        assert os.pread(slab.descriptor, 3, 8 * MIB) == b"\0\0\0"
        with pytest.raises(PermissionError):
            os.ftruncate(slab.descriptor, 2**37)


def test_a_part_that_is_refused_leaves_no_memory():
    free = iter([2**40, 0])
    with contextlib.closing(SlabMemory.reserve(MIB, capacity_bytes=2**34)) as slab:
        with pytest.raises(ResourceError, match="only 64\\.0 MiB may be used"):
            slab.fill([(MIB, 2 * CHUNK_BYTES)], room=lambda: Room(next(free) + SPARE_BYTES, "test"))
        assert memory_of(slab) == MIB


def test_the_reserver_counts_what_has_memory():
    with contextlib.closing(Reserver(10 * MIB)) as reserver:
        assert reserver.reserve(1, 2 * MIB, capacity_bytes=2**36) is None
        assert collected(reserver) == [(1, None)]
        assert reserver.grow(1, [4, 5, 6], MIB) is None
        assert reserver.granted_bytes == 5 * MIB
        assert collected(reserver) == [(1, None)]
        assert memory_of(reserver[1]) == 5 * MIB
        reserver.shrink(1, [0, 5], MIB)
        settled(reserver, 3 * MIB)
        assert memory_of(reserver[1]) == 3 * MIB
        reserver.free(1)
        settled(reserver, 0)


def test_a_growth_beyond_the_limit_is_refused_with_the_numbers():
    with contextlib.closing(Reserver(4 * MIB)) as reserver:
        reserver.reserve(1, 2 * MIB, capacity_bytes=2**36)
        collected(reserver)
        refusal = reserver.grow(1, [2, 3, 4], MIB)
        assert refusal is not None
        assert "needs 3.0 MiB, but only 2.0 MiB may be used" in refusal.message
        assert reserver.granted_bytes == 2 * MIB


def test_a_growth_that_the_host_refuses_gives_its_grant_back():
    rooms = iter([Room(2**40, "test"), Room(0, "nothing is free")])
    with contextlib.closing(Reserver(10 * MIB, room=lambda: next(rooms))) as reserver:
        reserver.reserve(1, 2 * MIB, capacity_bytes=2**36)
        collected(reserver)
        assert reserver.grow(1, [2], MIB) is None
        ((slab, error),) = collected(reserver)
        assert slab == 1
        assert error is not None
        assert "nothing is free" in error.message
        assert reserver.granted_bytes == memory_of(reserver[1]) == 2 * MIB


def test_a_slab_that_is_freed_while_it_grows_gives_everything_back():
    may_go_on = threading.Event()
    calls = iter([None, may_go_on.wait])

    def slow_room() -> Room:
        wait = next(calls)
        if wait is not None:
            wait(30)
        return Room(2**40, "test")

    with contextlib.closing(Reserver(10 * MIB, room=slow_room)) as reserver:
        reserver.reserve(1, 2 * MIB, capacity_bytes=2**36)
        collected(reserver)
        reserver.grow(1, [2], MIB)
        reserver.free(1)
        may_go_on.set()
        settled(reserver, 0)


def test_memory_that_follows_must_be_there_from_the_start():
    room = lambda: Room(SPARE_BYTES + 4 * MIB, "test")  # noqa: E731
    with contextlib.closing(Reserver(10 * MIB, room=room)) as reserver:
        reserver.reserve(1, 2 * MIB, capacity_bytes=5 * MIB, needed_bytes=5 * MIB)
        ((slab, error),) = collected(reserver)
        assert slab == 1
        assert error is not None
        assert "the slab needs 5.0 MiB, but only 4.0 MiB may be used (test)" in error.message
        reserver.reserve(2, 2 * MIB, capacity_bytes=4 * MIB, needed_bytes=4 * MIB)
        assert collected(reserver) == [(2, None)]
        assert memory_of(reserver[2]) == reserver.granted_bytes == 2 * MIB
