"""Two neighboring TCP ports in front of a daemon's: they record, cut, reset, and intercept."""

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

from stoker.protocol.remote.tcp import TcpAddress
from stoker.protocol.remote.tls import Identity, daemon_context

RECORDS, BATCHES = 0, 1
"""The two ports."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: `close` sends a reset."""


class Stop(NamedTuple):
    """After how many bytes in one direction a connection ends, and how.

    It ends by "reset", "end", "garbage" (and then the end), or "silence": no byte follows.
    """

    port: int
    to_daemon: bool
    size_bytes: int
    how: str


class Proxy:
    """Passes bytes on in both directions, and keeps them unless `keeps` is False.

    With an identity, it ends TLS itself on the port of batches, as an attacker in between would.
    With a `delay_s`, the link is slow: each part of a batch waits so long before it is passed on.

    Attributes:
        address: where it listens.
    """

    def __init__(
        self,
        there: TcpAddress,
        identity: Identity | None = None,
        *,
        keeps: bool = True,
        delay_s: float = 0.0,
    ) -> None:
        self._there, self._identity, self._keeps = there, identity, keeps
        self._delay_s = delay_s
        self._data: list[bytes] = []
        self._listeners, self.address = _neighbors()
        self._sockets: list[list[socket.socket]] = [[], []]
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._refusals: dict[int, tuple[int, threading.Event]] = {}
        self._stop: Stop | None = None
        self._was_reset: set[socket.socket] = set()
        for number, listener in enumerate(self._listeners):
            self._run(self._accept, listener, number)

    def seen(self) -> bytes:
        """All bytes of both directions."""
        return b"".join(self._data)

    def cut(self, *ports: int) -> None:
        """End the connections of these ports; new ones are accepted."""
        for port in ports:
            cut, self._sockets[port] = self._sockets[port], []
            for sock in cut:
                _end(sock)

    def reset(self, *ports: int) -> None:
        """Reset the connections of these ports, on both sides; new ones are accepted."""
        for port in ports:
            reset, self._sockets[port] = self._sockets[port], []
            for sock in reset:
                self._reset(sock)

    def _reset(self, sock: socket.socket) -> None:
        self._was_reset.add(sock)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            sock.shutdown(socket.SHUT_RD)  # sends nothing; its thread ends, and closes it

    def stop_after(self, stop: Stop | None) -> None:
        """End new connections in this way; None: none."""
        self._stop = stop

    def refuse(self, port: int, connections: int) -> threading.Event:
        """End that number of new connections of a port at once, as if the daemon were gone.

        Returns:
            An event that is set once it has.
        """
        done = threading.Event()
        self._refusals[port] = connections, done
        return done

    def _refuses(self, number: int) -> bool:
        left, done = self._refusals.get(number, (0, None))
        if not left:
            return False
        self._refusals[number] = left - 1, done
        if left == 1:
            done.set()
        return True

    def _run(self, target: Callable[..., None], *args: object) -> None:
        self._threads.append(threading.Thread(target=target, args=args))
        self._threads[-1].start()

    def _accept(self, listener: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):
            while not self._closing:
                self._run(self._serve, listener.accept()[0], number)

    def _serve(self, client: socket.socket, number: int) -> None:
        if self._refuses(number):
            client.close()
            return
        self._sockets[number].append(client)
        with contextlib.suppress(OSError), client:
            if number == BATCHES and self._identity is not None:
                daemon_context(self._identity, []).wrap_socket(client, server_side=True)
            there = socket.create_connection((self._there.host, self._there.port + number))
            with there:
                self._sockets[number].append(there)
                stops = {s.to_daemon: s for s in [self._stop] if s is not None and s.port == number}
                delay_s = self._delay_s if number == BATCHES else 0.0
                passed = there, client, stops.get(False), delay_s
                back = threading.Thread(target=self._copy, args=passed)
                back.start()
                self._copy(client, there, stops.get(True))
                back.join()

    def _copy(
        self,
        source: socket.socket,
        target: socket.socket,
        stop: Stop | None,
        delay_s: float = 0.0,
    ) -> None:
        left = 2**62 if stop is None else stop.size_bytes
        with contextlib.suppress(OSError):
            while left and (data := source.recv(2**16)):
                if self._keeps:
                    self._data.append(data)
                if delay_s:
                    select.select([], [], [], delay_s)
                target.sendall(data[:left])
                left = max(0, left - len(data))
            if not left and stop is not None:
                self._stop_at(source, target, stop.how)
        if target not in self._was_reset:
            _end(target)

    def _stop_at(self, source: socket.socket, target: socket.socket, how: str) -> None:
        if how == "reset":
            self._reset(target)
            self._reset(source)
        elif how == "silence":
            while source.recv(2**16):
                pass
        else:
            if how == "garbage":
                target.sendall(bytes(range(256)) * 2)
            _end(source)

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        for listener in self._listeners:
            _end(listener)
            listener.close()
        self.cut(RECORDS, BATCHES)
        for thread in self._threads:
            thread.join(30)


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _neighbors() -> tuple[list[socket.socket], str]:
    """Two listeners on neighboring ports, and the address of the first."""
    while True:
        first = socket.create_server(("127.0.0.1", 0))
        port = first.getsockname()[1]
        try:
            return [first, socket.create_server(("127.0.0.1", port + 1))], f"tcp://127.0.0.1:{port}"
        except (OSError, OverflowError):
            first.close()
