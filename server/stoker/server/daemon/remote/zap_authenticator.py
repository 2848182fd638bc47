"""Answers libzmq, which asks for each connection with a key whether it may continue.

libzmq asks over an inproc socket, as ZAP (RFC 27 of ZeroMQ) describes. A thread answers, so no
handshake waits for the daemon's loop. The answer for a client in the list is its public key (hex),
which libzmq then attaches to the connection's messages as "User-Id".

The thread ends when its context ends. Thread safety: it only reads the list of `Access`.
"""

import contextlib
import threading
import time
from typing import Final

import zmq

from stoker.protocol.remote.keys import public_text
from stoker.server.daemon.remote.access import Access
from stoker.server.settings import logs

_ENDPOINT: Final = "inproc://zeromq.zap.01"
_VERSION: Final = b"1.0"
_DOMAIN: Final = b"stoker"
_FRAMES: Final = 7  # version, request, domain, address, identity, mechanism, key
_LOGGED: Final = 3
"""Refused clients that the log shows in a minute."""


class ZapAuthenticator:
    """The thread that answers, for the sockets of one context."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", access: Access) -> None:
        self._access = access
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(_ENDPOINT)
        self._log_limit = logs.RateLimit(burst=_LOGGED, period_s=60.0)
        self._thread = threading.Thread(target=self._work, name="stoker-zap", daemon=True)
        self._thread.start()

    def guard(self, router: "zmq.Socket[bytes]") -> None:
        """Require keys at the addresses to which a socket is bound from now on."""
        router.setsockopt(zmq.CURVE_SERVER, 1)
        router.setsockopt(zmq.CURVE_SECRETKEY, self._access.secret)
        router.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN)

    def _work(self) -> None:
        """Run in the thread."""
        with self._socket, contextlib.suppress(zmq.ContextTerminated):
            while True:
                self._socket.send_multipart(self._answer(self._socket.recv_multipart()))

    def _answer(self, request: list[bytes]) -> list[bytes]:
        number = request[1] if len(request) > 1 else b""
        if len(request) != _FRAMES or request[0] != _VERSION or request[5] != b"CURVE":
            return [_VERSION, number, b"400", b"expected a key", b"", b""]
        key = request[6]
        name = self._access.name_of(key)
        if name is None:
            self._note(request[3].decode("utf-8", "replace"), key)
            return [_VERSION, number, b"400", b"not in the list of clients", b"", b""]
        return [_VERSION, number, b"200", b"OK", key.hex().encode(), b""]

    def _note(self, address: str, key: bytes) -> None:
        suppressed = self._log_limit.allow("client", time.monotonic())
        if suppressed is not None:
            logs.log(
                "warning", "client_not_in_list", key=public_text(key), address=address,
                suppressed=suppressed,
            )  # fmt: skip
