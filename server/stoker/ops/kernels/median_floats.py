"""Medians of windows of floats: by their keys (`kernels.float_levels`), compared as integers.

Floats from 0.0 to infinity are their own keys, so an image without others is used directly.
Windows of 3 and 5 are those of `stoker.ops.median_blur`, for keys. Larger ones find the bits of the
median's key from the highest on, like those of levels, but 32 instead of 8; counts are as wide as
keys, and seven keys are counted at a time. NaN is greater than all numbers.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.float_levels import float_of, key_of
from stoker.ops.kernels.words import float_word

FIRST: Final = np.int32(-(1 << 31))
"""The lowest key; as a bit it is the sign, which is counted with reversed meaning."""
NONE: Final = np.int32(0)
ONE: Final = np.int32(1)
INFINITY: Final = np.uint32(0x7F800000)


@kernel
def are_keys(words: Any) -> Any:
    """Whether all floats are their own keys: none is below 0.0, -0.0 or NaN."""
    most = np.uint32(0)
    for i in range(np.uint64(words.size)):
        word = np.uint32(words[i])
        most = word if word > most else most
    return most <= INFINITY


@kernel
def write_keys(image: Any, keys: Any) -> None:
    """Write the keys of a flat image."""
    for i in range(np.uint64(image.size)):
        keys[i] = key_of(image[i])


@kernel
def read_keys(keys: Any) -> None:
    """Overwrite keys by their floats, as bits."""
    for i in range(np.uint64(keys.size)):
        keys[i] = np.int32(float_word(float_of(keys[i])))


@kernel
def count_seven(keys: Any, at: Any, step: Any, found: Any, bit: Any, counts: Any) -> None:
    """Count which of seven lines, `step` values apart, are at least the found key with the bit."""
    b, c = at + step, at + step + step
    d, e = c + step, c + step + step
    f, g = e + step, e + step + step
    for j in range(np.uint64(counts.size)):
        trial = np.int32(found[j] ^ bit)
        one = np.int32((ONE if keys[at + j] >= trial else NONE) + counts[j])
        two = np.int32((ONE if keys[b + j] >= trial else NONE) + one)
        three = np.int32((ONE if keys[c + j] >= trial else NONE) + two)
        four = np.int32((ONE if keys[d + j] >= trial else NONE) + three)
        five = np.int32((ONE if keys[e + j] >= trial else NONE) + four)
        six = np.int32((ONE if keys[f + j] >= trial else NONE) + five)
        counts[j] = np.int32((ONE if keys[g + j] >= trial else NONE) + six)


@kernel
def count_two(keys: Any, at: Any, step: Any, found: Any, bit: Any, counts: Any) -> None:
    """Count as `count_seven` does, in two lines."""
    b = at + step
    for j in range(np.uint64(counts.size)):
        trial = np.int32(found[j] ^ bit)
        one = np.int32((ONE if keys[at + j] >= trial else NONE) + counts[j])
        counts[j] = np.int32((ONE if keys[b + j] >= trial else NONE) + one)


@kernel
def keep_trial(counts: Any, half: Any, bit: Any, found: Any) -> None:
    """Keep the bit if more than half of the window was counted; reset the counts."""
    for j in range(np.uint64(found.size)):
        trial = np.int32(found[j] ^ bit)
        found[j] = trial if counts[j] > half else found[j]
        counts[j] = NONE


@kernel
def median_keys(keys: Any, at: int, size: int, steps: Any, found: Any, counts: Any) -> None:
    """Write the middle keys of a line of windows.

    Args:
        keys: of the image with its border, flat.
        at: index of the first window's first key.
        size: side of the window, odd, at least 7.
        steps: (to a pixel, to a row), in values.
        found: `(n,) int32`: output.
        counts: like `found`, contents undefined.
    """
    step, stride = np.uint64(steps[0]), steps[1]
    half = np.int32(size * size // 2)
    found[:] = FIRST
    counts[:] = NONE
    for place in range(32):
        bit = np.int32(FIRST if place == 0 else 1 << (31 - place))
        for y in range(size):
            first = np.uint64(at + y * stride)
            count_seven(keys, first, step, found, bit, counts)
            for x in range(7, size, 2):
                count_two(keys, first + np.uint64(x) * step, step, found, bit, counts)
        keep_trial(counts, half, bit, found)
