"""A small HTTP server in one thread, for health checks and metrics: GET and HEAD, one request each.

Its thread never waits for one client. A connection has `REQUEST_S` from its start to the last byte
of its answer, however slowly it talks. There are at most `MAX_CONNECTIONS`; a new one takes the
place of the oldest that has not sent its request yet. So idle connections delay no request. A
request's head has at most `MAX_HEAD_BYTES`; its body is not read.
"""

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

REQUEST_S: Final = 5.0
MAX_CONNECTIONS: Final = 16
MAX_HEAD_BYTES: Final = 8192
_PAUSE_S: Final = 0.1
_BACKLOG: Final = 128
_REASONS: Final = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    431: "Request Header Fields Too Large", 500: "Internal Server Error",
    503: "Service Unavailable",
}  # fmt: skip


class Answer(NamedTuple):
    """The answer to a path."""

    status: int
    body: bytes
    kind: str = "text/plain; charset=utf-8"


class _Connection:
    """One connection: what has come, and what is left to send."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self.sock = sock
        self.until = until
        self.head = b""
        self.left = memoryview(b"")
        self.answered = False


class HttpServer:
    """Serves from construction to `close`.

    Attributes:
        port: where it listens.
    """

    def __init__(self, host: str, port: int, answer: Callable[[str], Answer]) -> None:
        """Listen and serve.

        Args:
            host: a name or address of this host.
            port: 0: the system chooses one.
            answer: called in the server's thread with a path; without a query.

        Raises:
            OSError: the system refuses the address.
            RuntimeError: no thread can be started.
        """
        self._answer = answer
        self._connections: dict[int, _Connection] = {}
        self._listener = _listen(host, port)
        self.port: int = self._listener.getsockname()[1]
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="stoker-metrics", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._release()
            raise

    def close(self) -> None:
        """Stop listening and end the thread; answers under way are cut off."""
        self._closing = True
        os.eventfd_write(self._bell, 1)
        self._thread.join()
        self._release()

    def _release(self) -> None:
        for connection in self._connections.values():
            connection.sock.close()
        self._connections.clear()
        self._listener.close()
        os.close(self._bell)

    def _serve(self) -> None:
        """Run in the thread."""
        paused_until = 0.0
        while not self._closing:
            poll, now = select.poll(), time.monotonic()
            poll.register(self._bell, select.POLLIN)
            if now >= paused_until:
                poll.register(self._listener, select.POLLIN)
            for number, connection in self._connections.items():
                poll.register(number, select.POLLOUT if connection.answered else select.POLLIN)
            ends = [connection.until for connection in self._connections.values()]
            ends += [paused_until] if now < paused_until else []
            wait_ms = max(0.0, min(ends) - now) * 1000 + 1 if ends else None
            for number, _ in poll.poll(wait_ms):
                if number == self._listener.fileno():
                    paused_until = 0.0 if self._accept() else time.monotonic() + _PAUSE_S
                elif number in self._connections:
                    self._go_on(self._connections[number])
            now = time.monotonic()
            for connection in list(self._connections.values()):
                if connection.until <= now:
                    self._drop(connection)

    def _accept(self) -> bool:
        """Accept one connection; return whether the system lets it."""
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return True
        except OSError:  # no descriptor or memory is left
            return False
        sock.setblocking(False)
        if len(self._connections) >= MAX_CONNECTIONS:
            asking = [one for one in self._connections.values() if not one.answered]
            self._drop((asking or list(self._connections.values()))[0])
        connection = _Connection(sock, time.monotonic() + REQUEST_S)
        self._connections[sock.fileno()] = connection
        self._go_on(connection)  # so a request that is there already is never the oldest
        return True

    def _go_on(self, connection: _Connection) -> None:
        """Read or write as far as that is possible without waiting."""
        try:
            if not connection.answered:
                self._read(connection)
            while connection.answered and connection.left:
                connection.left = connection.left[connection.sock.send(connection.left) :]
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        if connection.answered:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_WR)
            self._drop(connection)

    def _read(self, connection: _Connection) -> None:
        while b"\r\n\r\n" not in connection.head and b"\n\n" not in connection.head:
            part = connection.sock.recv(MAX_HEAD_BYTES)
            if not part:
                raise ConnectionResetError
            connection.head += part
            if len(connection.head) > MAX_HEAD_BYTES:
                self._reply(connection, Answer(431, b"the head of the request is too long\n"))
                return
        words = connection.head.split(b"\n", 1)[0].split()
        if len(words) != 3 or not words[2].startswith(b"HTTP/"):
            self._reply(connection, Answer(400, b"expected METHOD PATH HTTP/VERSION\n"))
        elif words[0] not in (b"GET", b"HEAD"):
            self._reply(connection, Answer(405, b"use GET or HEAD\n"))
        else:
            path = words[1].decode("latin-1").partition("?")[0]
            try:
                answer = self._answer(path)
            except Exception as error:
                answer = Answer(500, f"{type(error).__name__}: {error}\n".encode())
            self._reply(connection, answer, with_body=words[0] == b"GET")

    def _reply(self, connection: _Connection, answer: Answer, *, with_body: bool = True) -> None:
        lines = [
            f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
            f"Content-Type: {answer.kind}",
            f"Content-Length: {len(answer.body)}",
            "Connection: close",
            *(["Allow: GET, HEAD"] if answer.status == 405 else []),
        ]
        head = "".join(f"{line}\r\n" for line in lines) + "\r\n"
        connection.left = memoryview(head.encode() + answer.body * with_body)
        connection.answered = True

    def _drop(self, connection: _Connection) -> None:
        del self._connections[connection.sock.fileno()]
        connection.sock.close()


def _listen(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
