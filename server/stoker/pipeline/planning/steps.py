"""The steps of a plan: what an engine does for one row, in order.

Values keep their numbers from the graph's normal form; values that binding adds (conversions) get
the numbers after those. Both engines walk these steps: each becomes one or two instructions of the
program, and the interpreter executes it with NumPy. Plain frozen records.

Each step names the values that it reads, measures and writes, and the blocks that it contains, so
code that only follows values needs `walk` and no list of the kinds of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple

from stoker.ops.contract.kernel_forms import FoldKernel, ItemsKernel, Kernel
from stoker.ops.contract.op import Op
from stoker.ops.kernels.vectors import TURNERS, Turner
from stoker.pipeline.graph.nodes import Form
from stoker.pipeline.graph.sites import Site
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.row_parameters import RowParameter

SIZES: Final = ("height", "width", "count")
"""Expressions that use the size of their argument, never its memory."""


class Step:
    """One action of an engine; the properties describe how values flow through it.

    Attributes:
        joins: values of the blocks that become values after them.

    Class attributes:
        from_memory: names of the attributes that are values whose memory is read.
        from_sizes: names of those that are values of which only the size is used.
    """

    joins: tuple[Join, ...] = ()
    from_memory: ClassVar[tuple[str, ...]] = ()
    from_sizes: ClassVar[tuple[str, ...]] = ()

    @property
    def reads(self) -> tuple[int, ...]:
        """Values whose memory is read."""
        return self._values(self.from_memory)

    @property
    def looks_at(self) -> tuple[int, ...]:
        """Values of which only the size is used."""
        return self._values(self.from_sizes)

    def _values(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return the values that attributes are: each one value, several, or None."""
        found = [attrgetter(name)(self) for name in names]
        return tuple(
            value
            for values in found
            if values is not None
            for value in (values if isinstance(values, tuple) else (values,))
        )

    @property
    def writes(self) -> tuple[int, ...]:
        """Values that the step makes."""
        return ()

    @property
    def blocks(self) -> tuple[tuple[Step, ...], ...]:
        """Blocks, one of which runs."""
        return ()


class Maker(Step):
    """A step that makes one value, `dst`; `in_memory`: outside of registers, in its own memory."""

    in_memory: ClassVar[bool] = False
    dst: int

    @property
    def writes(self) -> tuple[int, ...]:
        """The value that is made."""
        return (self.dst,)


@dataclass(frozen=True)
class InputStep(Maker):
    """Take a field from column `column` of the inputs; `check`: status of a size out of bounds."""

    dst: int
    column: int
    check: int


@dataclass(frozen=True)
class DrawStep(Step):
    """Fill the decision's record."""

    from_memory: ClassVar[tuple[str, ...]] = ("decision.items",)
    from_sizes: ClassVar[tuple[str, ...]] = ("decision.of",)
    decision: Decision


@dataclass(frozen=True)
class RescaleStep(DrawStep):
    """Fill the record of a decision that has a `source` from the source's record.

    `check` is the status for values with different ratios of height to width, if the op needs one.
    """

    check: int


@dataclass(frozen=True)
class ParameterStep(Step):
    """Write a number into the parameters of a decision, before the decision is made.

    Attributes:
        decision: the decision.
        parameter: which parameter, and its value.
        check: status for a number out of bounds.
        present: bools, all of which are true where the sample has what the value is made of.
        absent: status if one is false.
    """

    from_memory: ClassVar[tuple[str, ...]] = ("parameter.value", "present")
    decision: Decision
    parameter: RowParameter
    check: int
    present: tuple[int, ...]
    absent: int


@dataclass(frozen=True)
class SameSizeStep(Step):
    """Refuse the sample unless two values have one height and width. `check` is the status."""

    from_sizes: ClassVar[tuple[str, ...]] = ("left", "right")
    decision: Decision
    left: int
    right: int
    check: int


@dataclass(frozen=True)
class ApplyStep(Maker):
    """Run the kernel of `kind` and `dtype` from `src` to `dst`.

    `check` is the status for a size out of bounds; None if the size is fixed.
    """

    in_memory: ClassVar[bool] = True
    from_memory: ClassVar[tuple[str, ...]] = ("src",)
    decision: Decision
    kind: str
    src: int
    dst: int
    scratch_bytes: int
    check: int | None
    site: Site
    dtype: str

    @property
    def kernel(self) -> Kernel:
        """The kernel that runs."""
        return self.decision.op.kernel_of(self.kind, self.dtype)


@dataclass(frozen=True)
class FoldStep(Maker):
    """Run the fold of `kind` over `srcs` in their order, into `dst`.

    `check` is the status for a size out of bounds; None if the size is fixed.
    """

    in_memory: ClassVar[bool] = True
    from_memory: ClassVar[tuple[str, ...]] = ("srcs",)
    decision: Decision
    kind: str
    srcs: tuple[int, ...]
    dst: int
    scratch_bytes: int
    check: int | None
    site: Site
    dtype: str

    @property
    def kernel(self) -> FoldKernel:
        """The kernel that runs, once for each source."""
        return self.decision.op.fold_of(self.kind, self.dtype)


def forward_of(op: type[Op]) -> Callable[..., Any]:
    """Return the map of an op that has one."""
    assert op.forward is not None, "binding adds the step only for an op with a map"
    return op.forward


