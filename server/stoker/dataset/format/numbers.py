"""Numbers of a user's -> numbers of a declared dtype, without losing what they mean."""

import numpy as np

from stoker.dataset.limits import CodecError


def exactly(dtype: str, value: object) -> np.ndarray:
    """Return numbers as an array of a dtype.

    Integers must fit it exactly, floats may be rounded; nothing else changes its kind.

    Raises:
        CodecError: they are no numbers of that kind, or do not fit.
    """
    given = np.asarray(value)
    if given.size == 0 and given.dtype == np.float64:  # an empty list
        return given.astype(dtype)
    integers = given.dtype.kind in "iu" and np.dtype(dtype).kind in "iu"
    if not integers and not np.can_cast(given.dtype, dtype, "same_kind"):
        raise CodecError(f"expected {dtype}, got {given.dtype}")
    with np.errstate(over="ignore"):  # a float beyond the dtype becomes an infinity
        exact = given.astype(dtype)
    if integers and not np.array_equal(exact, given):
        raise CodecError(f"a value does not fit {dtype}")
    return exact
