"""Opens a loader's stream: at one daemon, or at several."""

import os
from collections.abc import Sequence

import msgspec

from stoker.client.checks import seconds
from stoker.client.connection import Connection
from stoker.client.device import Target
from stoker.client.hosts.directory import Directory, check_addresses
from stoker.client.hosts.fleet import Fleet
from stoker.client.options import LoaderOptions
from stoker.client.remote.loader_keys import PathOrText
from stoker.protocol.errors import UsageError
from stoker.protocol.messages import Open
from stoker.protocol.remote.tcp import SCHEME

Where = str | os.PathLike[str] | Sequence[str] | Directory


def connect(  # noqa: PLR0913  (the loader's arguments)
    where: Where,
    options: LoaderOptions,
    target: Target,
    *,
    workers: int | None,
    connect_timeout_s: float,
    timeout_s: float,
    reconnect_s: float | None,
    key: PathOrText | None,
    daemon_key: PathOrText | None,
) -> Connection | Fleet:
    """Open the stream at an address, a path, or the addresses of a list or directory.

    Raises:
        StokerError: as in `Loader`.
    """
    if isinstance(where, str | os.PathLike):
        return Connection(
            where, options, target, workers=workers, connect_timeout_s=connect_timeout_s,
            timeout_s=timeout_s, reconnect_s=reconnect_s, key=key, daemon_key=daemon_key,
        )  # fmt: skip
    if isinstance(where, Directory):
        key, daemon_key = key or where.key, daemon_key or where.daemon_key
    else:
        where = check_addresses(where)
        _check_keys(where, key=key, daemon_key=daemon_key)
    record = options.record(target.leases)

    def open_at(address: str, crashed: dict[int, tuple[int, int]], later: bool) -> Connection:
        keys = (key, daemon_key) if address.startswith(SCHEME) else (None, None)
        return Connection(
            address, options, target, workers=workers, connect_timeout_s=connect_timeout_s,
            timeout_s=timeout_s, reconnect_s=None, key=keys[0], daemon_key=keys[1],
            record=_of_several(record, where, later=later), crashed=crashed,
        )  # fmt: skip

    wait_s = seconds("reconnect_s", reconnect_s)
    return Fleet(where, open_at, rank=record.rank, reconnect_s=wait_s, group=options.group)


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
