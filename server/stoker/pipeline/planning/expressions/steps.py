"""The steps of expressions that read memory: an element of an array, and arithmetic on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stoker.pipeline.planning.steps import Maker


@dataclass(frozen=True)
class ElementStep(Maker):
    """Read an element of `src` into a scalar; negative indices count from the end.

    `indices` are scalars of type int64, one for each side of `src`. `check` is the status for an
    index that is out of bounds.
    """

    dst: int
    src: int
    indices: tuple[int, ...]
    check: int

    @property
    def reads(self) -> tuple[int, ...]:
        """The array and the indices."""
        return (self.src, *self.indices)


@dataclass(frozen=True)
class ArrayStep(Maker):
    """Compute an array, element by element, from arrays of one shape and numbers.

    Attributes:
        dst: the result.
        op: the expression.
        args: one or two values.
        compute: the dtype that the operands are converted to.
        check: the status for two arrays that differ in shape; None if their shapes are known to
            be equal.
        fits: for a number that must fit `compute`: its value, and the status if it does not.
    """

    in_memory: ClassVar[bool] = True
    dst: int
    op: str
    args: tuple[int, ...]
    compute: str
    check: int | None
    fits: tuple[int, int] | None

    @property
    def reads(self) -> tuple[int, ...]:
        """The operands."""
        return self.args
