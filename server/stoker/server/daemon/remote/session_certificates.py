"""Certificates of carriers: the daemon's own, and those that clients sent with HELLO.

Runs on the daemon's loop. A carrier is accepted only with a certificate of a session that has no
carrier yet; then the token in its Attach must belong to the same certificate.
"""

import socket
import ssl

from stoker.protocol.errors import ProtocolError
from stoker.protocol.remote.tls import daemon_context, make_identity, peer_certificate


class SessionCertificates:
    """The daemon's certificate, and the certificates of sessions by token.

    Attributes:
        certificate: the daemon's own (DER).
    """

    def __init__(self) -> None:
        """Make the daemon's certificate.

        Raises:
            ResourceError: the package that makes it is missing.
        """
        self._identity = make_identity("stoker daemon")
        self.certificate = self._identity.certificate
        self._pinned: dict[bytes, bytes] = {}
        self._context: ssl.SSLContext | None = None

    def pin(self, token: bytes, certificate: bytes) -> None:
        """Remember the certificate of a session; `check_certificate` has passed it."""
        self._pinned[token] = certificate
        self._context = None

    def forget(self, token: bytes) -> None:
        """Accept the session's certificate no longer."""
        if self._pinned.pop(token, None) is not None:
            self._context = None

    def wrap(self, sock: socket.socket) -> ssl.SSLSocket:
        """Return a connection as the daemon's end of TLS, before its handshake."""
        if self._context is None:
            self._context = daemon_context(self._identity, self._pinned.values())
        return self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def check(self, token: bytes, sock: ssl.SSLSocket) -> None:
        """Check that a connection has the certificate of a session.

        Raises:
            ProtocolError: it has that of another one.
        """
        if self._pinned.get(token) != peer_certificate(sock):
            raise ProtocolError("expected the certificate that the session sent with HELLO")
