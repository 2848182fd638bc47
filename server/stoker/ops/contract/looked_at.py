"""What `Op.sample` passes to a draw that reads boxes, keypoints or a mask."""

from typing import Any

import numpy as np

from stoker.ops.contract.rules import MASK_DTYPES
from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import COORDINATES


def looked_at(
    op: str, draws_from: str, items: Any, size: tuple[int, int]
) -> tuple[np.ndarray, ...]:
    """Return the extra arguments of `draw`: none, coordinates as words, or a mask.

    Args:
        op: the op's name.
        draws_from: its `Op.draws_from`.
        items: as for `Op.sample`.
        size: (height, width) of the value that the op decides for.

    Raises:
        UsageError: items are missing or superfluous, or a mask does not fit.
    """
    if draws_from and items is None:
        raise UsageError(f"{op}: expected items, the {draws_from} it decides from")
    if items is not None and not draws_from:
        raise UsageError(f"{op} decides from sizes alone: leave items out")
    if items is None:
        return ()
    if draws_from == "mask":
        mask = np.ascontiguousarray(items)
        if mask.shape != size or mask.dtype.name not in MASK_DTYPES:
            raise UsageError(
                f"{op}: expected items to be a mask of height and width {size} and "
                f"dtype {', '.join(MASK_DTYPES)}, got shape {mask.shape} and {mask.dtype}"
            )
        return (mask,)
    width = COORDINATES[draws_from][1]
    return (np.array(items, np.float32).reshape(-1, width).view(np.uint32),)
