"""Counts of mask pixels that are not ignored: the twins of `stoker.ops.bases.marked`.

Each ignored class is counted in a loop of its own without a branch, which LLVM vectorizes. The
search counts blocks and looks at single pixels only in the block that holds the one it wants.
"""

import numpy as np

from stoker.jit.kernels import handwritten

BLOCK = 1024


@handwritten
def count_equal(flat, first, stop, value):  # type: ignore[no-untyped-def]
    """Return how many elements from `first` up to `stop` have a value."""
    found = np.int64(0)
    for i in range(np.uint64(first), np.uint64(stop)):
        found += np.int64(np.int32(flat[i]) == value)
    return found


@handwritten
def marked_between(flat, first, stop, ignore, count):  # type: ignore[no-untyped-def]
    """Return how many elements from `first` up to `stop` are not ignored."""
    found = np.int64(stop - first)
    for k in range(count):
        found -= count_equal(flat, first, stop, ignore[k])
    return found


@handwritten
def count_marked(mask, ignore, count):  # type: ignore[no-untyped-def]
    """Return the number of pixels whose class is not ignored."""
    return marked_between(mask.reshape(mask.size), 0, mask.size, ignore, count)


@handwritten
def find_marked(mask, ignore, count, rank):  # type: ignore[no-untyped-def]
    """Return the index of the pixel with `rank` pixels before it that are not ignored."""
    flat, first, before = mask.reshape(mask.size), np.int64(0), np.int64(0)
    while first < flat.size:
        stop = min(first + BLOCK, flat.size)
        here = marked_between(flat, first, stop, ignore, count)
        if before + here > rank:
            break
        first, before = stop, before + here
    for i in range(first, flat.size):
        if marked_between(flat, i, i + 1, ignore, count) > 0:
            if before == rank:
                return np.int64(i)
            before += 1
    return np.int64(flat.size - 1)
