"""The lease book alone: which lease frees which slot."""

import fcntl
import os

import numpy as np

from stoker.client.lease import COPY_BYTES, LeaseBook
from stoker.client.slab_map import SlabMap
from stoker.protocol.slot_layout import Placed

SLOT_BYTES = COPY_BYTES + 4096
OUTPUTS = [Placed("image", "uint8", (SLOT_BYTES,), 0)]


def make_book() -> LeaseBook:
    """Not a fixture: pytest would keep its map until after the look for leaks."""
    descriptor = os.memfd_create("slab", os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, 4 * SLOT_BYTES)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return LeaseBook(SlabMap(descriptor, 4, SLOT_BYTES, writable=False))
    finally:
        os.close(descriptor)


def test_a_lease_that_dies_frees_its_slot() -> None:
    book = make_book()
    arrays = book.take(2, 1, OUTPUTS)
    assert book.holds(2)
    assert (book.leased, book.owed, book.free_slots()) == (1, 1, [])
    del arrays
    assert not book.holds(2)
    assert (book.leased, book.owed, book.free_slots()) == (0, 1, [(2, 1)])
    book.forget_free(1)
    assert book.owed == 0


def test_a_lease_of_an_older_generation_does_not_free_the_newer() -> None:
    """It is returned as what it is, and the caller's change in the newer batch stays."""
    book = make_book()
    older = book.take(2, 1, OUTPUTS)
    newer = book.take(2, 3, OUTPUTS)["image"]
    newer[:] = 7
    del older
    assert book.free_slots() == [(2, 1)]
    assert book.holds(2)
    assert np.all(newer == 7)
    del newer
    assert not book.holds(2)
    assert book.free_slots() == [(2, 1), (2, 3)]
