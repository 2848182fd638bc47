"""Convert the user's numbers to a declared dtype, without changing their meaning."""

import numpy as np

from stoker.dataset.limits import CodecError
from stoker.protocol import masks


def exactly(dtype: str, value: object) -> np.ndarray:
    """Return numbers as an array of a dtype.

    Integers must fit exactly, floats may be rounded; no other conversion is allowed.

    Raises:
        CodecError: the values are not numbers of that kind, or do not fit.
    """
    given = np.asarray(value)
    if given.size == 0 and given.dtype == np.float64:  # an empty list
        return given.astype(dtype)
    integers = given.dtype.kind in "iu" and np.dtype(dtype).kind in "iu"
    if not integers and not np.can_cast(given.dtype, dtype, "same_kind"):
        found = f"text {str(given.flat[0])!r}" if given.dtype.kind in "US" else str(given.dtype)
        raise CodecError(f"expected {dtype}, got {found}")
    with np.errstate(over="ignore"):  # a float beyond the dtype becomes an infinity
        exact = given.astype(dtype)
    if integers and not np.array_equal(exact, given):
        raise CodecError(f"a value does not fit {dtype}")
    return exact


def as_mask(dtype: str, array: np.ndarray) -> np.ndarray:
    """Return a mask as (H, W) of a dtype; see `stoker.protocol.masks`.

    Raises:
        CodecError: a number does not fit the dtype.
    """
    try:
        return masks.as_mask(dtype, array)
    except ValueError as error:
        raise CodecError(
            f'{error}; declare a wider dtype, as in schema.mask(NAME, "raw", dtype="int32")'
        ) from None
