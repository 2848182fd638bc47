"""Flags of the commands that ask a running daemon, and the address that they mean."""

from pathlib import Path
from typing import Annotated

import typer

from stoker.protocol.errors import UsageError
from stoker.server.settings import config_loading as configuration

LONGEST_S = 86_400.0
"""The most seconds that a command waits for a daemon: sockets take no endless limits."""

Where = Annotated[
    str | None,
    typer.Argument(
        metavar="ADDRESS|CONFIG",
        help="Address of the daemon, or its TOML file; by default as `stoker serve` finds it.",
    ),
]
Key = Annotated[str | None, typer.Option(help="File of a client's secret key, for tcp://.")]
DaemonKey = Annotated[
    str | None, typer.Option(help="The daemon's public key, or its file, for tcp://.")
]
Timeout = Annotated[
    float,
    typer.Option(min=0.1, max=LONGEST_S, help="Seconds to wait for the daemon's answer."),
]


def address_of(where: str | None) -> str:
    """Return the address that an argument `ADDRESS|CONFIG` means.

    Raises:
        ConfigError: the configuration cannot be read.
        UsageError: it is the file of a socket.
    """
    if where and "://" in where:
        return where
    if where and Path(where).is_socket():
        raise UsageError(
            f"{where} is a socket: write its address, ipc://{Path(where).absolute()}, or the "
            "daemon's TOML file"
        )
    return configuration.load(where).config.daemon.address


def local_address_of(where: str | None, what: str) -> str:
    """Return the address that an argument means, for a command that works on the daemon's host.

    Args:
        where: the argument `ADDRESS|CONFIG`.
        what: what can only be done there, such as "stacks are read".

    Raises:
        ConfigError: the configuration cannot be read.
        UsageError: it is an address of another host, or the file of a socket.
    """
    address = address_of(where)
    if address.startswith("tcp://"):
        raise UsageError(
            f"address {address!r}: {what} on the daemon's host: run the command there, with the"
            " ipc:// address"
        )
    return address
