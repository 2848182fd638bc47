"""All lifelines: those of the side socket, and the carriers of clients on other hosts.

Runs on the daemon's loop. A token is expected by both, and is void for the other once it was used.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stoker.protocol import messages
from stoker.protocol.errors import StokerError
from stoker.server.daemon.remote.tcp_listener import TcpListener
from stoker.server.daemon.sidesocket import SideSocket

if TYPE_CHECKING:
    from stoker.server.daemon.remote.carriers import Carriers


class Lifelines:
    """Routes what concerns a lifeline to its owner.

    Args of the constructor:
        side: those of this host.
        carriers: those of other hosts; None: there is no TCP address.
        place: the TCP address.
    """

    def __init__(
        self, side: SideSocket, carriers: "Carriers | None" = None, place: TcpListener | None = None
    ) -> None:
        self.side = side
        self._carriers = carriers
        self.tcp = place

    @property
    def refused_connections(self) -> int:
        """Number of connections that were refused."""
        more = self._carriers.refused_connections if self._carriers is not None else 0
        return self.side.refused_connections + more

    def descriptors(self) -> dict[int, Callable[[], None]]:
        """Return the open descriptors and what to call when one is readable."""
        if self._carriers is None:
            return self.side.descriptors()
        return {**self.side.descriptors(), **self._carriers.descriptors()}

    def is_remote(self, token: bytes) -> bool:
        """Return whether a session's batches go over TCP."""
        return self._carriers is not None and token in self._carriers

    def attached(self, token: bytes) -> None:
        """Note that a token was used."""
        self.side.revoke(token)
        if self._carriers is not None:
            self._carriers.revoke(token)

    @property
    def certificate(self) -> bytes:
        """The daemon's certificate; empty if carriers are not TLS."""
        return b"" if self._carriers is None else self._carriers.certificate

    def check_certificate(self, certificate: bytes) -> None:
        """Check the certificate that a client sent with HELLO, if carriers are TLS.

        Raises:
            ProtocolError: it is not a certificate.
        """
        if self._carriers is not None:
            self._carriers.check_certificate(certificate)

    def expect(self, token: bytes, certificate: bytes = b"") -> None:
        """Accept that token once, on a carrier only with that certificate if carriers are TLS."""
        self.side.expect(token)
        if self._carriers is not None:
            self._carriers.expect(token, certificate)

    def send_memory(
        self, token: bytes, record: messages.Slab | messages.Replayed, descriptor: int
    ) -> bool:
        """Pass memory to a session; False if its lifeline is down or the client does not read."""
        if self._carriers is not None and token in self._carriers:
            return self._carriers.send_memory(token, record, descriptor)
        return self.side.send_memory(token, record, descriptor)

    def carry(
        self, token: bytes, records: Sequence[messages.DaemonRecord]
    ) -> Sequence[messages.DaemonRecord]:
        """Send what goes with batches over TCP, if the session's do; return the other records."""
        return records if self._carriers is None else self._carriers.carry(token, records)

    def refuse(self, token: bytes, error: StokerError) -> bool:
        """Send an error as the last packet of a lifeline; False for a session without one."""
        if self._carriers is not None and self._carriers.refuse(token, error):
            return True
        return self.side.refuse(token, error)

    def hang_up(self, token: bytes) -> None:
        """Void the token of a lost session, and end its lifeline."""
        self.side.hang_up(token)
        if self._carriers is not None:
            self._carriers.hang_up(token)

    def end(self, token: bytes) -> None:
        """Void the token, and close its lifeline at the next tick."""
        self.side.end(token)
        if self._carriers is not None:
            self._carriers.end(token)

    def abandon(self, descriptor: int) -> bool:
        """Close the connection with that descriptor; return whether it is a lifeline's."""
        found = self._carriers is not None and self._carriers.abandon(descriptor)
        return found or self.side.abandon(descriptor)

    def tick(self) -> None:
        """Do what is due."""
        self.side.tick()
        if self._carriers is not None:
            self._carriers.tick()

    def close(self) -> None:
        """Close all lifelines."""
        if self._carriers is not None:
            self._carriers.close()
        self.side.close()