@dataclass(frozen=True)
class ItemsStep(Maker):
    """Apply a decision to boxes or keypoints, from `src` to `dst`.

    `frame` is the image or mask whose size they count in; None if the op was called without one.
    `check` is the status for a kernel that returns an impossible count.
    """

    in_memory: ClassVar[bool] = True
    from_memory: ClassVar[tuple[str, ...]] = ("src",)
    from_sizes: ClassVar[tuple[str, ...]] = ("frame",)
    decision: Decision
    kind: str
    src: int
    dst: int
    frame: int | None
    check: int
    site: Site

    @property
    def scratch_bytes(self) -> int:
        """It needs no memory of its own."""
        return 0

    @property
    def kernel(self) -> ItemsKernel | None:
        """The kernel that runs; None: the op gives the new positions of points."""
        return self.decision.op.items.get(self.kind)

    @property
    def forward(self) -> Callable[..., Any]:
        """The op's function of new positions, if no kernel runs."""
        return forward_of(type(self.decision.op))


@dataclass(frozen=True)
class VectorsStep(Maker):
    """Turn the components of `src`, a field of `kind` whose pixels are already moved, into `dst`.

    `frame` is the field before the op: the map needs its size.
    """

    in_memory: ClassVar[bool] = True
    from_memory: ClassVar[tuple[str, ...]] = ("src",)
    from_sizes: ClassVar[tuple[str, ...]] = ("frame",)
    decision: Decision
    kind: str
    src: int
    dst: int
    frame: int
    site: Site

    @property
    def forward(self) -> Callable[..., Any]:
        """The op's map of points."""
        return forward_of(type(self.decision.op))

    @property
    def turner(self) -> Turner:
        """The change of the components under the map."""
        return TURNERS[self.kind]


KernelStep = ApplyStep | FoldStep
"""Steps that run a kernel of images, masks or arrays."""
OpStep = KernelStep | ItemsStep
"""Steps that make a value from others by a decision of an op."""


@dataclass(frozen=True)
class ConvertStep(Maker):
    """Copy `src` to `dst` with the dtype and rank of `dst`."""

    in_memory: ClassVar[bool] = True
    from_memory: ClassVar[tuple[str, ...]] = ("src",)
    src: int
    dst: int


@dataclass(frozen=True)
class ConstStep(Maker):
    """Set a scalar to a constant."""

    dst: int
    value: bool | int | float


@dataclass(frozen=True)
class ContextStep(Maker):
    """Set a scalar to a fact about the row: "id", "epoch", "view", "step" or "progress"."""

    dst: int
    name: str


@dataclass(frozen=True)
class ExprStep(Maker):
    """Compute a scalar; `types` are bool, int64 or float64, one for each argument."""

    dst: int
    op: str
    args: tuple[int, ...]
    types: tuple[str, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        """The arguments, unless only their size is used."""
        return () if self.op in SIZES else self.args

    @property
    def looks_at(self) -> tuple[int, ...]:
        """The argument whose size is used."""
        return self.args if self.op in SIZES else ()


@dataclass(frozen=True)
class RecordStep(Maker):
    """Read a field of a decision's record into a scalar of type `type_`."""

    dst: int
    decision: Decision
    name: str
    type_: str


@dataclass(frozen=True)
class ElementStep(Maker):
    """Read an element of `src` into a scalar; negative indices count from the end.

    `indices` are scalars of type int64, one for each side of `src`. `check` is the status for an
    index that is out of bounds.
    """

    from_memory: ClassVar[tuple[str, ...]] = ("src", "indices")
    dst: int
    src: int
    indices: tuple[int, ...]
    check: int


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
    from_memory: ClassVar[tuple[str, ...]] = ("args",)
    dst: int
    op: str
    args: tuple[int, ...]
    compute: str
    check: int | None
    fits: tuple[int, int] | None


@dataclass(frozen=True)
class Join:
    """Value `dst` is `then` or `orelse`, depending on the block that ran; nothing is copied."""

    dst: int
    then: int
    orelse: int


@dataclass(frozen=True)
class IfStep(Step):
    """Run one block. `cond` is a scalar; it is true if it is not 0."""

    cond: int
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]
    joins: tuple[Join, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        """The condition, and the values that are joined."""
        return (self.cond, *(side for join in self.joins for side in (join.then, join.orelse)))

    @property
    def writes(self) -> tuple[int, ...]:
        """The joined values."""
        return tuple(join.dst for join in self.joins)

    @property
    def blocks(self) -> tuple[tuple[Step, ...], ...]:
        """Both blocks."""
        return (self.then, self.orelse)


@dataclass(frozen=True)
class StoreStep(Step):
    """Copy a value into an output's row."""

    from_memory: ClassVar[tuple[str, ...]] = ("src",)
    output: int
    src: int


@dataclass(frozen=True)
class StoreSizedStep(Step):
    """Copy a value whose size differs from row to row into an output's row, followed by its size.

    `check` is the status for a value that is longer than the rows of this batch, which is possible
    only for a padded output.
    """

    from_memory: ClassVar[tuple[str, ...]] = ("src",)
    output: int
    src: int
    form: Form
    varies: tuple[int, ...]
    check: int


class Branch(NamedTuple):
    """A block of an `if`.

    Attributes:
        choice: identity of the `IfStep`.
        side: 0 for `then`, 1 for `orelse`.
        cond: the value that decides.
    """

    choice: int
    side: int
    cond: int


Path = tuple[Branch, ...]
"""The blocks around a step, outermost first."""


class Walked(NamedTuple):
    """A step and the blocks that it is in."""

    step: Step
    path: Path


def walk(steps: Sequence[Step], path: Path = (), *, outer_first: bool = False) -> Iterator[Walked]:
    """Yield every step, those of blocks before the step that holds the blocks, or after it."""
    for step in steps:
        if outer_first:
            yield Walked(step, path)
        if isinstance(step, IfStep):
            for side, block in enumerate(step.blocks):
                inside = (*path, Branch(id(step), side, step.cond))
                yield from walk(block, inside, outer_first=outer_first)
        if not outer_first:
            yield Walked(step, path)
