"""An emulated accelerator: it takes a batch, is busy for a fixed time, and takes the next.

It runs in every contender's process, also under the interpreter of a peer. A step only waits until
its end, so it leaves all processors to the loader, as an accelerator does.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from meter import busy_s, tree_s

SKIPPED = 5
"""Steps at the start that are not counted, because batches were loaded before."""


@dataclass
class Fed:
    """What an accelerator saw after its first steps; times in seconds.

    Attributes:
        images: number of images.
        seconds: wall time, from the end of the last skipped step to the end of the last step.
        busy_s: how long the accelerator was busy meanwhile.
        cpu_s: CPU time of the process and its descendants meanwhile.
        other_cpu_s: CPU time of the rest of the machine meanwhile.
    """

    images: int
    seconds: float
    busy_s: float
    cpu_s: float
    other_cpu_s: float


def feed(batches: Iterable[Any], step_s: float) -> Fed:
    """Take all image batches, each for a step of `step_s`; touch one element of each image."""
    steps, images, begun, own, all_ = 0, 0, 0.0, 0.0, 0.0
    for batch in batches:
        float(batch[(slice(None), *(0,) * (batch.ndim - 1))].sum())
        end = time.perf_counter() + step_s
        while (left := end - time.perf_counter()) > 0:
            time.sleep(left)
        steps += 1
        if steps > SKIPPED:
            images += len(batch)
        elif steps == SKIPPED:
            begun, own, all_ = time.perf_counter(), tree_s(os.getpid()), busy_s()
    seconds, cpu_s = time.perf_counter() - begun, tree_s(os.getpid()) - own
    other = max(0.0, busy_s() - all_ - cpu_s)
    return Fed(images, seconds, (steps - SKIPPED) * step_s, cpu_s, other)
