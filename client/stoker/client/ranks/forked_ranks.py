"""A forked process has the launcher's variables of its parent, and its process group.

So a worker of a `DataLoader` that a rank forked has the variables of that rank. It must not be
compared with other ranks, and must not use the connection of the rank's process group.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

_environment: dict[str, str] = {}
_groups: list[Any] = []
"""The default process group at the fork, if there was one."""


def environment_at_fork() -> Mapping[str, str]:
    """Return the environment with which this process was forked; empty if it was executed."""
    return _environment


def default_store(world_size: int) -> Any:
    """Return the store of the default process group; None if its number of ranks differs.

    It is None too in a process that was forked after the group was made.
    """
    distributed = sys.modules.get("torch.distributed")
    if world_size == 1 or distributed is None or not distributed.is_available():
        return None
    if not distributed.is_initialized() or distributed.get_world_size() != world_size:
        return None
    internals = getattr(distributed, "distributed_c10d", None)
    if internals is None or internals._get_default_group() in _groups:
        return None
    return internals._get_default_store()


def _remember() -> None:
    _environment.clear()
    _environment.update(os.environ)
    _groups.clear()
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        _groups.append(distributed.distributed_c10d._get_default_group())


os.register_at_fork(after_in_child=_remember)
