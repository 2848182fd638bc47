"""The client's end of TLS on a carrier, which reads the connection in large parts.

`ssl.SSLSocket` makes two system calls for each record of 16 KiB. Here one call takes all records
that have arrived, up to `READ_BYTES`. OpenSSL then decrypts each record into the caller's memory.

Thread safety: one thread at a time may use it.
"""

import contextlib
import math
import socket
import ssl
import time
from typing import Final, cast

READ_BYTES: Final = 2**18


class TlsStream:
    """TLS on a connected, blocking socket."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, deadline: float = math.inf
    ) -> None:
        """Make the handshake.

        Args:
            sock: the connection.
            context: of this side.
            deadline: of `time.monotonic`, for the whole handshake.

        Raises:
            OSError: the connection ended, or a side refuses the other (`ssl.SSLError`).
            TimeoutError: the handshake took too long.
        """
        self._deadline = deadline
        self._sock = sock
        self._encrypted = memoryview(bytearray(READ_BYTES))
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        try:
            self._shake_hands()
            self._deadline = math.inf
        except ssl.SSLError:
            with contextlib.suppress(OSError):
                self._flush()  # the alert that tells the other side why
            raise

    def sendall(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            OSError: the connection ended.
        """
        self._tls.write(data)
        self._flush()

    def recv_into(self, view: memoryview, count: int, _: int = 0) -> int:
        """Receive exactly `count` bytes, or fewer (also 0) at the end of the connection.

        If it ends in the middle of a record, no byte of that record is received.

        Raises:
            OSError: the connection failed, or a record was changed on its way (`ssl.SSLError`).
        """
        done = 0
        while done < count:
            try:
                got = cast("int", self._tls.read(count - done, view[done:]))  # at most one record
            except ssl.SSLWantReadError:
                if self._pull():
                    continue
                break
            if not got:
                break
            done += got
        return done

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                if not self._pull():
                    raise ConnectionResetError(0, "it ended in the handshake") from None
        self._flush()

    def _pull(self) -> int:
        """Take what has arrived; wait for it. Return its size, 0 at the end."""
        self._flush()  # TLS may owe an answer
        if self._deadline < math.inf:
            self._sock.settimeout(max(self._deadline - time.monotonic(), 0.001))
        size = self._sock.recv_into(self._encrypted)
        self._incoming.write(self._encrypted[:size])
        return size

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._sock.sendall(self._outgoing.read())
