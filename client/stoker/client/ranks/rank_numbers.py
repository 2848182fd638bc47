"""The rank of this process: from the arguments, or from `torch.distributed` if initialized.

torch is asked only if the program has already imported it; it is never imported for this.
"""

import os
import sys
import warnings

from stoker.protocol.errors import UsageError
from stoker.protocol.messages import MAX_RANKS
from stoker.protocol.spec import as_integer


def resolve_ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return (rank, world size).

    Raises:
        UsageError: only one of them is given, the rank is not in [0, world size), or there are more
            than `MAX_RANKS`.
    """
    if (rank is None) != (world_size is None):
        raise UsageError(
            f"rank={rank!r}, world_size={world_size!r}: expected both or neither; leave both out "
            "to take them from torch.distributed"
        )
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _alone()
    number, ranks = as_integer(rank), as_integer(world_size)
    if number is None or ranks is None or not 0 <= number < ranks <= MAX_RANKS:
        raise UsageError(
            f"rank={rank!r}, world_size={world_size!r}: expected integers with "
            f"0 <= rank < world_size <= {MAX_RANKS}"
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
