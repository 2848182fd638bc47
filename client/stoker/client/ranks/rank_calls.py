"""Checks that all ranks make a call with the same arguments, through torch's key-value store."""

import datetime
import itertools

from stoker.client.ranks.forked_ranks import default_store
from stoker.protocol.errors import UsageError

AGREE_S = 60.0
"""Seconds that ranks wait for each other's calls."""
_calls = itertools.count()


def check_agreed(name: str, said: str, rank: int, world_size: int) -> None:
    """Check that all ranks make a call with the same arguments, through torch's key-value store.

    Does nothing on one rank, and without a process group of as many ranks, where ranks cannot
    reach each other.

    Args:
        name: the call and what it is about, the same on all ranks.
        said: the arguments in words.
        rank: this rank.
        world_size: number of ranks.

    Raises:
        UsageError: a rank has other arguments, or did not call in time. All ranks that call get it.
    """
    store = default_store(world_size)
    if store is None:
        return
    call = name.partition("/")[0]
    turn = next(_calls)
    keys = [f"stoker/{name}/{turn}/{number}" for number in range(world_size)]
    store.set(keys[rank], said)
    try:
        store.wait(keys, datetime.timedelta(seconds=AGREE_S))
    except RuntimeError:  # of torch: the time is up
        missing = [number for number, key in enumerate(keys) if not store.check([key])]
        raise UsageError(
            f"{call}: ranks {missing} of {world_size} did not call it within {AGREE_S:g} s, but "
            f"rank {rank} did ({said}); call it on every rank with the same arguments"
        ) from None
    for number, key in enumerate(keys):
        if (other := store.get(key).decode()) != said:
            raise UsageError(
                f"{call}: rank {rank} says {said}, but rank {number} says {other}; call it on "
                "every rank with the same arguments"
            )
