"""A chunk that a worker computes."""

from stoker.server.state.groups.group import BatchState


class Claim:
    """A chunk assigned to a worker: rows [lo, hi) of a batch.

    Attributes:
        number: its number.
        batch: whose rows they are.
        lo: the first one.
        hi: the end.
        ahead: number of claims right ahead of it, of other members of a fork, that read the same
            samples.
        behind: number of such claims right behind it. Only the last one counts for the load of the
            worker.
    """

    __slots__ = ("ahead", "batch", "behind", "hi", "lo", "number")

    def __init__(
        self, number: int, batch: BatchState, lo: int, hi: int, ahead: int = 0, behind: int = 0
    ) -> None:
        self.number = number
        self.batch = batch
        self.lo = lo
        self.hi = hi
        self.ahead = ahead
        self.behind = behind
