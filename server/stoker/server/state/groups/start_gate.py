"""The start of a group: its members begin together.

Trainings of a sweep are started one after the other, seconds apart, which is hundreds of batches.
So a group may have a size: it computes nothing until as many members have sent SEEK. It begins
without the others after a while, so that one that never comes costs the rest only that time. A
member that comes after the begin waits for no other member.
"""


class StartGate:
    """The start of a group.

    Attributes:
        size: how many members it waits for; 0 and 1: for none.
        since: time of the first SEEK; None before.
        is_open: whether batches may be begun.
    """

    __slots__ = ("is_open", "since", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.since: float | None = None
        self.is_open = size <= 1

    def check(self, now: float, members: int, wait_s: float) -> bool:
        """Open it if it is time; return whether it was opened.

        Args:
            now: the time.
            members: how many have sent SEEK.
            wait_s: for how long the first one waits.
        """
        if self.is_open or not members:
            return False
        self.since = now if self.since is None else self.since
        self.is_open = members >= self.size or now - self.since >= wait_s
        return self.is_open
