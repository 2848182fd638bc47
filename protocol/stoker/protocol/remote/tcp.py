"""`tcp://host:port` addresses, and the frames of the carrier connection.

The daemon's ZeroMQ socket listens on `port`, its carrier on `port + 1`. Both sides know this rule,
so neither ever sends an address to the other. A frame is the length of a packet (4 bytes,
little-endian), the packet, and after a packet with `size_bytes` that many raw bytes.

Limits: a packet has at most `MAX_PACKET_BYTES` bytes.
"""

import re
import socket
import struct
from typing import Final, NamedTuple

from stoker.protocol.codec import MAX_PACKET_BYTES, encode_packet
from stoker.protocol.errors import ProtocolError, UsageError
from stoker.protocol.messages import Record

SCHEME: Final = "tcp://"
HEAD: Final = struct.Struct("<I")
MAX_FRAME_BYTES: Final = 2**14
"""A client sends a longer ZeroMQ message in several frames, because a peer that has shown no key
yet may make the daemon hold a whole frame."""
LINK_TIMEOUT_S: Final = 30
"""A link without an acknowledgment of the other host for this time is dead."""
KEEPALIVE_IDLE_S: Final = 10
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 4
_LAST_ACK_AT: Final = 56
"""Where `struct tcp_info` of Linux has the milliseconds since the last acknowledgment."""
_RECEIVED_AT: Final = 128
"""Its offset of the number of bytes that were received; Linux 4.1 and later."""
_ADDRESS: Final = re.compile(r"tcp://(\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]]+):([0-9]{1,5})")


class TcpAddress(NamedTuple):
    """A host, without brackets, and the port of the ZeroMQ socket."""

    host: str
    port: int

    @property
    def carrier_port(self) -> int:
        """The port of the carrier."""
        return self.port + 1

    def __str__(self) -> str:
        """Return it as `tcp://host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}{host}:{self.port}"


def tcp_address(text: str, *, any_port: bool = False) -> TcpAddress:
    """Read `tcp://host:port`.

    Args:
        text: the address.
        any_port: whether port 0 is allowed: the system chooses one.

    Raises:
        UsageError: it has another form, or no valid port.
    """
    match = _ADDRESS.fullmatch(text)
    least = 0 if any_port else 1
    if match is None or not least <= int(match[2]) <= 65534:
        raise UsageError(
            f"address {text!r}: expected tcp://HOST:PORT with a port from 1 to 65534 (the next one"
            " is used too), such as tcp://loader-1:7470",
            address=text,
        )
    return TcpAddress(match[1].strip("[]"), int(match[2]))


def frame(record: Record) -> bytes:
    """Return a packet with its length before it."""
    data = encode_packet(record)
    return HEAD.pack(len(data)) + data


def packet_length(head: bytes) -> int:
    """Return the length of the packet that follows.

    Raises:
        ProtocolError: it is 0 or too large.
    """
    (length,) = HEAD.unpack(head)
    if not 1 <= length <= MAX_PACKET_BYTES:
        raise ProtocolError(
            f"expected a packet of 1 to {MAX_PACKET_BYTES} bytes on the carrier, got {length}"
        )
    return int(length)


def watch_link(sock: socket.socket) -> None:
    """Make the kernel end a connection whose other host is gone, and send small frames at once.

    An idle link is probed; sent bytes must be acknowledged within `LINK_TIMEOUT_S`.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_NODELAY, 1),
        (socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S),
        (socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S),
        (socket.TCP_KEEPCNT, KEEPALIVE_PROBES),
        (socket.TCP_USER_TIMEOUT, LINK_TIMEOUT_S * 1000),
    ):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def expect_full(sock: socket.socket) -> None:
    """Let the other host keep a watched connection full for as long as it likes.

    The kernel's limit for acknowledgments counts that as silence, although a host whose process is
    stopped still acknowledges; `is_silent` tells the two apart.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)


def is_silent(sock: socket.socket) -> bool:
    """Return whether the other host has acknowledged nothing for `LINK_TIMEOUT_S`; see tcp(7)."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK_AT + 4)
    (silent_ms,) = struct.unpack_from("=I", info, _LAST_ACK_AT)
    return bool(silent_ms > LINK_TIMEOUT_S * 1000)


def received_bytes(sock: socket.socket) -> int:
    """Return how many bytes have arrived on a connection since it began, read or not."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_AT + 8)
    (count,) = struct.unpack_from("=Q", info, _RECEIVED_AT)
    return int(count)
