"""Exclude lists: bytes, digest, files, and what is refused from outside."""

import hashlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.exclude import Excluded, read_ids


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


def test_files_of_people_and_of_the_daemon(tmp_path):
    path = tmp_path / "list"
    path.write_text('# bad ones\n5\n\n  7 \n{"id": 3, "field": "image", "reason": "no # here"}\n')
    assert read_ids(path) == [5, 7, 3]
