"""The daemon's TCP address: two listening sockets, on a port and the next one.

Runs on the daemon's loop. Clients need a key that the daemon lets in, or the operator says
`insecure`: then everyone who reaches the port is a client.

ZeroMQ gets a duplicate of the first socket. `hide` takes that away while few descriptors are left;
connections then wait in the kernel's queue, because the socket itself stays open.
"""

import contextlib
import ipaddress
import socket
from typing import Any, Final

import zmq

from stoker.protocol.errors import ConfigError, ResourceError, refusal_kind
from stoker.protocol.remote.tcp import (
    KEEPALIVE_IDLE_S,
    KEEPALIVE_INTERVAL_S,
    KEEPALIVE_PROBES,
    LINK_TIMEOUT_S,
    MAX_FRAME_BYTES,
    TcpAddress,
    tcp_address,
)
from stoker.server.daemon.connections import SILENCE_S
from stoker.server.daemon.remote.access import Access
from stoker.server.settings.config_types import DaemonSection

BACKLOG: Final = 256
"""Connections that wait to be accepted; the hosts of a large job connect at the same time."""
_CURVE_BYTES: Final = 64
"""What CURVE adds to a frame, at most."""
_TRIES: Final = 50


def check_exposure(settings: DaemonSection) -> TcpAddress:
    """Read the address to listen at, and refuse one without keys, unless it may be `insecure`.

    Raises:
        UsageError: it is not a TCP address.
        ConfigError: there is neither a key nor `insecure`.
    """
    address = tcp_address(settings.tcp, any_port=True)
    if not (settings.insecure or settings.key):
        raise ConfigError(
            f"daemon.tcp = {settings.tcp!r}: expected keys for {_reach(address.host)}, got none:"
            " everyone who reaches the port could read the datasets; add --key FILE and --clients"
            " FILE (see `stoker keygen`), or --insecure (daemon.insecure = true) for connections"
            " that are neither encrypted nor authenticated if you trust all who reach it, or use"
            " ipc:// alone",
            key="daemon.tcp",
        )
    return address


def _reach(host: str) -> str:
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            return "an address that all networks of this host reach"
        if address.is_loopback:
            return "a loopback address, which all users of this host reach"
    return "an address that other hosts may reach"


class TcpListener:
    """The two listening sockets.

    Attributes:
        address: where they listen, with the port that the system chose for port 0.
        carrier: the socket for carriers.
        access: who may connect; None: everyone.
    """

    def __init__(self, address: TcpAddress, access: Access | None = None) -> None:
        """Bind and listen.

        Raises:
            ResourceError: the host is unknown, or a port is in use.
        """
        for tries_left in reversed(range(_TRIES if address.port == 0 else 1)):
            try:
                self._control = _listen(address.host, address.port)
            except OSError as error:
                raise _refused(address, address.port, error) from None
            port = self._control.getsockname()[1]
            self.address = TcpAddress(address.host, port)
            try:
                self.carrier = _listen(address.host, port + 1)
                break
            except (OSError, OverflowError) as error:
                self._control.close()
                if not tries_left:
                    raise _refused(address, port + 1, error) from None
        self.access = access
        self._router: Any = None
        self._endpoint = ""

    def bind(self, router: "zmq.Socket[bytes]") -> None:
        """Let a ROUTER accept at the address from now on."""
        self._router = router
        router.setsockopt(zmq.IPV6, int(":" in self.address.host))
        router.setsockopt(zmq.TCP_KEEPALIVE, 1)
        router.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S)
        router.setsockopt(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_S)
        router.setsockopt(zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_PROBES)
        router.setsockopt(zmq.TCP_MAXRT, LINK_TIMEOUT_S * 1000)
        # libzmq holds a whole frame of a peer that has shown no key yet.
        router.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES + _CURVE_BYTES)
        router.setsockopt(zmq.HANDSHAKE_IVL, int(SILENCE_S * 1000))
        self.show()

    def hide(self) -> None:
        """Stop accepting connections; open ones are not affected."""
        if self._router is not None and self._endpoint:
            self._router.unbind(self._endpoint)
            self._endpoint = ""

    def show(self) -> None:
        """Accept again."""
        if self._router is None or self._endpoint:
            return
        descriptor = self._control.dup().detach()
        self._router.setsockopt(zmq.USE_FD, descriptor)
        self._router.bind(str(self.address))
        self._endpoint = self._router.getsockopt_string(zmq.LAST_ENDPOINT)

    def close(self) -> None:
        """Close both sockets."""
        self._control.close()
        self.carrier.close()


def _listen(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, number, _, where = found[0]
    sock = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, number)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _refused(address: TcpAddress, port: int, error: Exception) -> ResourceError:
    reason = getattr(error, "strerror", None) or str(error)
    return refusal_kind(error)(
        f"address {address}: port {port} of {address.host}: {reason}; choose an address of this"
        " host, and a port that is free together with the next one (the batches use that)",
        address=str(address),
    )
