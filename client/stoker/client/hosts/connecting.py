"""Opens a loader's stream: at one daemon, or at several."""

import dataclasses
import os
from collections.abc import Sequence

import msgspec

from stoker.client.connection import DaemonConnection
from stoker.client.device import Target
from stoker.client.hosts.directory import Directory, check_addresses
from stoker.client.hosts.fleet import Fleet
from stoker.client.options.argument_records import Connection
from stoker.client.remote.loader_keys import PathOrText
from stoker.protocol.errors import UsageError
from stoker.protocol.messages import Open
from stoker.protocol.remote.tcp import SCHEME

Where = str | os.PathLike[str] | Sequence[str] | Directory


def connect(
    where: Where,
    request: Open,
    target: Target,
    connection: Connection,
    workers: int | None,
    name: str = "",
) -> DaemonConnection | Fleet:
    """Open the stream at an address, a path, or the addresses of a list or directory.

    Raises:
        StokerError: as in `Loader`.
    """
    if isinstance(where, str | os.PathLike):
        return DaemonConnection(where, request, target, connection, workers=workers, name=name)
    key, daemon_key = connection.key, connection.daemon_key
    if isinstance(where, Directory):
        key, daemon_key = key or where.key, daemon_key or where.daemon_key
    else:
        where = check_addresses(where, "the address of a daemon, the path of a dataset, ")
        _check_keys(where, key=key, daemon_key=daemon_key)
    local = dataclasses.replace(connection, reconnect_s=None, key=None, daemon_key=None)
    remote = dataclasses.replace(local, key=key, daemon_key=daemon_key)

    def open_at(address: str, crashed: dict[int, tuple[int, int]], later: bool) -> DaemonConnection:
        chosen = remote if address.startswith(SCHEME) else local
        asked = _of_several(request, where, later=later)
        return DaemonConnection(
            address, asked, target, chosen, workers=workers, name=name, crashed=crashed
        )

    group = request.delivery.group
    return Fleet(
        where, open_at, rank=request.rank, reconnect_s=connection.reconnect_s,
        group=None if group is None else group.name,
    )  # fmt: skip


def _of_several(record: Open, where: Sequence[str] | Directory, *, later: bool) -> Open:
    """Add to a record what a group must know: the daemons, and whether it has begun elsewhere."""
    group, delivery = record.delivery.group, record.delivery
    if group is None:
        return record
    hosts = None if isinstance(where, Directory) else tuple(sorted(where)) * (len(where) > 1)
    group = msgspec.structs.replace(group, hosts=hosts, begun=later)
    return msgspec.structs.replace(record, delivery=msgspec.structs.replace(delivery, group=group))


def _check_keys(addresses: Sequence[str], **keys: PathOrText | None) -> None:
    """Refuse keys that no address of a list uses; those of a directory may change."""
    given = next((name for name, value in keys.items() if value is not None), None)
    if given is not None and not any(address.startswith(SCHEME) for address in addresses):
        raise UsageError(
            f"{given}=: keys work only with daemons at tcp://HOST:PORT, and all of the list are on"
            f" this host: {', '.join(addresses)}; leave {given}= out"
        )
