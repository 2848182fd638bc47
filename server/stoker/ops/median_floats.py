"""Medians of windows of floats: by their keys (`stoker.ops.float_levels`), compared as integers.

Windows of 3 and 5 are those of `stoker.ops.median_blur`, of keys. Larger ones find the bits of the
median's key from the highest on, as those of levels do, 32 instead of 8. What is no number is
greater than all that is.
"""

from typing import Any, Final

import numpy as np

from stoker.ops.float_levels import float_of, key_of
from stoker.rng.jit import kernel

FIRST: Final = np.int32(-(1 << 31))
"""The least key; as a bit it is the sign, which is counted with its meaning turned round."""
NONE: Final = np.uint8(0)
ONE: Final = np.uint8(1)


@kernel
def write_keys(image: Any, keys: Any) -> None:
    """Write the keys of a flat image."""
    for i in range(np.uint64(image.size)):
        keys[i] = key_of(image[i])


@kernel
def read_keys(keys: Any, image: Any, at: Any, count: Any) -> None:
    """Write the floats of `count` keys to a flat image, from index `at` on."""
    for i in range(count):
        image[at + i] = float_of(keys[i])


@kernel
def count_keys(keys: Any, at: Any, trials: Any, counts: Any) -> None:
    """Count where the line from index `at` on is at least the trial."""
    for j in range(np.uint64(counts.size)):
        counts[j] = np.uint8(counts[j] + (ONE if keys[at + j] >= trials[j] else NONE))


@kernel
def try_bit(found: Any, bit: Any, trials: Any, counts: Any) -> None:
    """Set the trials to what was found with one bit more, and begin to count."""
    for j in range(np.uint64(trials.size)):
        trials[j] = np.int32(found[j] ^ bit)
        counts[j] = NONE


@kernel
def keep_trial(trials: Any, counts: Any, half: Any, found: Any) -> None:
    """Keep the trials that more than half of the window is at least."""
    for j in range(np.uint64(found.size)):
        found[j] = trials[j] if counts[j] > half else found[j]


@kernel
def median_keys(keys: Any, at: int, size: int, steps: Any, lines: Any) -> None:
    """Write the middle keys of a line of windows to `lines[0]`.

    Args:
        keys: of the image with its border, flat.
        at: index of the first window's first key.
        size: side of the window.
        steps: (to a pixel, to a row), in values.
        lines: (found, trials, counts), int32 twice and uint8, one value for each window.
    """
    step, stride = steps
    found, trials, counts = lines
    half = np.uint8(size * size // 2)
    found[:] = FIRST
    for place in range(32):
        try_bit(found, np.int32(FIRST if place == 0 else 1 << (31 - place)), trials, counts)
        for y in range(size):
            for x in range(size):
                count_keys(keys, np.uint64(at + y * stride + x * step), trials, counts)
        keep_trial(trials, counts, half, found)
