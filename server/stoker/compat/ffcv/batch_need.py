"""Find operations that need the rows of a batch together, because they mix or count the rows.

FFCV calls every operation on a whole batch, and nothing in its contract says which of them read
more than the row that they write. Here an operation that draws single numbers, or in a loop, gets
one row at a time, and there `images[i - 1]` would be the row itself: mixup would change nothing,
without an error. So its plain form runs on a whole batch and on each of its rows, with draws that
are the same for all rows and all calls. The results differ if, and only if, rows other than its own
matter, or their number. An operation that runs on the whole batch, and fails on one row, needs the
batch too.

Mixing may depend on a draw (`if np.random.rand() < 0.1`), so an operation that may read other rows
by its source (`stoker.compat.ffcv.row_reads`) is tried with draws at both ends and between them.

Equal draws leave the rows in place where an order is made of draws (`np.random.rand(n).argsort()`).
So such an operation runs with draws that differ, too: twice on a whole batch, in which other rows
have other values. A row that changes then follows the others. If the number of draws follows the
values, later rows get other draws, and the comparison does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType
from typing import Any, Final

import numpy as np

from stoker.compat.ffcv.random_calls import MANY, ONE
from stoker.compat.ffcv.rewriting import rebound
from stoker.compat.ffcv.row_draws import WORDS
from stoker.compat.ffcv.working_memory import WorkingMemory
from stoker.ops.custom.foreign import generator_states
from stoker.protocol.errors import BuildError

ROWS: Final = 4
"""Rows of the whole batch: even, and more than a neighbor's neighbor needs."""
KEPT: Final = ((0, 1), (2, 3), (0, 2), (1, 3))
"""Rows that keep their values while others change; each row is kept while each other changes."""
POINTS: Final = (0, 14485, 2158, 17680, 10189, 9794, 14439, 16565, 14278)
"""Ids of keys whose first draw, as a number in [0, 1), is 0.17, 0, 1, 0.5, 0.02, 0.1, ..., 0.9."""
MOST_DRAWS: Final = 2**13
"""Draws of one trial. With equal draws, a loop that draws until a value is large never ends."""
ROUNDING: Final = 1e-3


class MixesRows(BuildError):
    """A trial found that an operation needs all rows of a batch; it is prepared again as such."""


def needs_batch(
    function: FunctionType,
    batch: np.ndarray,
    ids: np.ndarray,
    memory: WorkingMemory,
    *,
    deep: bool = False,
    seeded: Callable[[np.ndarray], AbstractContextManager[Any]] | None = None,
) -> bool:
    """Return whether an operation on a batch differs from the operation on its rows, one by one.

    Args:
        function: a rewritten function.
        batch: more than `ROWS` rows that differ; not changed.
        ids: their sample ids.
        memory: what it works in.
        deep: whether several draws are tried, because the source may read other rows.
        seeded: seeds the generators of the process from the words of a key, for an operation that
            draws from them; only draws that differ are tried.
    """
    given = [batch]
    if batch.dtype.kind in "iub":  # Python refuses arithmetic that machine code wraps
        given.append(batch.astype(np.int64))
    fill, memory.fill = memory.fill, 0  # so earlier rows leave nothing in memory
    try:
        for point in POINTS if deep else POINTS[:1]:
            probes = [_Probe(function, point, values, ids, memory) for values in given]
            found = () if seeded else (probe.depends() for probe in probes)
            if next((one for one in found if one is not None), False):
                return True
            found = (probe.follows_in_order(seeded) for probe in probes) if deep else ()
            if next((one for one in found if one is not None), False):
                return True
    finally:
        memory.fill = fill
    return False


class _TooManyDrawsError(Exception):
    """A trial drew more than `MOST_DRAWS` times; it tells nothing."""


