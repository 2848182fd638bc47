"""The steps of a plan: what an engine does for one row, in order.

Values keep their numbers from the graph's normal form; values that binding adds (conversions) are
numbered after those. Both engines walk these steps: of each the program gets an instruction or two,
the interpreter executes them with NumPy. Plain frozen records; numba-free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.ops.contract.op import FoldKernel, ItemsKernel, Kernel, Op
from stoker.pipeline.graph.nodes import Form
from stoker.pipeline.graph.schedule import Schedule
from stoker.pipeline.graph.sites import Site


@dataclass(frozen=True)
class Decision:
    """One draw: whose record every apply that follows it reads.

    Attributes:
        index: its place among the plan's decisions.
        op: the op with its parameters.
        stream: stream name; None if the op draws nothing.
        of: value whose height and width the draw sees; None: it sees 0 and 0.
        site: where the user wrote it.
        schedule: how its parameters follow the place in the stream; None: they do not. Then `op`
            has the parameters of the first row.
        shared: whether all views of a position decide alike.
        items: value of boxes or keypoints that the draw looks at; None: it looks at none.
        source: the decision that this one is, in parts of the sides of `of`; None: it is drawn.
    """

    index: int
    op: Op
    stream: str | None
    of: int | None
    site: Site
    schedule: Schedule | None = None
    shared: bool = False
    items: int | None = None
    source: Decision | None = None


def source_of(decision: Decision) -> Decision:
    """Return the decision that one which is carried over follows."""
    assert decision.source is not None, "only what is carried over is rescaled"
    return decision.source


def made_for(decision: Decision) -> int:
    """Return the value for whose size a decision is made."""
    assert decision.of is not None, "binding carries over between sizes alone"
    return decision.of


@dataclass(frozen=True)
class InputStep:
    """Take a field from column `column` of the inputs; `check`: status of a size out of bounds."""

    dst: int
    column: int
    check: int


@dataclass(frozen=True)
class DrawStep:
    """Fill the decision's record."""

    decision: Decision


@dataclass(frozen=True)
class RescaleStep(DrawStep):
    """Fill the record of a decision that has a `source`, from the record of that one.

    `check` is the status of values whose sizes have two ratios of sides, where the op takes one.
    """

    check: int


@dataclass(frozen=True)
class SameSizeStep:
    """Refuse the sample unless two values have one height and width. `check` is its status."""

    decision: Decision
    left: int
    right: int
    check: int


@dataclass(frozen=True)
class ApplyStep:
    """Run the kernel of `kind` and `dtype` from `src` to `dst`.

    `check` is the status for a size out of bounds; None where the size is fixed.
    """

    decision: Decision
    kind: str
    src: int
    dst: int
    scratch_bytes: int
    check: int | None
    site: Site
    dtype: str

    @property
    def srcs(self) -> tuple[int, ...]:
        """The one value that is read."""
        return (self.src,)

    @property
    def kernel(self) -> Kernel:
        """The kernel that runs."""
        return self.decision.op.kernel_of(self.kind, self.dtype)


@dataclass(frozen=True)
class FoldStep:
    """Run the fold of `kind` over `srcs` in their order, into `dst`.

    `check` is the status for a size out of bounds; None where the size is fixed.
    """

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


@dataclass(frozen=True)
class ItemsStep:
    """Apply a decision to boxes or keypoints, from `src` to `dst`.

    `frame` is the image or mask whose size they count in; None if the op was called with none.
    `check` is the status for a kernel that returns a count which cannot be.
    """

    decision: Decision
    kind: str
    src: int
    dst: int
    frame: int | None
    check: int
    site: Site

    @property
    def srcs(self) -> tuple[int, ...]:
        """The one value that is read."""
        return (self.src,)

    @property
    def kernel(self) -> ItemsKernel | None:
        """The kernel that runs; None: the op says where points come to lie."""
        return self.decision.op.items.get(self.kind)

    @property
    def forward(self) -> Callable[..., Any]:
        """Where points come to lie, if no kernel runs."""
        forward = type(self.decision.op).forward
        assert forward is not None, "binding refuses a kind without a rule"
        return forward


@dataclass(frozen=True)
class ConvertStep:
    """Copy `src` to `dst` with the dtype and rank of `dst`."""

    src: int
    dst: int


@dataclass(frozen=True)
class ConstStep:
    """Set a scalar to a constant."""

    dst: int
    value: bool | int | float


@dataclass(frozen=True)
class ContextStep:
    """Set a scalar to a fact about the row: "id", "epoch", "view", "step" or "progress"."""

    dst: int
    name: str


@dataclass(frozen=True)
class ExprStep:
    """Compute a scalar; `types` are bool, int64 or float64, one for each argument."""

    dst: int
    op: str
    args: tuple[int, ...]
    types: tuple[str, ...]


@dataclass(frozen=True)
class RecordStep:
    """Read a field of a decision's record into a scalar of type `type_`."""

    dst: int
    decision: Decision
    name: str
    type_: str


@dataclass(frozen=True)
class Join:
    """Value `dst` is `then` or `orelse`, whichever block ran; nothing is copied."""

    dst: int
    then: int
    orelse: int


@dataclass(frozen=True)
class IfStep:
    """Run one block. `cond` is a scalar; it is true if it is not 0."""

    cond: int
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]
    joins: tuple[Join, ...]


@dataclass(frozen=True)
class StoreStep:
    """Copy a value into an output's row."""

    output: int
    src: int


@dataclass(frozen=True)
class StoreSizedStep:
    """Copy a value whose size differs from row to row into an output's row, and its size behind it.

    `check` is the status for a value that is longer than the rows of this batch, which a padded
    output alone can meet.
    """

    output: int
    src: int
    form: Form
    varies: tuple[int, ...]
    check: int


Step = (
    InputStep
    | DrawStep
    | SameSizeStep
    | ApplyStep
    | FoldStep
    | ItemsStep
    | ConvertStep
    | ConstStep
    | ContextStep
    | ExprStep
    | RecordStep
    | IfStep
    | StoreStep
    | StoreSizedStep
)


@dataclass(frozen=True)
class Check:
    """What a status other than 0 means.

    Attributes:
        kind: "input", "same_size", "relative" (the same, where it could be
            given), "ratio", "out_size", "items" or "padded".
        what: text about the values, for the message.
        field: the dataset field, where the fault is that of one field.
        site: where the user wrote the op.
    """

    kind: str
    what: str
    field: str | None
    site: Site


@dataclass(frozen=True)
class Place:
    """Where a value lies.

    Attributes:
        kind: "input" (column `index`), "output" (row of output `index`), "arena" (from byte
        `index`),
            "register" (a scalar), or "join" (wherever the block that ran has it).
        index: see kind.
    """

    kind: str
    index: int = 0
