"""Exclude lists: bytes, digest, files, and what is refused from outside."""

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded, read_ids
from stoker.protocol.spec import MAX_EXCLUDED


@given(st.lists(st.integers(0, 2**48 - 1), min_size=1, max_size=50))
def test_bytes_and_digest_follow_from_the_ids_alone(ids):
    excluded, other = Excluded(ids), Excluded(reversed(ids))
    data = b"".join(struct.pack("<q", number) for number in sorted(set(ids)))
    assert excluded.to_bytes() == other.to_bytes() == data
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    assert excluded.digest == f"{len(set(ids))}:{digest}"
    read = Excluded.from_bytes(data)
    assert read.ids.tolist() == sorted(set(ids))
    assert read.digest == excluded.digest


def test_an_empty_list_is_none():
    assert Excluded(()).digest is None
    assert Excluded(()).to_bytes() == b""
    assert len(Excluded.from_bytes(b"")) == 0


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([1, 1], "expected ids from 0, ascending, every id once"),
        ([2, 1], "expected ids from 0, ascending, every id once"),
        ([-1, 4], "expected ids from 0, ascending"),
        ([2**48], "expected ids from 0, ascending"),
        (range(MAX_EXCLUDED + 1), "at most 131072 ids, got 131073; pack the dataset again"),
    ],
)
def test_bytes_that_are_no_list(ids, reason):
    with pytest.raises(UsageError, match=f"exclude: .*{reason}"):
        Excluded.from_bytes(np.array(ids, "<i8").tobytes())


def test_bytes_that_are_cut_off():
    with pytest.raises(UsageError, match="expected 8 bytes per id, got 9 bytes"):
        Excluded.from_bytes(b"123456789")


@pytest.mark.parametrize("value", [-1, 2**48, 1.5, "7", None, True])
def test_what_is_no_id(value):
    with pytest.raises(UsageError, match="exclude: expected sample ids"):
        Excluded([3, value])


def test_a_list_of_another_dataset():
    Excluded([0, 8]).check(9)
    with pytest.raises(
        UsageError, match=r"has 8 samples, ids 0 to 7; the list names 8: does it belong"
    ):
        Excluded([0, 8]).check(8)
    with pytest.raises(UsageError, match="the list names all 3 samples"):
        Excluded(range(3)).check(3)


def test_files_of_people_and_of_the_daemon(tmp_path):
    path = tmp_path / "list"
    path.write_text('# bad ones\n5\n\n  7 \n{"id": 3, "field": "image", "reason": "no # here"}\n')
    assert read_ids(path) == [5, 7, 3]


@pytest.mark.parametrize("line", ["x", '{"id": "7"}', '{"field": 1}', "-3", "[1]", "1 2", '{"id":'])
def test_a_line_that_is_none_is_named(tmp_path, line):
    (tmp_path / "list").write_text(f"4\n{line}\n")
    with pytest.raises(UsageError, match="list, line 2: expected a sample id, or a JSON object"):
        read_ids(tmp_path / "list")


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*absent: No such file"):
        read_ids(tmp_path / "absent")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"cannot read .*binary: .* got UTF-16"):
        read_ids(tmp_path / "binary")
