"""What a loader counts about itself; read by `Loader.statistics()`."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counters of one loader since it was made, and what it holds now.

    Attributes:
        delivered: batches handed out.
        copied: batches copied out whole because the caller held too many slots.
        waits: batches that were not there yet when asked for.
        wait_s: seconds spent waiting for them.
        leased: slots that tensors of the caller hold now.
        slots: slots of the slab.
    """

    delivered: int
    copied: int
    waits: int
    wait_s: float
    leased: int
    slots: int
