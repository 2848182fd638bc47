"""The counters of a loader, returned by `Loader.statistics()`."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counters of one loader since its construction, and the slots it holds now.

    Attributes:
        delivered: batches handed out.
        copied: batches copied out completely because the caller held too many slots.
        waits: batches that had not arrived when asked for.
        wait_s: seconds spent waiting for them.
        leased: slots that tensors of the caller hold now, without those of a daemon that was lost.
        slots: slots of the slab; 0 while there is no daemon.
        reconnects: times that the stream was opened again after the daemon was lost.
        by_host: with several daemons, address -> batches that it made.
    """

    delivered: int
    copied: int
    waits: int
    wait_s: float
    leased: int
    slots: int
    reconnects: int = 0
    by_host: dict[str, int] = dataclasses.field(default_factory=dict)
