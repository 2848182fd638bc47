"""Carriers: lifelines of the sessions on other hosts, and the way of their batches.

Runs on the daemon's loop and never waits; each carrier has a thread that sends. A connection is
*half-open* until its first packet, which must be Attach with an unused token from WELCOME. Then it
is that session's lifeline, as a connection of the side socket is for a local one. Anything else
ends it: a wrong packet, silence beyond `ATTACH_DEADLINE_S`, any byte after Attach.
`PendingConnections` limits the half-open connections, in all and per host. With keys, the
connection is TLS between the daemon's certificate and that of the session.

A descriptor's number is reused as soon as it is closed. So connections are known by their objects;
`_calls` alone has numbers, and loses one before its connection is closed.

The client needs no RELEASE: the slot of a batch that was sent is released here.
"""

import contextlib
import functools
import os
import queue
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from stoker.protocol import messages
from stoker.protocol.errors import ResourceError, StokerError, TryAgainError
from stoker.protocol.remote.tcp import expect_full, frame, watch_link
from stoker.protocol.remote.tls import check_certificate
from stoker.server.daemon.accepting import accepted
from stoker.server.daemon.descriptor_limits import half_open_limit
from stoker.server.daemon.pending_connections import MOST, PendingConnections
from stoker.server.daemon.remote.half_open import HalfOpen
from stoker.server.daemon.remote.session_carrier import SessionCarrier
from stoker.server.daemon.remote.session_certificates import SessionCertificates
from stoker.server.settings import logs

ATTACH_DEADLINE_S: Final = 10.0
_Sent = list[tuple[int, int]]
_Report = _Sent | Exception | None


