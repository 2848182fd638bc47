"""The client: `Loader` iterates over batches that a daemon wrote into shared memory.

It runs in the training process. Training scripts and `stoker.ray` import it. It imports the
protocol, ZeroMQ and NumPy, torch only if tensors are wanted, and nothing of the server side.
docs/architecture.md has a map of its modules.
"""

from stoker.client.batches.batch import Batch
from stoker.client.hosts.directory import Directory
from stoker.client.loader import Loader
from stoker.client.statistics import Statistics
from stoker.protocol.buckets import Buckets
from stoker.protocol.lengths import LengthBuckets
from stoker.protocol.ragged import Ragged

__all__ = ["Batch", "Buckets", "Directory", "LengthBuckets", "Loader", "Ragged", "Statistics"]
