"""Objects of a mask: which ones are there, which are chosen, and what a paste hides of others.

An object is all pixels of one number. NumPy alone computes here, so every engine gives the same
bytes; work is done only for the pixels that a paste covers, and once per object that it touches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import numpy as np

from stoker.ops.kernels.float_levels import plain_number
from stoker.rng.draws import uniform
from stoker.rng.maths import exp
from stoker.rng.streams import Key

FEW: Final = 16
"""Bits up to which numbers are looked up in a table."""
WEIGHT_BITS: Final = 12
"""Fraction bits of a weight of a soft edge along one axis."""
REACH: Final = 3
"""Standard deviations that a soft edge reaches."""
DRAWS: Final = 0xFFFFFFFF


class Hidden(NamedTuple):
    """The part of an object that a paste leaves visible.

    Attributes:
        part: the visible part of its pixels, from 0 to 1.
        box: the smallest box around them, (left, top, right, bottom) in pixels; zeros if none.
    """

    part: float
    box: tuple[int, int, int, int]


def numbers_of(mask: np.ndarray, ignore: Collection[int], lowest: int | None) -> list[int]:
    """Return the numbers of the objects of a mask, in ascending order.

    Args:
        mask: (H, W) of integers.
        ignore: numbers that are not objects.
        lowest: the smallest number of an object; None: any.
    """
    if _is_short(mask):
        found = np.flatnonzero(np.bincount(mask.reshape(-1))).tolist()
    else:
        found = np.unique(mask).tolist()
    return [n for n in found if n not in ignore and (lowest is None or n >= lowest)]


def chosen_of(numbers: Iterable[int], seed: tuple[int, int], p: float) -> list[int]:
    """Return the numbers whose own draw is below p; a number's draw depends on nothing else.

    Args:
        numbers: the numbers of objects.
        seed: two words, the key of the draws; draw k of number n is k = n mod 2**32.
        p: probability of each.
    """
    key = Key(*seed, 0, 0, 0)
    return [n for n in numbers if uniform(key, n & DRAWS) < p]


def free_numbers(count: int, used: Iterable[int], ignore: Collection[int], most: int) -> list[int]:
    """Return up to `count` numbers above all used ones, up to `most`, none of them ignored."""
    found: list[int] = []
    number = max([0, *used]) + 1
    while len(found) < count and number <= most:
        if number not in ignore:
            found.append(number)
        number += 1
    return found


def found_in(
    mask: np.ndarray, before: list[int], after: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return where a mask shows objects, (H, W) bool, and the new numbers of those pixels, (n,).

    Args:
        mask: (H, W) of integers.
        before: the numbers of the objects, in ascending order.
        after: what each becomes.
    """
    if not before:
        return np.zeros(mask.shape, bool), np.zeros(0, mask.dtype)
    keys, values = np.array(before, np.int64), np.array(after, np.int64)
    if _is_short(mask):
        chosen = np.zeros(np.iinfo(mask.dtype).max + 1, bool)
        table = np.zeros(len(chosen), mask.dtype)
        chosen[keys], table[keys] = True, values
        where = chosen[mask]
        return where, table[mask[where]]
    at = np.searchsorted(keys, mask).clip(0, len(keys) - 1)
    where = keys[at] == mask
    return where, values[at[where]].astype(mask.dtype)


def _is_short(mask: np.ndarray) -> bool:
    """Return whether a table has room for every number of a mask."""
    return mask.dtype.kind == "u" and 8 * mask.dtype.itemsize <= FEW


def hidden_by(where: np.ndarray, mask: np.ndarray, numbers: Collection[int]) -> dict[int, Hidden]:
    """Return what a paste leaves of each object that it touches.

    Args:
        where: (H, W) bool, the pixels that are pasted over.
        mask: (H, W) of integers, before.
        numbers: the numbers of the objects.
    """
    touched = [n for n in np.unique(mask[where]).tolist() if n in numbers]
    found = {}
    for number in touched:
        whole = mask == number
        seen = whole & ~where
        rows, columns = np.flatnonzero(seen.any(1)), np.flatnonzero(seen.any(0))
        box = (0, 0, 0, 0)
        if len(rows):
            box = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
        found[number] = Hidden(int(seen.sum()) / int(whole.sum()), box)
    return found


def surrounding(where: np.ndarray, sigma: float) -> tuple[slice, slice]:
    """Return the smallest part of an image that a paste changes, as slices of rows and columns.

    Args:
        where: (H, W) bool, with at least one pixel.
        sigma: of a soft edge, in pixels; 0 for a sharp one.
    """
    more = _reach(sigma) if sigma > 0 else 0
    found = []
    for axis in (1, 0):
        at = np.flatnonzero(where.any(axis))
        found.append(slice(max(int(at[0]) - more, 0), int(at[-1]) + 1 + more))
    return found[0], found[1]


def _reach(sigma: float) -> int:
    return max(int(REACH * sigma + 0.5), 1)


def soft_edge(where: np.ndarray, sigma: float) -> np.ndarray:
    """Return weights of the pasted image, (H, W) int32 from 0 to 2**16: a blurred `where`.

    A Gaussian over `REACH` standard deviations, with weights of `WEIGHT_BITS` bits; beyond the edge
    of the image the outermost pixels repeat. A part from `surrounding` gives the same weights.

    Args:
        where: (H, W) bool.
        sigma: standard deviation in pixels, above 0.
    """
    reach = _reach(sigma)
    half = [exp(-0.5 * (i / sigma) * (i / sigma)) for i in range(reach + 1)]
    total = half[0] + 2.0 * sum(half[1:])
    taps = [int(h / total * (1 << WEIGHT_BITS) + 0.5) for h in half]
    taps[0] = (1 << WEIGHT_BITS) - 2 * sum(taps[1:])
    made = where.astype(np.int32)
    for axis in (0, 1):
        wide = np.pad(made, [(reach, reach) if a == axis else (0, 0) for a in (0, 1)], mode="edge")
        count, made = made.shape[axis], np.zeros_like(made)
        for k in range(2 * reach + 1):
            part = wide[k : k + count] if axis == 0 else wide[:, k : k + count]
            made += np.int32(taps[abs(k - reach)]) * part
    return made + np.int32(1 << (2 * WEIGHT_BITS - 17)) >> np.int32(2 * WEIGHT_BITS - 16)


def blended(own: np.ndarray, other: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (own * (2**16 - w) + other * w) / 2**16.

    uint8: in integers, halves up. float32: with p = w * 2**-16, own * (1 - p) + other * p, each
    operation rounded to float32; where w is 0 or 2**16 a value is copied. float16: computed as
    float32, rounded to nearest, halves to even.

    Args:
        own: (..., H, W, C) uint8, float16 or float32.
        other: of the same shape and dtype.
        weights: (H, W) int32 from 0 to 2**16.
    """
    w = weights[..., None]
    if own.dtype == np.uint8:
        total = own * (np.int32(1 << 16) - w) + other * w
        levels: np.ndarray = (total + np.int32(1 << 15) >> np.int32(16)).astype(np.uint8)
        return levels
    p = w.astype(np.float32) * np.float32(2.0**-16)
    one, two = own.astype(np.float32), other.astype(np.float32)
    with np.errstate(all="ignore"):
        mean = plain_number(one * (np.float32(1) - p) + two * p)
        made = np.where(w == 0, one, np.where(w == 1 << 16, two, mean))
        narrow: np.ndarray = made.astype(own.dtype)
    return narrow
