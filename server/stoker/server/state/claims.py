"""A chunk that a worker computes."""

from stoker.server.state.groups import BatchState


class Claim:
    """A chunk assigned to a worker: rows [lo, hi) of a batch.

    Attributes:
        number: its number.
        batch: whose rows they are.
        lo: the first one.
        hi: the end.
        behind: number of claims right behind it, of other members of a fork, that read the same
            samples. Only the last of them counts for the load of the worker.
    """

    __slots__ = ("batch", "behind", "hi", "lo", "number")

    def __init__(self, number: int, batch: BatchState, lo: int, hi: int, behind: int = 0) -> None:
        self.number = number
        self.batch = batch
        self.lo = lo
        self.behind = behind
        self.hi = hi
