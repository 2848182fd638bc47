"""Packets between daemon and workers: sizes, descriptors, ends, and what is refused."""

import os

import msgspec
import pytest
from asking import to_build

from stoker.protocol.errors import ProtocolError
from stoker.server.work.work_records import BuildRequest, CloseStream, Work, WorkerReady
from stoker.server.workers import channel


@pytest.fixture
def ends():
    one, two = channel.pair()
    with one, two:
        yield one, two


@pytest.mark.parametrize("size", [0, 1, channel.INLINE_BYTES, channel.INLINE_BYTES + 1, 3_000_000])
def test_a_record_of_any_size_arrives(ends, size):
    sent = to_build(3, "data", "", os.urandom(size))
    channel.send(ends[0], sent)
    assert channel.receive(ends[1], BuildRequest) == (sent, None)


def test_a_descriptor_travels_with_its_record(ends):
    read, write = os.pipe()
    channel.send(ends[0], WorkerReady(1, 2), write)
    os.close(write)
    record, descriptor = channel.receive(ends[1], WorkerReady)
    assert record == WorkerReady(1, 2)
    os.write(descriptor, b"through")
    os.close(descriptor)
    assert os.read(read, 100) == b"through"
    assert os.read(read, 100) == b""
    os.close(read)


def test_a_closed_peer_ends_the_stream(ends):
    ends[0].close()
    assert channel.receive(ends[1], WorkerReady) is None


def test_other_records_are_refused_and_their_descriptors_closed(ends):
    read, write = os.pipe()
    channel.send(ends[0], to_build(3, "data", ""), write)
    os.close(write)
    with pytest.raises(ProtocolError, match="packet between daemon and worker"):
        channel.receive(ends[1], WorkerReady)
    assert os.read(read, 1) == b"", "the descriptor that came along is still open"
    os.close(read)


def test_records_are_msgpack_arrays_with_a_tag(ends):
    channel.send(ends[0], WorkerReady(7, 8))
    assert msgspec.msgpack.decode(ends[1].recv(1000)[1:]) == ["ready", 7, 8]


def work(claim: int) -> Work:
    return Work(claim, 1, 0, 0, 1, 0, 1, 0, 64, 0, 4)


def test_what_was_not_read_is_taken_back(ends):
    channel.send(ends[0], work(1))
    assert channel.take_back(ends[1], Work, lambda record: record.claim == 1) == work(1)
    channel.send(ends[0], work(2))
    assert channel.receive(ends[1], Work) == (work(2), None)


@pytest.mark.parametrize("first", [work(1), CloseStream(1), to_build(1, "", "", bytes(99999))])
def test_what_has_something_unread_before_it_stays(ends, first):
    channel.send(ends[0], first)
    channel.send(ends[0], work(2))
    assert channel.take_back(ends[1], Work, lambda record: record.claim == 2) is None
    assert channel.receive(ends[1], type(first)) == (first, None)
    assert channel.receive(ends[1], Work) == (work(2), None)


def test_what_was_read_cannot_be_taken_back(ends):
    channel.send(ends[0], work(1))
    channel.receive(ends[1], Work)
    assert channel.take_back(ends[1], Work, lambda record: record.claim == 1) is None
