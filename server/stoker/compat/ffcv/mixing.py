"""Whether an operation would mix the rows of a batch if it got them all.

An operation that draws single numbers, or in a loop, gets one row at a time, so `images[i - 1]` is
the row itself there: an operation that means to mix rows would change nothing, without an error.
Therefore its plain form runs on a whole batch and on its rows, with draws that are the same for
all rows and all calls. The results differ if, and only if, rows other than its own matter.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from stoker.compat.ffcv.calls import MANY, ONE
from stoker.compat.ffcv.draws import WORDS
from stoker.compat.ffcv.rewriting import rebound
from stoker.compat.ffcv.working import WorkingMemory

ROWS = 2


def mixes(
    function: FunctionType,
    batch: np.ndarray,
    ids: np.ndarray,
    memory: WorkingMemory,
) -> bool:
    """Return whether the result for a row depends on other rows.

    Args:
        function: a rewritten function.
        batch: at least `ROWS` rows that differ; not changed.
        ids: their sample ids.
        memory: what it works in.

    A function that raises on the whole batch, where its arithmetic needs machine code for example,
    counts as one that mixes nothing.
    """
    same = rebound(function, unchanging, lambda helper: helper)

    def run(low: int, high: int) -> bytes:
        count = high - low
        keys, counts = np.zeros((count, 2 * WORDS), np.uint64), np.zeros(count, np.int64)
        dst, given = memory.request(count), batch[low:high].copy()
        return np.asarray(same(keys, counts, given, dst, ids[low:high])).tobytes()

    try:
        with np.errstate(all="ignore"):
            return run(0, ROWS) != b"".join(run(row, row + 1) for row in range(ROWS))
    except Exception:  # the user's function may raise anything
        return False


def unchanging(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a form of a draw whose result is the same for all rows and all calls."""
    kinds = [kind for kind, many in MANY.items() if many is draw]
    single = ONE[kinds[0]] if kinds else draw

    def fixed(keys: np.ndarray, counts: np.ndarray, *arguments: Any) -> Any:
        nobody = np.zeros_like(keys[:1]), np.zeros_like(counts[:1])
        if not kinds:
            return single(*nobody, *arguments)
        return np.broadcast_to(single(*nobody, *arguments[:-1]), arguments[-1]).copy()

    return fixed
