"""Levels of images of floats: clipping, NaN, and the order of floats.

`unit` clips a level to [0, 1]. NaN becomes 0 there, as in `from_float`. An op that does not clip
writes every NaN result as `NAN`, 0x7FC00000, because processors and libraries keep different bits
of a NaN.

A float's key is an int32 with the same order as floats, -0.0 below 0.0; the greatest key is that
of NaN, its bits 0x7FC00000. Minimum, maximum and middle of keys are found by integer comparisons,
which give the same in any order and are vectorized.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.words import float_word, word_float

ZERO: Final = np.float32(0)
ONE: Final = np.float32(1)
NAN: Final = np.float32(np.nan)
BELOW: Final = np.int32(0x7FFFFFFF)
SIGN: Final = np.int32(31)
NO_NUMBER: Final = np.int32(0x7FC00000)
"""Key of NaN."""


@kernel
def unit(x: Any) -> Any:
    """Clip a float32 to [0, 1]; NaN becomes 0."""
    x = x if x > ZERO else ZERO
    return x if x < ONE else ONE


@kernel
def number(x: Any) -> Any:
    """Return a float32; every NaN becomes the one NaN that is written."""
    return x if x == x else NAN  # noqa: PLR0124 (the IEEE test, and no call)


@kernel
def settle(image: Any, at: Any, count: Any) -> None:
    """Overwrite every NaN by `NAN` in `count` values, from index `at` on."""
    for i in range(count):
        image[at + i] = number(image[at + i])


@kernel
def greater(a: Any, b: Any) -> Any:
    """Return the greater of two float32; the second one if one of them is NaN."""
    return a if a > b else b


@kernel
def lesser(a: Any, b: Any) -> Any:
    """Return the lesser of two float32; the second one if one of them is NaN."""
    return a if a < b else b


@kernel
def key_of(x: Any) -> Any:
    """Return the key of a float32."""
    word = np.int32(float_word(x))
    key = np.int32(word ^ np.int32(np.int32(word >> SIGN) & BELOW))
    return key if x == x else NO_NUMBER  # noqa: PLR0124


@kernel
def float_of(key: Any) -> Any:
    """Return the float32 of a key."""
    return word_float(np.uint32(np.int32(key ^ np.int32(np.int32(key >> SIGN) & BELOW))))


def plain_unit(values: np.ndarray) -> np.ndarray:
    """The reference of `unit`."""
    return np.where(values > ZERO, np.where(values < ONE, values, ONE), ZERO)


def plain_number(values: np.ndarray) -> np.ndarray:
    """The reference of `number`."""
    return np.where(np.isnan(values), NAN, values)


def plain_keys(values: np.ndarray) -> np.ndarray:
    """The reference of `key_of`."""
    words = values.view(np.int32)
    return np.where(np.isnan(values), NO_NUMBER, words ^ ((words >> SIGN) & BELOW))


def plain_floats(keys: np.ndarray) -> np.ndarray:
    """The reference of `float_of`."""
    words: np.ndarray = (keys ^ ((keys >> SIGN) & BELOW)).astype(np.int32)
    return words.view(np.float32)
