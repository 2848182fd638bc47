"""The nodes of a graph v1, and their bounds; see `stoker.pipeline.graph.graph`.

Frozen records that are read and written as plain data; the tag `node` gives the type. Types
and lengths are checked while reading. Specified in docs/contracts/graph.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

MAX_NODES: Final = 2048
MAX_TRACED: Final = 32 * MAX_NODES
"""Values that one run of a pipeline function may make; unneeded ones are removed later."""
MAX_DEPTH: Final = 16
MAX_PARAMS_BYTES: Final = 65536
MAX_OUTPUTS: Final = 256
MAX_ARGS: Final = 64
MAX_MULTIPLE: Final = 65536
MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1

MAX_NAME: Final = 256

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
Number = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Path = Annotated[str, msgspec.Meta(max_length=4096)]
Numbers = Annotated[tuple[Number, ...], msgspec.Meta(max_length=MAX_ARGS)]
Nodes = Annotated[tuple["Node", ...], msgspec.Meta(max_length=MAX_NODES)]

STATISTICS: Final = ("mean", "max", "min", "sum", "any", "all")
UNARY: Final = ("neg", "not", "height", "width", "count", "side", *STATISTICS, "record")
BINARY: Final = (
    "add", "sub", "mul", "div", "floordiv", "mod", "lt", "le", "gt", "ge", "eq", "ne", "and", "or",
)  # fmt: skip
ELEMENT: Final = "element"
"""The expression that takes a value and an index for each of its sides."""
EXPRESSIONS: Final = (*UNARY, *BINARY, ELEMENT)


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="node"):
    @property
    def width(self) -> int:
        """The number of values that the node defines."""
        return 1


class Input(_Struct, frozen=True, tag="input"):
    """A field of the sample; defines one value. Top level only."""

    field: Name


class Fact(_Struct, frozen=True, tag="context"):
    """A fact about the row; defines one value. Top level only.

    `id`, `epoch`, `view` and `step` are int64, `progress` is the float64 in [0, 1] that says how
    much of the training is over. `bucket_height` and `bucket_width` are the int64 sides in pixels
    of the sample's bucket, `bucket_length` is the length of a bucket of sequences, int64.
    """

    name: Literal[
        "epoch", "view", "step", "progress", "id", "bucket_height", "bucket_width", "bucket_length"
    ]


class Const(_Struct, frozen=True, tag="const"):
    """A constant: bool, int64 or float64; defines one value."""

    value: bool | int | float


class ClassNumber(_Struct, frozen=True, tag="class"):
    """The number of a class of a label field, int64, by its name; defines one value.

    Binding looks it up in the dataset.
    """

    field: Name
    name: Name


ArgIndex = Annotated[int, msgspec.Meta(ge=0, lt=MAX_ARGS)]
Varying = tuple[Name, ArgIndex | None, Number]
"""A parameter's name, its index if the parameter is a list, and the value to put there."""


class Draw(_Struct, frozen=True, tag="draw", omit_defaults=True):
    """One decision of an op.

    Attributes:
        op: registered name of the op.
        version: version of the op that the graph was made for.
        params: constructor parameters, plain data.
        stream: stream name that it draws from; None for an op that draws nothing.
        of: values that the decision reads; the first gives height and width. May be empty.
        varies: parameters that are null in `params`: schedules, which are computed from constants
            and the context's epoch, step and progress, and values of the row.
        shared: whether all views of a position share the decision: the key's view is 0.
    """

    op: Name
    version: Annotated[int, msgspec.Meta(ge=1)]
    params: dict[str, Any]
    stream: Name | None
    of: Numbers
    varies: Annotated[tuple[Varying, ...], msgspec.Meta(max_length=MAX_ARGS)] = ()
    shared: bool = False


