"""`stoker status`: what a running daemon does: its sessions, workers, slots and names.

A table on a terminal, lines of `key=value` into a pipe, or JSON. It is a client of the daemon, so
it needs what a Loader needs: the same host and user, or the keys of a client.
"""

import json
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from stoker.server.commands.daemon_flags import DaemonKey, Key, Timeout, Where, address_of
from stoker.server.commands.status_tables import print_lines, print_tables


def status(
    where: Where = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    key: Key = None,
    daemon_key: DaemonKey = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show what a running daemon does: sessions, workers, slots, datasets and pipelines.

    Examples: `stoker status`, `stoker status stoker.toml --json`,
    `stoker status tcp://node3:7470 --key client.key --daemon-key daemon.key.pub`.
    """
    from stoker.client.daemon_status import ask_status  # noqa: PLC0415 - needs zmq

    address = address_of(where)
    told = ask_status(address, timeout, key, daemon_key)
    if as_json:
        facts = {"address": address, **_named(told)}
        typer.echo(json.dumps(facts))
    elif (console := Console(soft_wrap=False)).is_terminal:
        print_tables(console, address, told)
    else:
        print_lines(address, told)


def _named(value: Any) -> Any:
    """Return records as plain data, with the names of their fields."""
    if isinstance(value, msgspec.Struct):
        return {name: _named(getattr(value, name)) for name in value.__struct_fields__}
    return [_named(one) for one in value] if isinstance(value, list) else value
