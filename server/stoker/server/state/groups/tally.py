"""What a session got, gave back and waited for, as far as the daemon can know it.

A client grants as many credits as batches that it wants at a time, its window, and one more for
each batch that it takes. So once all of the window is granted again, it has taken everything that
was announced, and the next batch that it asks for is not there. From then on until the next
announcement its clock runs. A client that computes meanwhile does not wait yet, so this is a bound:
it waits for at most so long. Over a network it does not see the time that bytes travel.
"""


class Tally:
    """Counts of one session since it was opened.

    Attributes:
        announced: batches that were announced to it.
        returned: batches whose slots it has released.
    """

    __slots__ = ("_returned_at", "_since", "_waited_s", "announced", "returned")

    def __init__(self) -> None:
        self.announced = self.returned = 0
        self._waited_s = 0.0
        self._since: float | None = None
        self._returned_at: float | None = None

    def note_return(self, now: float) -> None:
        """Note that it has released the slot of a batch."""
        self.returned += 1
        self._returned_at = now

    def returned_s(self, now: float) -> float:
        """Return the seconds since it last released a slot; -1 if it has released none."""
        return -1.0 if self._returned_at is None else now - self._returned_at

    def begin_wait(self, now: float) -> None:
        """Note that it has no batch left to take; does nothing if it had none before."""
        if self._since is None:
            self._since = now

    def end_wait(self, now: float) -> None:
        """Note that it got a batch, or wants none any more."""
        self._waited_s, self._since = self.waited_s(now), None

    def waited_s(self, now: float) -> float:
        """Return the seconds for which it had no batch left to take, until now."""
        return self._waited_s + (0.0 if self._since is None else now - self._since)
