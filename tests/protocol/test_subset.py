"""Subsets: bytes, the exclude list that each stands for, and what is refused from outside."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.errors import UsageError
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


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([], "expected at least one sample id, got none"),
        ([4, 1, 4], "sample 4 comes twice; an epoch visits every sample once"),
        (np.array([4, 1, 4]), "sample 4 comes twice"),
        ([1, MAX_SUBSET_ROWS], "expected ids below 2\\*\\*24, got 16777216; of a larger dataset"),
        (np.array([1, MAX_SUBSET_ROWS]), "expected ids from 0 to 2\\*\\*24 - 1, got 1 to 16777216"),
        (np.array([True, False]), r"got an array of bool: give np.flatnonzero\(mask\)"),
        ([True], "expected sample ids, integers from 0, got True"),
        ([1.0], "expected sample ids, integers from 0, got 1.0"),
        (["7"], "expected sample ids, integers from 0, got '7'"),
        ([-1], "expected sample ids from 0"),
    ],
)
def test_ids_that_are_no_subset(ids, reason):
    with pytest.raises(UsageError, match=f"subset: .*{reason}"):
        Subset(ids)


def test_ids_that_must_not_be_sorted():
    assert Subset([1, 5], sort=False).ids.tolist() == [1, 5]
    assert Subset({64, 1, 5}, sort=False).ids.tolist() == [1, 5, 64]
    with pytest.raises(UsageError, match=r"not ascending, and with shuffle=False .* sorted\(ids\)"):
        Subset([5, 1], sort=False)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no zlib", "expected a bitmap of ids compressed with zlib"),
        (zlib.compress(b"\x01")[:-2], "expected a bitmap of at most"),
        (zlib.compress(b"\x01") + b"more", "expected a bitmap of at most"),
        (zlib.compress(bytes(2**24)), "expected a bitmap of at most 2097152 bytes"),
        (zlib.compress(b""), "expected at least one sample id"),
        (zlib.compress(bytes(9)), "expected at least one sample id"),
    ],
)
def test_bytes_that_are_no_subset(data, reason):
    with pytest.raises(UsageError, match=f"subset: {reason}"):
        Subset.from_bytes(data)


def test_a_subset_of_another_dataset():
    with pytest.raises(UsageError, match="has 5 samples, ids 0 to 4; the list names 5: does it"):
        Subset([1, 5]).excluded(5)
    with pytest.raises(UsageError, match="a dataset of at most 2\\*\\*24 samples, got"):
        Subset([1, 5]).excluded(MAX_SUBSET_ROWS + 1)


def test_without_excluded_samples():
    assert Subset([1, 5, 8]).without(Excluded([5, 9])).ids.tolist() == [1, 8]
    with pytest.raises(UsageError, match="leaves out all of its samples"):
        Subset([1, 5]).without(Excluded([5, 1]))
