"""Daemons on the nodes of a Ray cluster: one per node, restarted, followed by loaders.

`serve` places them and returns a `Directory`, which loaders of any node take in the place of an
address. Batches travel from the daemons to the loaders alone, never through Ray's object store.
Users import it, no package of Stoker does. It imports `client` and `protocol`; only `child`, which
becomes the daemon, imports `server`. The extra `ray` is imported when a name is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.ray.daemons import Daemons
    from stoker.ray.serving import serve

__all__ = ["Daemons", "serve"]

_MODULES = {"Daemons": "stoker.ray.daemons", "serve": "stoker.ray.serving"}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {__all__}")
    try:
        return getattr(importlib.import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        message = "stoker.ray needs Ray; run: pip install 'stoker[ray]'"
        raise ModuleNotFoundError(message, name="ray") from None