class _Probe:
    """Runs a function on some of the rows, with one draw."""

    def __init__(
        self,
        function: FunctionType,
        point: int,
        batch: np.ndarray,
        ids: np.ndarray,
        memory: WorkingMemory,
    ) -> None:
        self._function = rebound(
            function, lambda draw: unchanging(draw, point), lambda helper: helper
        )
        self._drawing = rebound(function, of_first, lambda helper: helper)
        self._point = point
        self._batch = batch
        self._ids = ids
        self._memory = memory

    def depends(self) -> bool | None:
        """Return whether results depend on the batch as a whole; None: it runs on no rows."""
        rows = list(range(ROWS))
        whole = self._run(rows)
        apart = [self._run([row]) for row in rows]
        if whole is None:
            return None if any(one is None for one in apart) else False
        singles = [one for one in apart if one is not None and one.shape[1:] == whole.shape[1:]]
        if len(singles) < ROWS:
            return True
        joined = np.concatenate(singles)
        if whole.tobytes() == joined.tobytes():
            return False
        return self._follows_others(whole) or not _is_near(whole, joined)

    def follows_in_order(
        self, seeded: Callable[[np.ndarray], AbstractContextManager[Any]] | None
    ) -> bool | None:
        """Return whether rows change with others, with draws that differ; None: it runs on none."""
        keys = np.zeros((ROWS, 2 * WORDS), np.uint64)
        keys[:, 2] = keys[:, WORDS + 2] = self._point
        ends: list[Any] = []

        def run(rows: Sequence[int]) -> np.ndarray | None:
            counts, words = np.zeros(ROWS, np.int64), keys.copy()
            with seeded(words[0]) if seeded else nullcontext():
                found = self._call(self._drawing, words, counts, rows, self._ids[:ROWS])
                ends.append((int(counts[0]), generator_states() if seeded else None))
            return found

        whole = run(range(ROWS))
        if whole is None:
            return None
        if not seeded and not ends[0][0]:
            return False
        changes = False
        for kept in KEPT:
            again = run(self._others(kept))
            if again is None or ends[-1] != ends[0]:
                return False
            changes |= any(again[row].tobytes() != whole[row].tobytes() for row in kept)
        return changes

    def _others(self, kept: Sequence[int]) -> list[int]:
        """Return rows in which all but some are replaced by those at the end of the batch."""
        return [row if row in kept else len(self._batch) - 1 - row // 2 for row in range(ROWS)]

    def _follows_others(self, whole: np.ndarray) -> bool:
        """Return whether rows change with the values of others, and not by rounding alone."""
        for kept in KEPT:
            again = self._run(self._others(kept), ids=self._ids[:ROWS])
            if again is None or any(again[row].tobytes() != whole[row].tobytes() for row in kept):
                return True
        return False

    def _run(self, rows: Sequence[int], ids: np.ndarray | None = None) -> np.ndarray | None:
        """Return the result for some rows; None: it raises, or returns something else."""
        keys, counts = np.zeros((len(rows), 2 * WORDS), np.uint64), np.zeros(len(rows), np.int64)
        numbers = self._ids[np.array(rows)] if ids is None else ids
        return self._call(self._function, keys, counts, rows, numbers)

    def _call(
        self,
        function: FunctionType,
        keys: np.ndarray,
        counts: np.ndarray,
        rows: Sequence[int],
        ids: np.ndarray,
    ) -> np.ndarray | None:
        count, batch = len(rows), self._batch[np.array(rows)]
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(
                    function(keys, counts, batch, self._memory.request(count), ids)
                ).copy()
        except (Exception, SystemExit):  # the user's function may raise anything
            return None
        return found if found.shape[:1] == (count,) and found.dtype != object else None


def _is_near(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether arrays differ by rounding alone."""
    if one.dtype.kind not in "iufb":
        return False
    first, second = one.astype(np.float64), other.astype(np.float64)
    size = float(np.nanmax(np.abs(second), initial=0.0))
    limit = ROUNDING * size if one.dtype.kind == "f" else max(1.0, ROUNDING * size)
    return bool(np.allclose(first, second, rtol=0, atol=limit, equal_nan=True))


def of_first(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a form of a draw that draws all values from the first row, in order."""

    def ordered(keys: np.ndarray, counts: np.ndarray, *arguments: Any) -> Any:
        return draw(keys[:1], counts[:1], *arguments)

    return ordered


def unchanging(draw: Callable[..., Any], point: int = 0) -> Callable[..., Any]:
    """Return a form of a draw whose result is the same for all rows and all calls.

    Args:
        draw: a function of `stoker.compat.ffcv.row_draws`.
        point: the id in the key that it draws from.
    """
    kinds = [kind for kind, many in MANY.items() if many is draw]
    single = ONE[kinds[0]] if kinds else draw

    def fixed(keys: np.ndarray, counts: np.ndarray, *arguments: Any) -> Any:
        counts[0] += 1
        if counts[0] > MOST_DRAWS:
            raise _TooManyDrawsError
        nobody = np.zeros_like(keys[:1]), np.zeros_like(counts[:1])
        nobody[0][0, 2] = point
        if not kinds:
            return single(*nobody, *arguments)
        return np.broadcast_to(single(*nobody, *arguments[:-1]), arguments[-1]).copy()

    return fixed
