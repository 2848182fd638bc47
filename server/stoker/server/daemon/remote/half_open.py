"""A half-open connection to the carriers' port: TLS if the daemon has keys, then Attach.

Runs on the daemon's loop and never waits. The other side has shown no key yet, so it may send at
most `MAX_HANDSHAKE_BYTES`: an honest client needs a fourth of that.
"""

import socket
import ssl
from typing import Final

from stoker.protocol import codec, messages
from stoker.protocol.errors import ProtocolError
from stoker.protocol.remote.tcp import HEAD, packet_length, received_bytes
from stoker.server.daemon.remote.session_certificates import SessionCertificates

MAX_ATTACH_BYTES: Final = 256
MAX_HANDSHAKE_BYTES: Final = 2**14


class HalfOpen:
    """A connection that has not attached yet.

    Attributes:
        sock: the connection; another object with the same descriptor once TLS has begun.
        descriptor: its number until `close`, even if TLS has already closed the socket.
        host: the other host.
        since: when it was accepted.
    """

    def __init__(
        self, sock: socket.socket, host: str, since: float, certificates: SessionCertificates | None
    ) -> None:
        self.sock = sock
        self.descriptor = sock.fileno()
        self.host = host
        self.since = since
        self._certificates = certificates
        self._data = b""
        self._is_safe = certificates is None

    @property
    def is_readable(self) -> bool:
        """True if the other side can read what is sent now: no TLS, or its handshake is done."""
        return self._is_safe

    def read_attach(self) -> bytes:
        """Return the token of Attach.

        Raises:
            BlockingIOError: a part is still missing.
            OSError: the connection ended, or TLS refuses the other side.
            ProtocolError: it is another packet, or the handshake is too long.
        """
        try:
            if not self._is_safe:
                self._shake_hands()
            part = self.sock.recv(MAX_ATTACH_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        if not part:
            raise ConnectionResetError
        self._data += part
        if len(self._data) < HEAD.size:
            raise BlockingIOError
        end = HEAD.size + packet_length(self._data[: HEAD.size])
        if end > MAX_ATTACH_BYTES or len(self._data) > end:
            raise ProtocolError("expected Attach alone on the carrier, got more bytes")
        if len(self._data) < end:
            raise BlockingIOError
        record = codec.decode_packet(self._data[HEAD.size :])
        if not isinstance(record, messages.Attach):
            raise ProtocolError(f"expected Attach, got {type(record).__name__}")
        return record.token

    def check(self, token: bytes) -> None:
        """Check that the connection is that of the session with this token.

        Raises:
            ProtocolError: it has another certificate.
        """
        if self._certificates is not None:
            assert isinstance(self.sock, ssl.SSLSocket)
            self._certificates.check(token, self.sock)

    def close(self) -> None:
        """Close it."""
        self.sock.close()

    def _shake_hands(self) -> None:
        """Go on with the handshake of TLS; it begins when the first byte is there."""
        assert self._certificates is not None
        if received_bytes(self.sock) > MAX_HANDSHAKE_BYTES:
            raise ProtocolError(
                f"expected a handshake of TLS and Attach in {MAX_HANDSHAKE_BYTES} bytes, got more"
            )
        if not isinstance(self.sock, ssl.SSLSocket):
            # `wrap` closes the socket if the connection was reset.
            self.sock = self._certificates.wrap(self.sock)
        self.sock.do_handshake()
        self._is_safe = True
