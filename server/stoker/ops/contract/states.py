"""States: the compiler's knowledge about values before it runs, and the errors of ops.

Pure: no arrays are made, nothing is drawn, numba is not imported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from stoker.protocol.errors import BuildError
from stoker.protocol.item_fields import COORDINATES, WORD, ItemField, item_words

VECTORS: Final = {"flow": 2, "normals": 3}
"""Kinds of vector fields -> their components; see `stoker.ops.contract.vector_fields`."""
IMAGE_KINDS = ("image", "mask", *VECTORS)
"""Kinds whose first two sides are height and width."""

ITEM_KINDS = tuple(COORDINATES)


ROUNDING = 1e-3
"""The distance that floats from 0 to 1 may be outside of this range."""


class ParameterError(BuildError):
    """A parameter of an op is of the wrong type or out of bounds; a `BuildError` on the wire."""


class StateError(BuildError):
    """An op has no rule for its arguments; a `BuildError` on the wire."""


LEVELS, LEVELS16, UNIT, NORMALIZED = "levels", "levels16", "unit", "normalized"
"""Scales of images: 0 to 255, 0 to 65535, 0 to 1, and zero mean with unit deviation."""
OTHER, UNKNOWN = "other", "unknown"
"""Scales of stored floats: known to leave 0 to 1; and not known, taken for 0 to 1."""


@dataclass(frozen=True)
class State:
    """Everything the compiler knows about a value before it runs.

    Attributes:
        kind: what the value means: image, mask, flow, normals, boxes, keypoints, label, scalar,
            array or bytes.
        dtype: NumPy name of the element type.
        shape: sides of one sample's value; None if the side differs from sample to sample.
        bound: for every side its maximum; equals the side if that is fixed.
        items: for boxes and keypoints: the fields of an item, the coordinates first; such a value
            is (n, words) uint32, see `stoker.protocol.ragged`, and n may be 0.
        of: for boxes and keypoints: the field in whose pixels they count at the source; empty
            if that is not known.
        scale: what the numbers mean, if that does not follow from kind and dtype: LEVELS,
            LEVELS16, UNIT, NORMALIZED, OTHER or UNKNOWN. Binding sets it; an op need not.
        planar: whether an array is an image with the channels first. Binding sets it.
        shortest: for an image or mask of varying size: no side of any sample's value is shorter; 0
            if that is not known.
        classes: names of the numbers of a label, which conditions may use, or of keypoints; states
            that differ in them alone are equal.
        span: the least and the greatest number of a stored label or image of floats; empty if they
            are not known. It does not count for equality, and an op need not keep it true.
    """

    kind: str
    dtype: str
    shape: tuple[int | None, ...]
    bound: tuple[int, ...]
    items: tuple[ItemField, ...] = ()
    of: str = ""
    scale: str = ""
    planar: bool = False
    shortest: int = 0
    classes: tuple[str, ...] = field(default=(), compare=False)
    span: tuple[float, float] | tuple[()] = field(default=(), compare=False)

    @staticmethod
    def fixed(kind: str, dtype: str, shape: tuple[int, ...]) -> State:
        """Return a state whose shape is the same for every sample."""
        return State(kind, dtype, shape, shape)

    @staticmethod
    def ragged(kind: str, items: tuple[ItemField, ...], bound: int, of: str = "") -> State:
        """Return the state of up to `bound` boxes or keypoints."""
        words = item_words(items)
        return State(kind, WORD, (None, words), (max(bound, 1), words), items, of)

    @property
    def least(self) -> tuple[int, ...]:
        """For every side its minimum."""
        free = max(1, self.shortest) if self.kind in IMAGE_KINDS else 0
        return tuple(free if side is None else side for side in self.shape)

    @property
    def is_fixed(self) -> bool:
        """True if every side is known before the first sample."""
        return None not in self.shape

    @property
    def bound_bytes(self) -> int:
        """Bytes of the largest value."""
        return int(np.dtype(self.dtype).itemsize * math.prod(self.bound))

    def resized(self, height: int | None, width: int | None, bound: tuple[int, int]) -> State:
        """Return this state with another height and width."""
        shape = (height, width, *self.shape[2:])
        return replace(self, shape=shape, bound=(*bound, *self.bound[2:]), shortest=0)

    def __str__(self) -> str:
        if self.items:
            more = "".join(f", {f.name} {f.dtype}" for f in self.items[1:])
            return f"{self.kind}[<={self.bound[0]}: {self.items[0].name}{more}]"
        sides = "x".join(
            str(s) if s is not None else f"<={b}"
            for s, b in zip(self.shape, self.bound, strict=True)
        )
        scale = f" {self.scale}" if self.scale == NORMALIZED else ""
        if self.scale == OTHER and self.span:
            scale = " from {:g} to {:g}".format(*self.span)
        return f"{self.kind} {self.dtype}[{sides}]{scale}"


def with_span(state: State, span: tuple[float, float] | None) -> State:
    """Return the state of a field whose numbers are from `span[0]` to `span[1]`, None: unknown.

    It says of an image of floats whether these leave 0 to 1.
    """
    known = replace(state, span=span or ())
    if (state.kind, state.dtype) != ("image", "float32"):
        return known
    if span is None:
        return replace(known, scale=UNKNOWN)
    return replace(known, scale=OTHER) if span[0] < -ROUNDING or span[1] > 1 + ROUNDING else known


def span_of(array: np.ndarray) -> tuple[float, float] | None:
    """Return the least and the greatest finite number; None without a finite number."""
    finite = array[np.isfinite(array)]
    return (float(finite.min()), float(finite.max())) if finite.size else None


def storage(dtype: str) -> np.dtype[Any]:
    """Return the dtype that kernels see for a state's elements.

    numba cannot store float16, so kernels, compiled and plain, receive such arrays as views of
    their uint16 bits.
    """
    return np.dtype("uint16" if dtype == "float16" else dtype)
