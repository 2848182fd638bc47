"""The least time of several contenders that alternate.

Other programs on a machine only ever add time, so the least of many short slices is the time of the
code itself. Contenders alternate slice by slice, so a slowdown of the machine affects all of them.
Ratios of such times are meaningful; the times themselves belong to one machine.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

SLICE_S = 5e-4
"""Target length of a slice: well below a scheduler's time slice, so most are undisturbed."""


def slice_s(call: Callable[[], Any], repeats: int) -> float:
    """Return the seconds of one call, as the mean over one slice."""
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats


def least_times(contenders: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least seconds of one call of each contender.

    Args:
        contenders: name -> the timed function; called once before, to warm up.
        rounds: number of slices of each contender.
    """
    repeats, least = {}, {}
    for name, call in contenders.items():
        call()
        least[name] = min(slice_s(call, 1) for _ in range(3))
        repeats[name] = max(1, int(SLICE_S / max(least[name], 1e-7)))
    for _ in range(rounds):
        for name, call in contenders.items():
            least[name] = min(least[name], slice_s(call, repeats[name]))
    return least
