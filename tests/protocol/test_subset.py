"""Subsets: bytes, the exclude list that each stands for, and what is refused from outside."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.exclude import Excluded
from stoker.protocol.subset import MAX_SUBSET_BYTES, MAX_SUBSET_ROWS, Subset, excluded_of


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_subset_is_an_exclude_list_of_all_others(ids):
    subset = Subset(ids)
    others = set(range(301)) - ids
    read = Subset.from_bytes(subset.to_bytes())
    assert read.ids.tolist() == sorted(ids)
    assert read.excluded(301).ids.tolist() == sorted(others)
    assert read.excluded(301).digest == Excluded(others).digest
    assert excluded_of(b"", subset.to_bytes(), 301).digest == Excluded(others).digest


def test_the_bits_of_the_bitmap():
    assert zlib.decompress(Subset([0, 3, 9]).to_bytes()) == bytes([0b1001, 0b10])


def test_all_samples_are_no_exclude_list():
    assert Subset(range(7)).excluded(7).digest is None


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16])
def test_arrays_of_integers(kind):
    assert Subset(np.array([9, 2, 4], kind)).ids.tolist() == [2, 4, 9]


def test_a_random_half_of_the_largest_dataset_fits_into_a_message():
    mask = np.random.default_rng(0).random(MAX_SUBSET_ROWS) < 0.5
    ids = np.flatnonzero(mask)
    data = Subset(ids).to_bytes()
    assert len(data) <= MAX_SUBSET_BYTES
    assert np.array_equal(Subset.from_bytes(data).ids, ids)


def test_ids_that_are_ascending_or_have_no_order():
    assert Subset([1, 5], sort=False).ids.tolist() == [1, 5]
    assert Subset({64, 1, 5}, sort=False).ids.tolist() == [1, 5, 64]


def test_without_excluded_samples():
    assert Subset([1, 5, 8]).without(Excluded([5, 9])).ids.tolist() == [1, 8]
