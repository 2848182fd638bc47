"""Carriers: lifelines of the sessions on other hosts, and the way of their batches.

Runs on the daemon's loop and never waits; each carrier has a thread that sends. A connection is
*half-open* until its first packet, which must be Attach with an unused token from WELCOME. Then it
is that session's lifeline, as a connection of the side socket is for a local one. Anything else
ends it: a wrong packet, silence beyond `ATTACH_DEADLINE_S`, any byte after Attach. There are at
most `MAX_HALF_OPEN` half-open connections; a new one replaces the oldest one of the host that has
most.

The client needs no RELEASE: the slot of a batch that was sent is released here.
"""

import contextlib
import errno
import functools
import os
import queue
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from stoker.protocol import codec, messages
from stoker.protocol.errors import ProtocolError, StokerError
from stoker.protocol.remote.tcp import HEAD, frame, packet_length, watch_link
from stoker.server.daemon.remote.carrier import Carrier
from stoker.server.settings import logs

ATTACH_DEADLINE_S: Final = 5.0
MAX_HALF_OPEN: Final = 64
MAX_ACCEPTS: Final = 64
MAX_ATTACH_BYTES: Final = 256
_ENDED: Final = (-1, -1)


class Carriers:
    """Listener, half-open connections and carriers.

    Args of the constructor:
        listener: the socket that accepts; it is its owner's.
        on_up, on_down: called with a token when its carrier attached, or ended from outside.
        on_sent: called with (token, [(slot, generation), ...]) of batches that were sent.
        now: monotonic seconds.
        may_accept: whether there are enough descriptors for another connection.
    """

    def __init__(
        self,
        listener: socket.socket,
        on_up: Callable[[bytes], None],
        on_down: Callable[[bytes], None],
        on_sent: Callable[[bytes, list[tuple[int, int]]], None],
        now: Callable[[], float],
        may_accept: Callable[[], bool],
    ) -> None:
        self._listener = listener
        self._on_up, self._on_down, self._on_sent = on_up, on_down, on_sent
        self._now = now
        self._may_accept = may_accept
        self._expected: set[bytes] = set()
        self._half_open: dict[socket.socket, tuple[float, str, bytes]] = {}
        self._carriers: dict[bytes, Carrier] = {}
        self._ending: list[Carrier] = []
        self._reports: queue.SimpleQueue[tuple[bytes, tuple[int, int]]] = queue.SimpleQueue()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._log_limit = logs.RateLimit(burst=5, period_s=10.0)
        self.refused_connections = 0
        self._calls: dict[int, Callable[[], None]] = {
            listener.fileno(): self._accept,
            self._bell: self._collect,
        }

    def descriptors(self) -> dict[int, Callable[[], None]]:
        """Return the open descriptors and what to call when one is readable."""
        return self._calls

    def __contains__(self, token: bytes) -> bool:
        """Whether a session has a carrier."""
        return token in self._carriers

    def expect(self, token: bytes) -> None:
        """Accept that token once."""
        self._expected.add(token)

    def unexpect(self, token: bytes) -> None:
        """Void the token."""
        self._expected.discard(token)

    def send_memory(
        self, token: bytes, record: messages.Slab | messages.Replayed, descriptor: int
    ) -> bool:
        """Announce a slab, or send a replay; False if the session has no carrier."""
        carrier = self._carriers.get(token)
        if carrier is None:
            return False
        if isinstance(record, messages.Slab):
            carrier.send_slab(record, descriptor)
        else:
            carrier.send_file(record, descriptor)
        return True

    def carry(self, token: bytes, records: Sequence[messages.DaemonRecord]) -> None:
        """Send the batches that records announce."""
        carrier = self._carriers.get(token)
        if carrier is None:
            return
        for record in records:
            if isinstance(record, messages.Ready):
                carrier.send_batch(record)

    def hang_up(self, token: bytes) -> None:
        """End the carrier of a lost session. Its client sees no slots, so it counts as dead."""
        self._expected.discard(token)
        if token in self._carriers:
            self._report(token, _ENDED)

    def end(self, token: bytes) -> None:
        """Void the token, and end its carrier at the next tick, after its last records."""
        self._expected.discard(token)
        carrier = self._carriers.pop(token, None)
        if carrier is not None:
            self._calls.pop(carrier.fileno(), None)
            self._ending.append(carrier)

    def tick(self) -> None:
        """End carriers of ended sessions, drop late half-open connections, resume accepting."""
        for carrier in self._ending:
            carrier.end()
        self._ending.clear()
        self._calls[self._listener.fileno()] = self._accept
        late = self._now() - ATTACH_DEADLINE_S
        for sock in [sock for sock, (since, _, _) in self._half_open.items() if since <= late]:
            self._refuse(
                sock,
                ProtocolError(
                    f"expected Attach with a token within {ATTACH_DEADLINE_S:g} s of connecting"
                ),
            )

    def close(self) -> None:
        """End every carrier and close every half-open connection."""
        for sock in self._half_open:
            sock.close()
        self._half_open.clear()
        for carrier in (*self._carriers.values(), *self._ending):
            carrier.end()
            carrier.join()
        self._carriers.clear()
        self._calls.clear()
        os.close(self._bell)

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTS):
            if not self._may_accept():
                del self._calls[self._listener.fileno()]  # until `tick`
                return
            try:
                sock, where = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    del self._calls[self._listener.fileno()]  # until `tick`
                    logs.log("error", "accept_failed", reason=error.strerror)
                    return
                continue  # the peer went away before it was accepted
            sock.setblocking(False)
            watch_link(sock)
            if len(self._half_open) >= MAX_HALF_OPEN:
                self._refuse(
                    self._most_idle(),
                    ProtocolError(f"more than {MAX_HALF_OPEN} connections are waiting for Attach"),
                )
            self._half_open[sock] = self._now(), str(where[0]), b""
            self._calls[sock.fileno()] = functools.partial(self._attach, sock)

    def _most_idle(self) -> socket.socket:
        """Return the oldest half-open connection of the host that has most of them."""
        counts = Counter(host for _, host, _ in self._half_open.values())
        most = max(counts.values())
        return next(s for s, (_, host, _) in self._half_open.items() if counts[host] == most)

    def _attach(self, sock: socket.socket) -> None:
        if sock not in self._half_open:  # dropped earlier in this turn of the loop
            return
        try:
            token = self._read_attach(sock)
        except BlockingIOError:
            return
        except OSError:
            self._drop(sock)
            return
        except StokerError as error:
            self._refuse(sock, error)
            return
        del self._half_open[sock]
        self._carriers[token] = carrier = Carrier(
            sock,
            lambda slot, generation: self._report(token, (slot, generation)),
            lambda: self._report(token, _ENDED),
        )
        self._calls[sock.fileno()] = functools.partial(self._heard, token)
        carrier.send(messages.Attached())
        self._on_up(token)

    def _read_attach(self, sock: socket.socket) -> bytes:
        """Return the token.

        Raises:
            BlockingIOError: a part of the packet is still missing.
            OSError: the connection ended.
            ProtocolError: it is another packet, or no session waits for that token.
        """
        since, host, data = self._half_open[sock]
        part = sock.recv(MAX_ATTACH_BYTES)
        if not part:
            raise ConnectionResetError
        data += part
        self._half_open[sock] = since, host, data
        if len(data) < HEAD.size:
            raise BlockingIOError
        end = HEAD.size + packet_length(data[: HEAD.size])
        if end > MAX_ATTACH_BYTES or len(data) > end:
            raise ProtocolError("expected Attach alone on the carrier, got more bytes")
        if len(data) < end:
            raise BlockingIOError
        record = codec.decode_packet(data[HEAD.size :])
        if not isinstance(record, messages.Attach):
            raise ProtocolError(f"expected Attach, got {type(record).__name__}")
        if record.token not in self._expected:
            raise ProtocolError(
                "this token belongs to no session, or was used before; connect again with HELLO"
            )
        self._expected.discard(record.token)
        return record.token

    def _heard(self, token: bytes) -> None:
        """Look at a carrier that is readable: its end ends the session, as does any byte."""
        carrier = self._carriers.get(token)
        reason = None if carrier is None else carrier.ended()
        if reason is not None:
            if reason != "closed":
                self._note(reason)
            self._lose(token)

    def _lose(self, token: bytes) -> None:
        carrier = self._carriers.pop(token, None)
        if carrier is not None:
            self._calls.pop(carrier.fileno(), None)
            carrier.end()
            self._on_down(token)

    def _report(self, token: bytes, what: tuple[int, int]) -> None:
        """Report to the loop; runs in any thread."""
        self._reports.put((token, what))
        os.eventfd_write(self._bell, 1)

    def _collect(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        sent: dict[bytes, list[tuple[int, int]]] = {}
        while True:
            try:
                token, what = self._reports.get_nowait()
            except queue.Empty:
                break
            if what == _ENDED:
                self._lose(token)
            elif token in self._carriers:
                sent.setdefault(token, []).append(what)
        for token, slots in sent.items():
            self._on_sent(token, slots)

    def _refuse(self, sock: socket.socket, error: StokerError) -> None:
        self._note(error.message)
        code, message, details = error.to_record()
        with contextlib.suppress(OSError):
            sock.send(frame(messages.Error(0, code, message, details)))
        self._drop(sock)

    def _note(self, reason: str) -> None:
        self.refused_connections += 1
        suppressed = self._log_limit.allow("connection", self._now())
        if suppressed is not None:
            logs.log("warning", "connection_refused", reason=reason, suppressed=suppressed)

    def _drop(self, sock: socket.socket) -> None:
        del self._half_open[sock]
        del self._calls[sock.fileno()]
        sock.close()
