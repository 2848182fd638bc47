"""What the daemon's loop publishes of itself, for whoever shows it."""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.server.daemon.loop import TurnTimes


@dataclass(frozen=True)
class Snapshot:
    """What the daemon looked like at one moment.

    Attributes:
        now: that moment, monotonic seconds.
        ready: whether new clients are welcome.
        counters: by name, without the prefix.
        turns: how long the loop's turns took.
    """

    now: float
    ready: bool
    counters: Mapping[str, int | float]
    turns: TurnTimes
