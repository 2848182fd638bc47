"""The client: `Loader` iterates over batches that a daemon wrote into shared memory.

Runs in the training process. It imports ZeroMQ and NumPy; torch only when tensors are asked for.
The modules:

- `loader`: `Loader` and the place in the stream; the public face;
- `options`, `address`, `ranks`: the caller's arguments, checked;
- `session`: the connection to a daemon (ZeroMQ and the side socket), with a deadline on every wait;
- `delivery`: runs, credits, batches in order;
- `slab`, `lease`: the mapped memory, and who still uses which slot;
- `batch`: what the caller gets; `device`: copies to an accelerator ahead of use;
- `private`, `runtime`: a daemon of the job's own when given the path of a dataset.
"""

from stoker.client.batch import Batch
from stoker.client.loader import Loader
from stoker.client.statistics import Statistics
from stoker.protocol.buckets import Buckets
from stoker.protocol.lengths import LengthBuckets
from stoker.protocol.ragged import Ragged

__all__ = ["Batch", "Buckets", "LengthBuckets", "Loader", "Ragged", "Statistics"]