class Carriers:
    """Listener, half-open connections and carriers.

    Args of the constructor:
        listener: the socket that accepts; it is its owner's.
        on_up, on_down: called with a token when its carrier attached, or ended from outside.
        on_sent: called with (token, [(slot, generation), ...]) of batches that were sent.
        now: monotonic seconds.
        may_accept: whether there are enough descriptors for another connection.
        note: counts and logs an unexpected exception; `Guard.note`.
        certificates: of sessions, if carriers are TLS.
    """

    def __init__(
        self,
        listener: socket.socket,
        on_up: Callable[[bytes], None],
        on_down: Callable[[bytes], None],
        on_sent: Callable[[bytes, list[tuple[int, int]]], None],
        now: Callable[[], float],
        may_accept: Callable[[], bool],
        note: Callable[[str, Exception], None],
        certificates: SessionCertificates | None = None,
    ) -> None:
        self._listener = listener
        self._on_up, self._on_down, self._on_sent = on_up, on_down, on_sent
        self._now = now
        self._may_accept = may_accept
        self._note_fault = note
        self._certificates = certificates
        self._expected: set[bytes] = set()
        self._half_open: PendingConnections[HalfOpen] = PendingConnections(half_open_limit(MOST))
        self._carriers: dict[bytes, SessionCarrier] = {}
        self._ending: list[SessionCarrier] = []
        self._reports: queue.SimpleQueue[tuple[bytes, _Report]] = queue.SimpleQueue()
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
        """Return whether a session has a carrier."""
        return token in self._carriers

    @property
    def certificate(self) -> bytes:
        """The daemon's certificate; empty without TLS."""
        return b"" if self._certificates is None else self._certificates.certificate

    def check_certificate(self, certificate: bytes) -> None:
        """Check the certificate that a client sent with HELLO. Without TLS nothing is checked.

        Raises:
            ProtocolError: it is not a certificate.
        """
        if self._certificates is not None:
            check_certificate(certificate)

    def expect(self, token: bytes, certificate: bytes) -> None:
        """Accept that token once, with TLS only from the owner of that certificate."""
        self._expected.add(token)
        if self._certificates is not None and certificate:
            self._certificates.pin(token, certificate)

    def revoke(self, token: bytes) -> None:
        """Void the token."""
        self._expected.discard(token)
        if self._certificates is not None:
            self._certificates.forget(token)

    def send_memory(
        self, token: bytes, record: messages.Slab | messages.Replayed, descriptor: int
    ) -> bool:
        """Announce a slab, or send a replay; False if the session has no carrier.

        Also False if the system refuses what that needs; then the client gets that error.
        """
        carrier = self._carriers.get(token)
        if carrier is None:
            return False
        try:
            if isinstance(record, messages.Slab):
                carrier.send_slab(record, descriptor)
            else:
                carrier.send_file(record, descriptor)
        except ResourceError as error:
            logs.log("error", "carrier_failed", reason=error.message)
            self.refuse(token, error)
            return False
        return True

    def refuse(self, token: bytes, error: StokerError) -> bool:
        """Send an error as the last packet of a carrier, and end it at the next tick.

        Over ZeroMQ, the end of the carrier could overtake the error.

        Returns:
            Whether the session has a carrier.
        """
        carrier = self._carriers.get(token)
        if carrier is None:
            return False
        carrier.send_error(messages.Error(0, *error.to_record()))
        self.end(token)
        return True

    def carry(
        self, token: bytes, records: Sequence[messages.DaemonRecord]
    ) -> Sequence[messages.DaemonRecord]:
        """Send batches, and what must not overtake them; return the records that are left."""
        carrier = self._carriers.get(token)
        if carrier is None:
            return records
        left: list[messages.DaemonRecord] = []
        for record in records:
            if isinstance(record, messages.Ready):
                if not carrier.send_batch(record):
                    left.append(record)
            elif isinstance(record, messages.Error) and record.run is not None:
                carrier.send_error(record)
            else:
                left.append(record)
        return left

    def hang_up(self, token: bytes) -> None:
        """End the carrier of a lost session. Its client sees no slots, so it counts as dead."""
        self.revoke(token)
        if token in self._carriers:
            self._report(token, None)

    def end(self, token: bytes) -> None:
        """Void the token, and end its carrier at the next tick, after its last records."""
        self.revoke(token)
        carrier = self._carriers.pop(token, None)
        if carrier is not None:
            self._calls.pop(carrier.descriptor, None)
            self._ending.append(carrier)

    def abandon(self, descriptor: int) -> bool:
        """Close the connection with that descriptor, in any state.

        Returns:
            Whether it is one of these.
        """
        if descriptor not in self._calls:
            return False
        if descriptor in (self._listener.fileno(), self._bell):
            return True
        for made in self._half_open:
            if made.descriptor == descriptor:
                self._drop(made)
                return True
        for token, carrier in self._carriers.items():
            if carrier.descriptor == descriptor:
                self._lose(token)
                return True
        del self._calls[descriptor]  # with the last reference to the connection
        return True

    def tick(self) -> None:
        """End carriers of ended sessions and lost hosts, drop late half-open connections.

        And accept connections again.
        """
        for token in [token for token, made in self._carriers.items() if made.is_silent()]:
            self._lose(token)
        for carrier in self._ending:
            carrier.end()
        self._ending.clear()
        self._calls[self._listener.fileno()] = self._accept
        late = self._now() - ATTACH_DEADLINE_S
        for made in [made for made in self._half_open if made.since <= late]:
            self._refuse(
                made,
                TryAgainError(
                    f"expected Attach with a token within {ATTACH_DEADLINE_S:g} s of connecting;"
                    " connect again"
                ),
            )

    def close(self) -> None:
        """End every carrier and close every half-open connection."""
        for made in self._half_open:
            made.close()
        self._half_open.clear()
        for carrier in (*self._carriers.values(), *self._ending):
            carrier.end()
            carrier.join()
        self._carriers.clear()
        self._calls.clear()
        os.close(self._bell)

    def _accept(self) -> None:
        for sock, where in accepted(self._listener, self._may_accept, self._calls):
            try:
                watch_link(sock)
            except OSError:  # it was reset already
                sock.close()
                continue
            self._begin(HalfOpen(sock, str(where[0]), self._now(), self._certificates))

    def _begin(self, made: HalfOpen) -> None:
        """Wait for Attach on a connection, and make room for it."""
        self._calls[made.descriptor] = functools.partial(self._attach, made)
        crowded = self._half_open.add(made, made.host)
        if crowded is not None:
            why = "too many connections of this host, or in all, are waiting for Attach"
            self._refuse(crowded, TryAgainError(f"{why}; connect again after a moment"))

    def _attach(self, made: HalfOpen) -> None:
        if made not in self._half_open:  # dropped earlier in this turn of the loop
            return
        try:
            token = made.read_attach()
            if token not in self._expected:
                raise TryAgainError(
                    "this token belongs to no session, or was used before; connect again with HELLO"
                )
            made.check(token)
            expect_full(made.sock)
        except BlockingIOError:
            return
        except ssl.SSLError as error:
            self._note(f"TLS: {error.reason or error}")
            self._drop(made)
            return
        except OSError:
            self._drop(made)
            return
        except StokerError as error:
            self._refuse(made, error)
            return
        self.revoke(token)
        try:
            carrier = SessionCarrier(
                made.sock,
                functools.partial(self._report, token),
                functools.partial(self._report, token),
            )
        except ResourceError as error:
            logs.log("error", "carrier_failed", reason=error.message)
            self._refuse(made, error)
            self._on_down(token)
            return
        self._half_open.discard(made)
        self._carriers[token] = carrier
        self._calls[made.descriptor] = functools.partial(self._read_lifeline, token)
        carrier.send(messages.Attached())
        self._on_up(token)

    def _read_lifeline(self, token: bytes) -> None:
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
            self._calls.pop(carrier.descriptor, None)
            carrier.end()
            self._on_down(token)

    def _report(self, token: bytes, sent: _Report) -> None:
        """Report to the loop what a carrier sent, or its end: None, or a fault.

        Runs in any thread.
        """
        self._reports.put((token, sent))
        os.eventfd_write(self._bell, 1)

    def _collect(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        sent: dict[bytes, _Sent] = {}
        while True:
            try:
                token, slots = self._reports.get_nowait()
            except queue.Empty:
                break
            if isinstance(slots, Exception):
                self._note_fault("carrier", slots)
            if slots is None or isinstance(slots, Exception):
                self._lose(token)
            elif token in self._carriers:
                sent.setdefault(token, []).extend(slots)
        for token, slots in sent.items():
            self._on_sent(token, slots)

    def _refuse(self, made: HalfOpen, error: StokerError) -> None:
        self._note(error.message)
        code, message, details = error.to_record()
        if made.is_readable:
            with contextlib.suppress(OSError):
                made.sock.send(frame(messages.Error(0, code, message, details)))
        self._drop(made)

    def _note(self, reason: str) -> None:
        self.refused_connections += 1
        suppressed = self._log_limit.allow("connection", self._now())
        if suppressed is not None:
            logs.log("warning", "connection_refused", reason=reason, suppressed=suppressed)

    def _drop(self, made: HalfOpen) -> None:
        self._half_open.discard(made)
        self._calls.pop(made.descriptor, None)
        made.close()
