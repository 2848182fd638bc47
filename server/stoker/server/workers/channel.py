"""Packets between the daemon, the template and its children: one record, at most one descriptor.

A record that does not fit a packet travels in an anonymous memory file whose descriptor takes the
place of the payload; such a record cannot carry a descriptor of its own. Both ends belong to one
installation, so only size and type are checked.
"""

import os
import socket
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from stoker.protocol.analysis import analyzed
from stoker.protocol.descriptors import receive_packet, send_packet
from stoker.protocol.errors import ProtocolError

INLINE_BYTES = 32768
MAX_RECORD_BYTES = 2**24
_INLINE, _FILE = b"i", b"f"
Sent = TypeVar("Sent", bound=msgspec.Struct)
_encode = msgspec.msgpack.Encoder().encode


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected packet sockets, close-on-exec."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(sock: socket.socket, record: msgspec.Struct, descriptor: int | None = None) -> None:
    """Send one record, with a descriptor if given; the caller keeps its own copy open.

    Raises:
        ProtocolError: the record is too large.
        OSError: the peer is gone, or (without blocking) its buffer is full.
    """
    data = _encode(record)
    if len(data) <= INLINE_BYTES:
        send_packet(sock, _INLINE + data, descriptor)
        return
    if descriptor is not None or len(data) > MAX_RECORD_BYTES:
        raise ProtocolError(f"{type(record).__name__} of {len(data)} bytes does not fit a packet")
    file = os.memfd_create("stoker-record", os.MFD_CLOEXEC)
    try:
        os.pwrite(file, data, 0)
        send_packet(sock, _FILE, file)
    finally:
        os.close(file)


def receive(sock: socket.socket, kinds: Any) -> tuple[Any, int | None] | None:
    """Receive one record of the given kinds and its descriptor; None when the peer is gone.

    Raises:
        ProtocolError: the packet is not such a record.
        BlockingIOError: the socket does not block and nothing is there.
    """
    try:
        data, descriptor = receive_packet(sock)
    except ConnectionResetError:  # the peer left packets unread; those that it sent are still here
        data, descriptor = receive_packet(sock)
    if not data:
        return None
    if data[:1] == _FILE:
        data, descriptor = _read_file(descriptor), None
    else:
        data = data[1:]
    try:
        return decoder(kinds).decode(data), descriptor
    except msgspec.MsgspecError as error:
        if descriptor is not None:
            os.close(descriptor)
        raise ProtocolError(f"packet between daemon and worker: {error}") from None


def take_back(far: socket.socket, kind: type[Sent], wanted: Callable[[Sent], bool]) -> Sent | None:
    """Take back the last record sent to a peer, from a copy of its end, if no other is unread.

    Args:
        far: the peer's end; the first reader there gets a packet.
        kind: of the record; sent without a descriptor.
        wanted: returns whether a record is the last one sent. If the first unread record is that
            one, no other can take its place before it is taken back.

    Returns:
        The record, which the peer will never see; None if it has read it, or something before it
        is unread.
    """
    try:
        data = far.recv(INLINE_BYTES + 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        record: Sent | None = None
        if data[:1] == _INLINE:
            record = decoder(kind).decode(data[1:])
        if record is None or not wanted(record):
            return None
        far.recv(1, socket.MSG_DONTWAIT)
    except (BlockingIOError, msgspec.ValidationError):
        return None
    return record


@cache
def decoder(kinds: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return what decodes records of the given kinds; the same at every call."""
    return msgspec.msgpack.Decoder(analyzed(kinds))


def _read_file(descriptor: int | None) -> bytes:
    if descriptor is None:
        raise ProtocolError("a packet that announces a memory file came without one")
    try:
        size = os.fstat(descriptor).st_size
        if size > MAX_RECORD_BYTES:
            raise ProtocolError(f"a record has at most {MAX_RECORD_BYTES} bytes, got {size}")
        return os.pread(descriptor, size, 0)
    finally:
        os.close(descriptor)
