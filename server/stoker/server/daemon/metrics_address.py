"""The address of the metrics endpoint: how it is written, and who reaches it."""

import ipaddress
import socket

from stoker.protocol.errors import ConfigError


def host_and_port(address: str) -> tuple[str, int]:
    """Split `host:port`, `:port` or `port`; the host defaults to 127.0.0.1.

    Raises:
        ConfigError: the port is invalid.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"metrics.address: expected host:port or a port, got {address!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def page_address(host: str, port: int) -> str:
    """Return the address of the page of an endpoint that listens at a host and port.

    Where it listens on all networks, that is the name of this host.
    """
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def is_loopback(host: str) -> bool:
    """Return whether a name or address is one that only this host reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
