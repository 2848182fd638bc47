"""Shares the batches of a stream among several daemons, without an effect on their bytes.

Each daemon has a key of 64 bits. The steps of an epoch are cut into rounds of as many steps as
there are daemons. In each round, a daemon makes one batch. Their order is that of their weights,
the lowest first, as in rendezvous hashing:

    weight = XXH64 of (key, epoch, round), each as 8 bytes, little-endian

So no process has to keep a table, each daemon has the same share, and no daemon has two batches
more than another one at any time. The client chooses the keys; see `host_key`.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final

import xxhash

from stoker.protocol.errors import UsageError
from stoker.protocol.request.stream_request import MAX_HOSTS

MAX_GAP: Final = 2**12
_WEIGHED: Final = struct.Struct("<QQQ")
Place = tuple[int, int]
"""(epoch, step)."""


def host_key(address: str, shared: str, rank: int) -> int:
    """Return the key of a daemon in one stream; ranks differ, so that they begin at different ones.

    Args:
        address: of the daemon, as the client names it.
        shared: the name of the client's group, whose members need the same owners; without a group
            the id of the stream.
        rank: of the client.
    """
    return int(xxhash.xxh64_intdigest(f"{address}\n{shared}\n{rank}".encode()))


class HostShare:
    """The batches that one of several daemons makes.

    Attributes:
        hosts: the keys of all daemons.
        host: which of them this one is.
    """

    def __init__(self, hosts: Sequence[int], host: int) -> None:
        """Check and take the daemons.

        Raises:
            UsageError: there are too many, two are alike, or `host` is none of them.
        """
        if not 1 <= len(hosts) <= MAX_HOSTS or len(set(hosts)) != len(hosts):
            raise UsageError(
                f"hosts: expected 1 to {MAX_HOSTS} different keys of daemons, got {len(hosts)}, of"
                f" which {len(set(hosts))} differ"
            )
        if not 0 <= host < len(hosts):
            raise UsageError(f"host: expected 0 to {len(hosts) - 1}, got {host}")
        self.hosts = tuple(hosts)
        self.host = host
        self._round: tuple[Place, list[int]] = (-1, -1), []

    def owner(self, epoch: int, step: int) -> int:
        """Return which daemon makes the batch of a step."""
        number, position = divmod(step, len(self.hosts))
        if self._round[0] != (epoch, number):
            weights = [xxhash.xxh64_intdigest(_WEIGHED.pack(h, epoch, number)) for h in self.hosts]
            order = sorted(range(len(weights)), key=lambda host: (weights[host], host))
            self._round = (epoch, number), order
        return self._round[1][position]

    def first(self, epoch: int, step: int, steps: Callable[[int], int]) -> Place:
        """Return the first place from a place on whose batch this daemon makes.

        Args:
            epoch: of the place.
            step: of the place; the number of steps of an epoch means step 0 of the next one.
            steps: epoch -> number of its steps.

        Raises:
            UsageError: the keys are such that it makes none for very long.
        """
        here = epoch
        end = steps(here)
        for _ in range(MAX_GAP):
            while step >= end:
                here, step = here + 1, 0
                end = steps(here)
            if self.owner(here, step) == self.host:
                return here, step
            step += 1
        raise UsageError(
            f"hosts: daemon {self.host} of {len(self.hosts)} makes none of {MAX_GAP} batches from"
            f" epoch {epoch} on; choose other keys"
        )
