"""Masks as they come: arrays of any whole numbers or bools, and the dtypes in which they are kept.

A mask is (H, W). A trailing side of 1 is removed. The numbers never change: a number that does not
fit raises.
"""

from typing import Final

import numpy as np

MASK_DTYPES: Final = {
    "bool": "uint8",
    "uint8": "uint8",
    "uint16": "uint16",
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "uint32": "int32",
    "int64": "int32",
    "uint64": "int32",
}
"""dtype of a mask as it comes -> the dtype in which it is kept."""


def is_mask_form(dtype: str, shape: tuple[int, ...]) -> bool:
    """Return whether this can be a mask: whole numbers or bools of shape (H, W) or (H, W, 1)."""
    return dtype in MASK_DTYPES and (len(shape) == 2 or (len(shape) == 3 and shape[2] == 1))


def as_mask(dtype: str, array: np.ndarray) -> np.ndarray:
    """Return a mask as (H, W) of a dtype, with the same numbers; other arrays as they are.

    Raises:
        ValueError: a number does not fit the dtype.
    """
    if not is_mask_form(array.dtype.name, array.shape):
        return array
    flat = array.reshape(array.shape[:2])
    if flat.dtype == dtype or not flat.size:
        return flat.astype(dtype, copy=False)
    bounds, low, high = np.iinfo(dtype), int(flat.min()), int(flat.max())
    if not bounds.min <= low <= high <= bounds.max:
        raise ValueError(f"expected class numbers that fit {dtype}, got {low} to {high}")
    return flat.astype(dtype)
