"""The map of a slab: pages are there before they are written, and no other pages."""

import mmap
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from stoker.server.workers import slab_pages
from stoker.server.workers.slab_pages import LEAST_BYTES, SlabPages

PAGE = mmap.PAGESIZE
LEAST = LEAST_BYTES // PAGE
PAGES = 8 * LEAST


@pytest.fixture
def descriptor():
    """A memory file of PAGES pages, none of which has memory."""
    made = os.memfd_create("slab")
    os.truncate(made, PAGES * PAGE)
    yield made
    os.close(made)


def mapped(array: np.ndarray) -> list[int]:
    """Return which pages of an array this process has mapped, by the kernel's account."""
    first, count = array.ctypes.data // PAGE, -(-array.nbytes // PAGE)
    with Path("/proc/self/pagemap").open("rb") as file:
        file.seek(first * 8)
        entries = struct.unpack(f"={count}Q", file.read(count * 8))
    return [number for number, entry in enumerate(entries) if entry >> 63]


def pages(descriptor: int) -> int:
    """Return how many pages of a file have memory."""
    return os.stat(descriptor).st_blocks * 512 // PAGE


def test_pages_are_mapped_before_they_are_written(descriptor):
    slab = SlabPages(descriptor, PAGES * PAGE)
    os.posix_fallocate(descriptor, 0, PAGES * PAGE)
    two = slab.memory.reshape(2, -1, PAGE)[:, : 2 * LEAST]
    assert mapped(slab.memory) == []
    slab.prepare([two[0], two[1].view(np.float32)])
    there = [*range(2 * LEAST), *range(PAGES // 2, PAGES // 2 + 2 * LEAST)]
    assert mapped(slab.memory) == there
    slab.memory[:] = 7
    assert os.pread(descriptor, PAGES * PAGE, 0) == b"\7" * PAGES * PAGE


def test_what_is_mapped_already_is_not_asked_for_again(descriptor):
    """A hole that is made later stays one: only writing gives it memory."""
    slab = SlabPages(descriptor, PAGES * PAGE)
    chunk = slab.memory[: 4 * LEAST_BYTES]
    slab.prepare([chunk])
    assert pages(descriptor) == 4 * LEAST
    os.truncate(descriptor, 0)
    os.truncate(descriptor, PAGES * PAGE)
    slab.prepare([chunk, chunk[LEAST_BYTES:]])
    assert pages(descriptor) == 0
    slab.prepare([slab.memory[LEAST_BYTES : 5 * LEAST_BYTES]])  # a page of it is new
    assert pages(descriptor) == 4 * LEAST


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1), (PAGE - 1, PAGE - 1), (PAGE, PAGE)])
def test_no_page_beside_the_rows_gets_memory(descriptor, before, after):
    """It may belong to a slot whose memory the daemon has not reserved."""
    slab = SlabPages(descriptor, PAGES * PAGE)
    slab.prepare([slab.memory[PAGE + before : (2 * LEAST + 3) * PAGE - after]])
    whole = 2 * LEAST + 2 - -(-before // PAGE) - -(-after // PAGE)
    assert pages(descriptor) == whole
    assert mapped(slab.memory)[0] == 1 + -(-before // PAGE)


def test_little_is_left_to_faults(descriptor):
    slab = SlabPages(descriptor, PAGES * PAGE)
    slab.prepare([slab.memory[: LEAST_BYTES - 1], slab.memory[:0]])
    assert pages(descriptor) == 0
    slab.prepare([slab.memory[:LEAST_BYTES]])
    assert pages(descriptor) == LEAST


def test_a_kernel_that_cannot_is_asked_once(descriptor, monkeypatch):
    """As before Linux 5.14; then nothing differs but the time that it takes."""
    slab = SlabPages(descriptor, PAGES * PAGE)
    with monkeypatch.context() as old:
        old.setattr(slab_pages, "POPULATE_WRITE", 9999)
        slab.prepare([slab.memory[: 2 * LEAST_BYTES]])
    slab.prepare([slab.memory])
    assert pages(descriptor) == 0
    slab.memory[:LEAST_BYTES] = 1
    assert pages(descriptor) == LEAST


def test_the_map_ends_with_the_last_array(descriptor):
    slab = SlabPages(descriptor, PAGES * PAGE)
    os.posix_fallocate(descriptor, 0, PAGES * PAGE)
    maps, row = Path("/proc/self/maps"), slab.memory[PAGE : PAGE + 5]
    address = f"{slab.memory.ctypes.data:x}-"
    del slab
    assert address in maps.read_text()
    del row
