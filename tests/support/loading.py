"""Loaders of fake and real daemons, and what their batches have in common."""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from stoker.client import Batch, Connection, Group, Loader, Shuffle
from stoker.protocol.digest import batch_digest

SHUFFLE = {"shuffle_seed": "seed", "shuffle_block_size": "block_size"}
GROUP = {"group": "name", "group_size": "size", "mode": "mode"}
CONNECTION = ("connect_timeout_s", "timeout_s", "reconnect_s", "key", "daemon_key")


def grouped(**options: Any) -> dict[str, Any]:
    """Arguments of a Loader from options without records: for tables with one option a line."""
    shuffle = {new: options.pop(old) for old, new in SHUFFLE.items() if old in options}
    shuffle = {name: value for name, value in shuffle.items() if value is not None}
    if shuffle:
        options["shuffle"] = Shuffle(samples=options.get("shuffle", True), **shuffle)
    if options.keys() & {"group_size", "mode"}:
        group = {new: options.pop(old) for old, new in GROUP.items() if old in options}
        group["mode"] = group.get("mode") or "mirror"
        options["group"] = None if group.get("name") is None else Group(**group)
    connection = {name: options.pop(name) for name in CONNECTION if name in options}
    if connection:
        known = options.get("connection") or Connection()
        options["connection"] = dataclasses.replace(known, **connection)
    return options


def load(daemon: object, **more: object) -> Loader:
    """A loader of the fake daemon's stream."""
    return Loader(daemon.address, pipeline="train", batch_size=16, **grouped(**more))


def digest(batch: Batch) -> str:
    """The digest of a batch at its place."""
    return batch_digest(batch, batch.epoch, batch.step)


def places(batches: Iterable[Batch]) -> list[tuple[int, int]]:
    """The (epoch, step) of each batch."""
    return [(batch.epoch, batch.step) for batch in batches]


def in_step(
    loops: Sequence[Loader], count: int, between: Callable[[int], None] = lambda step: None
) -> list[list[str]]:
    """Read epochs of members of a group in turns; return the digests that each member got.

    Args:
        loops: the members.
        count: number of epochs.
        between: called before each turn of all members, with its number.
    """
    found: list[list[str]] = [[] for _ in loops]
    turn = 0
    for _ in range(count):
        turns = [digests(one, into) for one, into in zip(loops, found, strict=True)]
        for _ in zip(*turns, strict=True):
            between(turn)
            turn += 1
    return found


def digests(loader: Loader, into: list[str]) -> Iterator[None]:
    """Append the digest of each batch. The first is waited for in a thread, as others come too."""
    loop, first = iter(loader), []
    begun = threading.Thread(target=lambda: first.append(next(loop)))
    begun.start()
    yield
    begun.join(60)
    for batch in (*first, *loop):
        into.append(digest(batch))
        yield
