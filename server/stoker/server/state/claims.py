"""A chunk that a worker computes."""

from stoker.server.state.groups import BatchState


class Claim:
    """A chunk assigned to a worker: rows [lo, hi) of a batch."""

    __slots__ = ("batch", "hi", "lo", "number")

    def __init__(self, number: int, batch: BatchState, lo: int, hi: int) -> None:
        self.number = number
        self.batch = batch
        self.lo = lo
        self.hi = hi
