"""The client: `Loader` iterates over batches that a daemon wrote into shared memory.

It runs in the training process. It imports ZeroMQ and NumPy, and torch only if tensors are wanted.
The modules:

- `loader`: `Loader`, the public entry point, and its place in the stream;
- `options`, `address`, `ranks`: checks of the caller's arguments;
- `session`: one session with a daemon (ZeroMQ and the side socket), with a deadline on every wait;
- `link`, `connection`, `outage`: what lives and dies with a session, and a new one after a loss;
- `delivery`: runs, credits, batches in order;
- `slab`, `lease`: the mapped memory, and which slots are still in use;
- `batch`: the batches that the caller gets; `device`: copies to an accelerator ahead of use;
- `testing`: a check for loaders of users, that they continue where they were stopped;
- `private`, `runtime`: a private daemon for this job, if the loader is given a dataset's path.
"""

from stoker.client.batch import Batch
from stoker.client.hosts.directory import Directory
from stoker.client.loader import Loader
from stoker.client.statistics import Statistics
from stoker.protocol.buckets import Buckets
from stoker.protocol.lengths import LengthBuckets
from stoker.protocol.ragged import Ragged

__all__ = ["Batch", "Buckets", "Directory", "LengthBuckets", "Loader", "Ragged", "Statistics"]
