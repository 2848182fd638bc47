"""The errors between a daemon and its workers, and of fail points, once each."""

import os

import pytest
from asking import to_build

from stoker.protocol.descriptors import send_packet
from stoker.protocol.errors import ConfigError, ProtocolError
from stoker.server.work.work_records import WorkerReady
from stoker.server.workers import channel
from stoker.server.workers.failpoints import FailPoints


def receive_a_memory_file_that_did_not_come(here, there) -> None:
    here.send(b"f")
    channel.receive(there, WorkerReady)


def receive_a_memory_file_that_is_too_large(here, there) -> None:
    with open(os.memfd_create("large"), "wb") as file:
        file.truncate(channel.MAX_RECORD_BYTES + 1)
        send_packet(here, b"f", file.fileno())
    channel.receive(there, WorkerReady)


ERRORS = [
    (receive_a_memory_file_that_did_not_come, ProtocolError,
     "announces a memory file came without one"),
    (receive_a_memory_file_that_is_too_large, ProtocolError, "a record has at most"),
    (lambda here, _: channel.send(here, to_build(3, "data", "", bytes(100_000)), 0), ProtocolError,
     r"BuildRequest of \d+ bytes does not fit a packet"),
    (lambda *_: FailPoints("worker.nowhere:kill:1"), ConfigError,
     "no point 'worker.nowhere'; there are builder.start|no point"),
    (lambda *_: FailPoints("worker.row:explode:1"), ConfigError,
     "no action 'explode'; use kill, stop, segv, exit, error, with"),
    (lambda *_: FailPoints("worker.row:error:1", process=5).visit("worker.row"), RuntimeError,
     r"fail point worker\.row"),
    (lambda *_: FailPoints("worker.row:kill"), ConfigError, "expected POINT:ACTION:HIT"),
    (lambda *_: FailPoints("worker.row:kill:x"), ConfigError, "expected POINT:ACTION:HIT"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:60] for *_, message in ERRORS]
)
def test_what_is_refused(call, error, message):
    here, there = channel.pair()
    with here, there, pytest.raises(error, match=message):
        call(here, there)
