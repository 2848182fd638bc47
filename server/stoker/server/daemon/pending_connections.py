"""Limits the number of connections whose other side has not authenticated yet.

Pure bookkeeping; the owner closes the connection that `add` returns. A peer without a key can open
connections and leave them. So their number is limited, in all and per host. At the limit the oldest
one of the host that has most of them ends, so that a host locks out only itself. The addresses of
one IPv6 network of 64 bits count as one host, because one host may have all of them.
"""

import contextlib
import ipaddress
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

MOST: Final = 1024
"""Limit for each port; lower with few descriptors, see `descriptor_limits.half_open_limit`."""
NETWORK_BITS: Final = 64
T = TypeVar("T")


class PendingConnections(Generic[T]):
    """The connections that wait, each with its host.

    Args of the constructor:
        limit: how many there may be; of one host half as many.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._host_limit = limit // 2
        self._hosts: dict[T, str] = {}
        self._of: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._hosts)

    def __iter__(self) -> Iterator[T]:
        """Iterate over those that wait, the oldest first."""
        return iter(list(self._hosts))

    def __contains__(self, made: object) -> bool:
        """Return whether a connection waits."""
        return made in self._hosts

    def add(self, made: T, address: str) -> T | None:
        """Add a connection.

        Args:
            made: the connection.
            address: IP address of its host.

        Returns:
            The connection that must end to make room, already removed here; None: there is room.
        """
        host = network_of(address)
        self._hosts[made] = host
        same = self._of.setdefault(host, {})
        same[made] = None
        if len(same) > self._host_limit:
            crowd = same
        elif len(self._hosts) > self._limit:
            crowd = max(self._of.values(), key=len)
        else:
            return None
        oldest = next(iter(crowd))
        self.discard(oldest)
        return oldest

    def discard(self, made: T) -> None:
        """Remove a connection, if it waits."""
        host = self._hosts.pop(made, None)
        if host is not None:
            same = self._of[host]
            del same[made]
            if not same:
                del self._of[host]

    def clear(self) -> None:
        """Remove all."""
        self._hosts.clear()
        self._of.clear()


def network_of(address: str) -> str:
    """Return what counts as one host: an IPv4 address, or a network of IPv6."""
    with contextlib.suppress(ValueError):
        ip = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(ip, ipaddress.IPv6Address):
            if ip.ipv4_mapped is not None:
                return str(ip.ipv4_mapped)
            return str(ipaddress.IPv6Network((ip, NETWORK_BITS), strict=False))
        return str(ip)
    return address
