"""Which rank this process is: from the arguments, or from `torch.distributed` if initialized.

torch is asked only if the program has already imported it; it is never imported for this.
"""

import datetime
import itertools
import os
import sys
import warnings
from typing import Any

from stoker.protocol.errors import UsageError
from stoker.protocol.spec import as_integer

AGREE_S = 60.0
"""How long ranks wait for each other's calls."""
_calls = itertools.count()


def resolve_ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return (rank, world size).

    Raises:
        UsageError: only one of them is given, or the rank is not in [0, world size).
    """
    if (rank is None) != (world_size is None):
        raise UsageError(
            f"rank={rank!r}, world_size={world_size!r}: expected both or neither; leave both out "
            "to take them from torch.distributed"
        )
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _alone()
    number, ranks = as_integer(rank), as_integer(world_size)
    if number is None or ranks is None or not 0 <= number < ranks:
        raise UsageError(
            f"rank={rank!r}, world_size={world_size!r}: expected integers with "
            "0 <= rank < world_size"
        )
    return number, ranks


def _from_torch() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _alone() -> tuple[int, int]:
    processes = os.environ.get("WORLD_SIZE", "1")
    if processes not in ("", "1"):
        warnings.warn(
            f"WORLD_SIZE={processes} is set but torch.distributed is not initialized, so this "
            "process gets every row; call init_process_group() before making the Loader, or pass "
            "rank= and world_size=",
            stacklevel=4,
        )
    return 0, 1


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
        UsageError: a rank said something else, or did not call in time. All ranks that call get it.
    """
    distributed = sys.modules.get("torch.distributed")
    if world_size == 1 or distributed is None or not distributed.is_available():
        return
    if not distributed.is_initialized() or distributed.get_world_size() != world_size:
        return
    store: Any = distributed.distributed_c10d._get_default_store()
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
