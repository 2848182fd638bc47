"""A small HTTP server in one thread, for health checks, metrics and a page: GET and HEAD.

Its thread never waits for one client. A connection has one request, and `REQUEST_S` from its start
to the last byte of its answer, however slowly it talks. There are at most `MAX_CONNECTIONS`; a new
one takes the place of the oldest that has not sent its request yet. So idle connections delay no
request. A request's head has at most `MAX_HEAD_BYTES`; its body is not read.

An answer may go on as a stream: then the connection gets a frame every `FRAME_S`, until the client
ends it. A client that has not read a frame gets the newest one once it has, and is disconnected
after `REQUEST_S`. At most `MAX_STREAMS` connections are streams; they count apart from the others.
"""

import contextlib
import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

REQUEST_S: Final = 5.0
FRAME_S: Final = 0.5
MAX_CONNECTIONS: Final = 16
MAX_STREAMS: Final = 8
MAX_HEAD_BYTES: Final = 8192
_STREAM_BUFFER_BYTES: Final = 2**16
_UNHEARD_MS: Final = 20_000
"""A stream ends if its host has not confirmed what was sent for so long: it is gone."""
_PAUSE_S: Final = 0.1
_BACKLOG: Final = 128
_REASONS: Final = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


class HttpRequest(NamedTuple):
    """A request: its path without a query, and its fields by their names in lower case."""

    path: str
    fields: Mapping[str, str]


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        status: its number.
        body: its body, or the beginning of a stream.
        kind: the media type.
        fields: further lines of its head, "Name: value".
        frames: makes the next frame of a stream, in the server's thread; None: it is no stream.
    """

    status: int
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    fields: tuple[str, ...] = ()
    frames: Callable[[], bytes] | None = None


class _Connection:
    """One connection: what has come, what is left to send, and what makes its frames."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self.sock = sock
        self.until = until
        self.head = b""
        self.left = memoryview(b"")
        self.answered = False
        self.frames: Callable[[], bytes] | None = None

    @property
    def awaited(self) -> int:
        """What `poll` looks for."""
        return select.POLLOUT if self.left else select.POLLIN


class HttpServer:
    """Serves from construction to `close`.

    Attributes:
        port: where it listens.
    """

    def __init__(self, host: str, port: int, answer: Callable[[HttpRequest], Answer]) -> None:
        """Listen and serve.

        Args:
            host: a name or address of this host.
            port: 0: the system chooses one.
            answer: called in the server's thread with a request.

        Raises:
            OSError: the system refuses the address.
            RuntimeError: no thread can be started.
        """
        self._answer = answer
        self._connections: dict[int, _Connection] = {}
        self._frame_at = 0.0
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
                poll.register(number, connection.awaited)
            ends = [connection.until for connection in self._connections.values()]
            ends += [paused_until] if now < paused_until else []
            ends += [self._frame_at] if self._streams() else []
            wait_ms = max(0.0, min(ends) - now) * 1000 + 1 if ends else None
            for number, _ in poll.poll(wait_ms):
                if number == self._listener.fileno():
                    paused_until = 0.0 if self._accept() else time.monotonic() + _PAUSE_S
                elif number in self._connections:
                    self._go_on(self._connections[number])
            self._end_late(time.monotonic())
            self._send_frames(time.monotonic())

    def _streams(self) -> list[_Connection]:
        return [one for one in self._connections.values() if one.frames is not None]

    def _end_late(self, now: float) -> None:
        for connection in list(self._connections.values()):
            if connection.until <= now:
                self._drop(connection)

    def _send_frames(self, now: float) -> None:
        """Send each stream a frame if it is time; one that has not read the last gets none."""
        if now < self._frame_at:
            return
        self._frame_at = now + FRAME_S
        for connection in self._streams():
            if connection.left:
                continue
            assert connection.frames is not None
            try:
                connection.left = memoryview(connection.frames())
            except Exception:  # it ends this stream, as status 500 ends a request
                self._drop(connection)
                continue
            connection.until = now + REQUEST_S
            self._go_on(connection)

    def _accept(self) -> bool:
        """Accept one connection; return whether the system lets it."""
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return True
        except OSError:  # no descriptor or memory is left
            return False
        sock.setblocking(False)
        brief = [one for one in self._connections.values() if one.frames is None]
        if len(brief) >= MAX_CONNECTIONS:
            asking = [one for one in brief if not one.answered]
            self._drop((asking or brief)[0])
        connection = _Connection(sock, time.monotonic() + REQUEST_S)
        self._connections[sock.fileno()] = connection
        self._go_on(connection)  # so a request that is there already is never the oldest
        return True

    def _go_on(self, connection: _Connection) -> None:
        """Read or write as far as that is possible without waiting."""
        try:
            if not connection.answered:
                self._read(connection)
            elif connection.frames is not None and not connection.left:
                connection.sock.recv(1)  # a client says nothing more: this is the end
                raise ConnectionResetError
            while connection.answered and connection.left:
                connection.left = connection.left[connection.sock.send(connection.left) :]
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        if connection.answered and connection.frames is not None:
            connection.until = math.inf  # it has read everything
        elif connection.answered:
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
        first, *lines = connection.head.decode("latin-1").splitlines()
        words = first.split()
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            self._reply(connection, Answer(400, b"expected METHOD PATH HTTP/VERSION\n"))
        elif words[0] not in ("GET", "HEAD"):
            self._reply(connection, Answer(405, b"use GET or HEAD\n", fields=("Allow: GET, HEAD",)))
        else:
            request = HttpRequest(words[1].partition("?")[0], _fields(lines))
            try:
                answer = self._answer(request)
            except Exception as error:
                answer = Answer(500, f"{type(error).__name__}: {error}\n".encode())
            if answer.frames is not None and len(self._streams()) >= MAX_STREAMS:
                answer = Answer(503, f"{MAX_STREAMS} pages are open, the limit\n".encode())
            self._reply(connection, answer, with_body=words[0] == "GET")

    def _reply(self, connection: _Connection, answer: Answer, *, with_body: bool = True) -> None:
        lines = [
            f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
            f"Content-Type: {answer.kind}",
            *([f"Content-Length: {len(answer.body)}"] if answer.frames is None else []),
            "Connection: close",
            *answer.fields,
        ]
        head = "".join(f"{line}\r\n" for line in lines) + "\r\n"
        connection.left = memoryview(head.encode() + answer.body * with_body)
        connection.answered = True
        if answer.frames is not None and with_body:
            if not self._streams():
                self._frame_at = time.monotonic() + FRAME_S
            connection.frames = answer.frames
            sock = connection.sock
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _STREAM_BUFFER_BYTES)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNHEARD_MS)

    def _drop(self, connection: _Connection) -> None:
        del self._connections[connection.sock.fileno()]
        connection.sock.close()


def _fields(lines: list[str]) -> dict[str, str]:
    """Return the fields of a head, by their names in lower case; of equal names the last one."""
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


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
