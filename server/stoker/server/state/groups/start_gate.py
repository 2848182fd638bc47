"""The start of a group: its members begin together.

Trainings of a sweep are started one after the other, seconds apart, which is hundreds of batches.
So a group may have a size: it computes nothing until as many members have sent SEEK. It begins
without the others after a while, so that one that never comes costs the rest only that time. A
member that comes after the begin waits for no other member. A daemon that comes later waits for no
member, because the others may have ended.
"""


class StartGate:
    """The start of a group.

    Attributes:
        size: how many members it waits for; 0 and 1: for none.
        since: time of the first SEEK; None before.
        waits: whether it waits for members; not if they have begun at another daemon.
        is_open: whether batches may be begun.
    """

    __slots__ = ("is_open", "since", "size", "waits")

    def __init__(self, size: int) -> None:
        self.size = size
        self.since: float | None = None
        self.waits = size > 1
        self.is_open = not self.waits

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
        late = now - self.since >= wait_s
        self.is_open = late or members >= self.size or not self.waits
        return self.is_open