class Apply(_Struct, frozen=True, tag="apply", omit_defaults=True):
    """A decision applied to values; defines `results` values: one for each of `to`, or one of all.

    Folds make one of several (`op.FoldKernel`). `relative` says that the values may differ in size
    from the one that the decision was made for; the decision is scaled in proportion to the sides.
    """

    draw: Number
    to: Numbers
    results: Annotated[int, msgspec.Meta(ge=1, le=MAX_ARGS)]
    relative: bool = False

    def made_of(self, index: int) -> tuple[int, ...]:
        """Return the values that result `index` is computed from."""
        return self.to if self.results == 1 else (self.to[index],)

    @property
    def width(self) -> int:
        """The number of values that the node defines."""
        return self.results


class Expr(_Struct, frozen=True, tag="expr"):
    """A scalar or array computed from values.

    `height` and `width` take one image or mask, `count` takes boxes or keypoints, `side` any value
    that has sides, `element` an array and an index for each side, `record` a draw, statistics an
    image or array. The others take scalars and arrays.

    Attributes:
        op: one of EXPRESSIONS.
        args: the values.
        name: for `record` the record's field, for `side` the number of the side in decimal digits,
            negative ones counted from the end; else empty.
    """

    op: Name
    args: Numbers
    name: Annotated[str, msgspec.Meta(max_length=256)] = ""


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes of one branch, and the values that it returns."""

    nodes: Nodes
    results: Numbers


class If(_Struct, frozen=True, tag="if"):
    """A choice for each sample: one block runs, the other does not; the results join."""

    cond: Number
    then: Block
    orelse: Block = msgspec.field(name="else")

    @property
    def width(self) -> int:
        """The number of values that the node defines."""
        return len(self.then.results)


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The form of an output whose rows differ in shape; an output without one is stacked.

    Attributes:
        output: name of the output.
        form: pad, ragged or list; see docs/contracts/forms.md.
        multiple: for pad: the sides are rounded up to a multiple of it.
        fill: for pad: the value after the end of a row.
        to: for pad: the "longest" row of the batch, or the "bound", the longest possible row, in
            every batch.
    """

    output: Annotated[str, msgspec.Meta(max_length=256)]
    form: Literal["pad", "ragged", "list"]
    multiple: Annotated[int, msgspec.Meta(ge=1, le=MAX_MULTIPLE)] = 1
    fill: int | float = 0
    to: Literal["longest", "bound"] = "longest"


class Unneeded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that no output needs, or that such a call needs: one op applied once.

    Attributes:
        op: as in `Draw`.
        params: as in `Draw`; None where a parameter follows a schedule.
        of: the arguments: the field of that name, the result of the unneeded call with that
            number, or None for a number.
        file: where the user wrote it.
        line: the line there.
        version: as in `Draw`; None for the current version.
    """

    op: Name
    params: dict[str, Any] | None
    of: Annotated[tuple[Name | Number | None, ...], msgspec.Meta(max_length=MAX_ARGS)]
    file: Path
    line: Number
    version: Number | None = None


Node = Input | Fact | Const | ClassNumber | Draw | Apply | Expr | If


def draws_of(nodes: tuple[Node, ...]) -> Iterator[Draw]:
    """Yield the decisions of nodes, including those in blocks."""
    for node in nodes:
        if isinstance(node, Draw):
            yield node
        elif isinstance(node, If):
            yield from draws_of(node.then.nodes)
            yield from draws_of(node.orelse.nodes)


LOOKS: Final = frozenset({"fill", "interpolation", "mask_fill", "mode"})
"""Parameters of Stoker's ops that change neither draws nor where pixels go."""


def deciding(op: str, params: Mapping[str, Any], result_number: str) -> dict[str, Any]:
    """Return the parameters that two calls must share to make the same decision.

    Args:
        op: name of the op; an op of the user is `module:Class`, and all its parameters count.
        params: the parameters.
        result_number: the one that is only the number of a result; see `Op`.
    """
    left_out = frozenset() if ":" in op else LOOKS | {result_number}
    return {name: value for name, value in params.items() if name not in left_out}
