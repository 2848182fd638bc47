"""Chooses the rows that are timed, and keeps what they took until it is reported.

Reading the clocks costs some microseconds a row, so not every row is timed. After a timed row so
many are left out that timing costs a few thousandths: rows of 20 ms are all timed, of faster ones
fewer. Which row comes next in a worker does not depend on what rows cost, so the timed
ones are a fair sample. The first row of all is left out, because it meets cold caches. No byte
depends on which rows are timed. Runs in workers, on one thread.
"""

from collections.abc import Callable
from typing import Final

from stoker.pipeline.compiled.executor import Executor
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.engine.stage_clock import StageClock, StageTime

UNTIMED_NS: Final = 20_000_000
"""Nanoseconds of rows that are left out for each timed row."""
MOST_UNTIMED: Final = 2**16


class RowTimes:
    """Times some rows of one dataset of a stream.

    Attributes:
        clock: of the row that is timed now.
        rows: rows that were timed since `take`.
    """

    def __init__(self) -> None:
        self.clock = StageClock()
        self.rows = 0
        self._left = 1
        self._ops: tuple[str, ...] = ()
        self._taken: list[StageTime] = []

    def row(self, engine: Engine, compute: Callable[[], None]) -> None:
        """Call what computes a row with an engine, and time it if it is its turn."""
        if self._left:
            self._left -= 1
            compute()
            return
        self._before(engine)
        begun_ns = self.clock.begin()
        try:
            compute()
        finally:
            self._after(engine, self.clock.end() - begun_ns)

    def chunk(self, engine: Executor, count: int, compute: Callable[[], None]) -> None:
        """Call what computes `count` rows in one call of an engine; one of them may be timed."""
        place = self._left
        if place >= count:
            self._left -= count
            compute()
            return
        self._before(engine)
        before_ns = self.clock.passed_ns()
        self.clock.arm(place)
        try:
            compute()
        finally:
            self._after(engine, self.clock.passed_ns() - before_ns)
            self._left = max(self._left - (count - 1 - place), 0)

    def take(self) -> tuple[int, list[StageTime]]:
        """Return how many rows were timed, and their stages; and begin anew.

        A stage may come twice.
        """
        rows, self.rows = self.rows, 0
        found, self._taken = [*self._taken, *self.clock.take(self._ops)], []
        return rows, found

    def _before(self, engine: Engine) -> None:
        if isinstance(engine, Executor):
            if engine.ops != self._ops:  # that of another bucket
                self._taken += self.clock.take(self._ops)
                self._ops = engine.ops
            engine.clock = self.clock

    def _after(self, engine: Engine, row_ns: int) -> None:
        if isinstance(engine, Executor):
            engine.clock = None
        self.rows += 1
        self._left = min(UNTIMED_NS // max(row_ns, 1), MOST_UNTIMED)
