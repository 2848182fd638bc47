"""The client: `Loader` iterates over batches that a daemon wrote into shared memory.

It runs in the training process. Training scripts and `stoker.ray` import it. It imports the
protocol, ZeroMQ and NumPy, torch only if tensors are wanted, and nothing of the server side.
docs/architecture.md has a map of its modules.
"""

from typing import TYPE_CHECKING

from stoker.client.batches.batch import Batch
from stoker.client.hosts.directory import Directory
from stoker.client.loader import Loader
from stoker.client.loader_statistics import Statistics
from stoker.client.loop_headroom import Headroom, headroom
from stoker.client.options.argument_records import Connection, Group, Shuffle
from stoker.protocol.length_buckets import LengthBuckets
from stoker.protocol.ragged import Ragged
from stoker.protocol.size_buckets import Buckets

__all__ = [
    "Batch",
    "Buckets",
    "Connection",
    "Directory",
    "Group",
    "Headroom",
    "LengthBuckets",
    "Loader",
    "Ragged",
    "Shuffle",
    "Statistics",
    "headroom",
]

__version__: str

if TYPE_CHECKING:
    from stoker.client.torch_dataloader import as_dataloader as as_dataloader
else:  # a type checker would take every name for one of the module's

    def __getattr__(name: str) -> object:
        """Load what takes longer than the import when it is asked for: the version, and torch."""
        if name == "as_dataloader":
            from stoker.client.torch_dataloader import as_dataloader  # noqa: PLC0415

            return as_dataloader
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version  # noqa: PLC0415

        return version("stoker")
