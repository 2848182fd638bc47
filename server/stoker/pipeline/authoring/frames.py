"""Several frames of one sample, in process: one decision for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stoker.protocol.errors import UsageError


def is_frames(value: object) -> bool:
    """Return whether a field is a list of frames: arrays with at least two sides."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(frame, np.ndarray) and frame.ndim > 1 for frame in value)
    )


def split_frames(name: str, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of each frame; a field without frames is shared by all of them.

    Args:
        name: the pipeline's name, for messages.
        fields: field name -> value, or list of frames.

    Raises:
        UsageError: the lists differ in length, or the frames of a list differ in shape or dtype.
    """
    lists = {field: value for field, value in fields.items() if is_frames(value)}
    lengths = {field: len(frames) for field, frames in lists.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{field} has {length}" for field, length in lengths.items())
        raise UsageError(f"{name}: expected as many frames in every list of frames, but {said}")
    for field, frames in lists.items():
        forms = {(frame.shape, frame.dtype.name) for frame in frames}
        if len(forms) > 1:
            said = " and ".join(sorted(f"{dtype} {shape}" for shape, dtype in forms))
            raise UsageError(
                f"{name}: field {field!r}: expected frames of one shape and dtype, as they share "
                f"one decision, got {said}; resize them first"
            )
    count = next(iter(lengths.values()), 1)
    return [
        {**fields, **{field: frames[index] for field, frames in lists.items()}}
        for index in range(count)
    ]
