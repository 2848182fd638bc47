"""Descriptors over a real socket pair: owned, close-on-exec, none leaked by a wrong packet."""

import array
import contextlib
import fcntl
import os
import resource
import socket
from collections.abc import Iterator

import pytest

from stoker.protocol.codec import MAX_PACKET_BYTES
from stoker.protocol.descriptors import peer_credentials, receive_packet, send_packet
from stoker.protocol.errors import ProtocolError, ResourceError

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        yield left, right


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_data_alone(pair: Pair) -> None:
    send_packet(pair[0], b"hello")
    send_packet(pair[0], b"x" * MAX_PACKET_BYTES)
    assert receive_packet(pair[1]) == (b"hello", None)
    assert receive_packet(pair[1]) == (b"x" * MAX_PACKET_BYTES, None)


def test_a_descriptor_arrives_with_its_packet(pair: Pair) -> None:
    memory = os.memfd_create("slab")
    os.write(memory, b"content")
    send_packet(pair[0], b"one")
    send_packet(pair[0], b"two", memory)
    os.close(memory)
    assert receive_packet(pair[1]) == (b"one", None)
    data, descriptor = receive_packet(pair[1])
    assert data == b"two"
    assert descriptor is not None
    assert os.pread(descriptor, 16, 0) == b"content"
    assert fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    os.close(descriptor)


def test_the_sender_keeps_its_own(pair: Pair) -> None:
    memory = os.memfd_create("slab")
    before = open_descriptors()
    send_packet(pair[0], b"x", memory)
    assert open_descriptors() == before
    os.fstat(memory)
    os.close(memory)
    os.close(receive_packet(pair[1])[1])


@pytest.mark.parametrize("count", [2, 3, 4, 5, 100])
def test_several_descriptors_are_closed(pair: Pair, count: int) -> None:
    before = open_descriptors()
    memories = [os.memfd_create("slab") for _ in range(count)]
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", memories))
    pair[0].sendmsg([b"many"], [rights])
    for memory in memories:
        os.close(memory)
    with pytest.raises(ProtocolError, match="at most one descriptor"):
        receive_packet(pair[1])
    assert open_descriptors() == before


def test_a_process_at_its_limit_says_so(pair: Pair) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory = os.memfd_create("slab")
    send_packet(pair[0], b"lost", memory)
    send_packet(pair[0], b"kept", memory)
    os.close(memory)
    with contextlib.ExitStack() as full:
        full.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, open_descriptors())) + 1, hard))
        with contextlib.suppress(OSError):
            while True:
                full.callback(os.close, os.dup(0))
        with pytest.raises(ResourceError, match="a file from another process: process"):
            receive_packet(pair[1])
    data, descriptor = receive_packet(pair[1])
    assert data == b"kept"
    os.close(descriptor)


def test_too_long_a_packet_closes_its_descriptor(pair: Pair) -> None:
    before = open_descriptors()
    memory = os.memfd_create("slab")
    send_packet(pair[0], b"x" * (MAX_PACKET_BYTES + 1), memory)
    os.close(memory)
    with pytest.raises(ProtocolError, match="one packet of at most 65536 bytes"):
        receive_packet(pair[1])
    assert open_descriptors() == before


def test_end_of_file_is_empty(pair: Pair) -> None:
    pair[0].close()
    assert receive_packet(pair[1]) == (b"", None)


def test_nothing_there(pair: Pair) -> None:
    pair[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        receive_packet(pair[1])


def test_a_peer_that_is_gone_raises_no_signal(pair: Pair) -> None:
    pair[1].close()
    with pytest.raises(BrokenPipeError):
        send_packet(pair[0], b"x")


def test_peer_credentials(pair: Pair, session_folder) -> None:
    own = (os.getpid(), os.getuid(), os.getgid())
    assert peer_credentials(pair[0]) == own
    path = str(session_folder / "credentials.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        child = os.fork()
        if not child:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.connect(path)
                sock.recv(1)
            os._exit(0)
        with listener.accept()[0] as sock:
            assert peer_credentials(sock) == (child, os.getuid(), os.getgid())
    os.waitpid(child, 0)
    os.unlink(path)
