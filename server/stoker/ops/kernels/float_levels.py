"""Levels of images of floats: what clips, what is no number, and floats in their order.

`unit` brings a level into [0, 1]. What is no number becomes 0 there, as `from_float` does. An op
that does not clip writes every result that is no number as `NAN`, 0x7FC00000, because processors
and libraries keep different bits of one.

A float's key is an int32 that is ordered as floats are, -0.0 below 0.0; the greatest keys are those
of what is no number, its bits 0x7FC00000. Least, greatest and middle ones of keys are found by
integer comparisons, which give the same in any order and are vectorised.
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
"""Key of what is no number."""


@kernel
def unit(x: Any) -> Any:
    """Bring a float32 into [0, 1]; what is no number becomes 0."""
    x = x if x > ZERO else ZERO
    return x if x < ONE else ONE


@kernel
def number(x: Any) -> Any:
    """Return a float32, or the one NaN that is written for all of them."""
    return x if x == x else NAN  # noqa: PLR0124 (the IEEE test, and no call)


@kernel
def settle(image: Any, at: Any, count: Any) -> None:
    """Write `NAN` for each of `count` values, from index `at` on, that is no number."""
    for i in range(count):
        image[at + i] = number(image[at + i])


@kernel
def greater(a: Any, b: Any) -> Any:
    """Return the greater of two float32; the second one where one of them is no number."""
    return a if a > b else b


@kernel
def lesser(a: Any, b: Any) -> Any:
    """Return the lesser of two float32; the second one where one of them is no number."""
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
