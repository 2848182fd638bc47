"""The memory that the pixels of an image need, and a check of the caller's memory."""

from typing import Any, Final

import numpy as np

from stoker.dataset.format.arrow import ITEM_BYTES
from stoker.dataset.format.fields import Field
from stoker.protocol.errors import UsageError

_BYTES: Final[np.dtype[Any]] = np.dtype(np.uint8)


def pixel_bytes(field: Field) -> int:
    """Return the bytes of one pixel of a field."""
    channels = field.shape[2] if len(field.shape) > 2 else 1
    return ITEM_BYTES[field.dtype] * (channels or 1)


def require_memory(field: Field, sample_id: int, size: tuple[int, int], out: np.ndarray) -> int:
    """Return the bytes that an image of (height, width) needs.

    Raises:
        UsageError: `out` is not flat, contiguous uint8 memory of at least this size.
    """
    needed = size[0] * size[1] * pixel_bytes(field)
    flat = out.dtype == _BYTES and out.ndim == 1 and out.flags.c_contiguous
    if not flat or out.size < needed:
        raise UsageError(
            f"field {field.name!r} of id {sample_id}: expected flat, contiguous uint8 memory of "
            f"at least {needed} bytes, got {out.dtype} of shape {out.shape}"
        )
    return needed
