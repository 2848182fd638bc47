"""Steps on whole arrays: an element, arithmetic, and the components of a vector field.

Other steps of expressions are in `planning.steps`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from stoker.ops.contract.op import Op
from stoker.ops.kernels.vectors import TURNERS, Turner
from stoker.pipeline.graph.sites import Site
from stoker.pipeline.planning.decision import Decision
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


def forward_of(op: type[Op]) -> Callable[..., Any]:
    """Return the map of an op that has one."""
    assert op.forward is not None, "binding adds the step only for an op with a map"
    return op.forward


@dataclass(frozen=True)
class VectorsStep(Maker):
    """Turn the components of `src`, a field of `kind` whose pixels are already moved, into `dst`.

    `frame` is the field before the op: the map needs its size.
    """

    in_memory: ClassVar[bool] = True
    decision: Decision
    kind: str
    src: int
    dst: int
    frame: int
    site: Site

    @property
    def reads(self) -> tuple[int, ...]:
        """The field whose pixels are moved."""
        return (self.src,)

    @property
    def srcs(self) -> tuple[int, ...]:
        """The same, in the form of other steps of ops."""
        return (self.src,)

    @property
    def looks_at(self) -> tuple[int, ...]:
        """The field before the op."""
        return (self.frame,)

    @property
    def forward(self) -> Callable[..., Any]:
        """The op's map of points."""
        return forward_of(type(self.decision.op))

    @property
    def turner(self) -> Turner:
        """The change of the components under the map."""
        return TURNERS[self.kind]
