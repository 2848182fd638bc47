"""Layout v1: where each output of a batch is in a slot.

A slot holds the outputs of one batch one after the other, each contiguous in row-major order and
aligned to `ALIGN` bytes, then three columns about the rows: `index` (the id delivered), `requested`
(the id ordered) and `valid`. A slot holds no control state. Its size is rounded up to `PAGE` bytes,
so slots can be mapped and registered one by one. A row's place depends on its number alone:
`offset + row * row_bytes`. A ragged output is two outputs, see `stoker.protocol.ragged`.

If rows differ in shape, an output's shape is the greatest that a row may have, and the slot has
room for that. Its **form** says how such rows make a batch, see `stoker.protocol.output_forms`. An
output that is packed more tightly (all rows of one batch in one shape, which READY carries) begins
at the same offset, so an output never moves.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import COUNT, DTYPES, WORD, ItemField, ItemFields, item_words

ALIGN = 64
PAGE = 4096
MAX_OUTPUTS = 256
MAX_NAME: Final = 256
"""Characters of the name of an output."""
META = (("index", "int64"), ("requested", "int64"), ("valid", "bool"))
RESERVED: Final = frozenset(
    {
        *("index", "requested", "valid"),
        *("chain", "digest", "epoch", "params", "pipeline_id", "step", "stream_id"),
        *("get", "items", "keys", "real", "to", "values"),
    }
)
"""Names that a client's batch has itself: `batch.NAME` could not be an output of that name."""
FORMS: Final = ("stack", "pad", "ragged", "list")
"""Forms in which rows make a batch; see `stoker.protocol.output_forms`."""
SIZE: Final = "size"

Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
Word = Annotated[str, msgspec.Meta(max_length=16)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**48)]
Shape = Annotated[
    tuple[Annotated[int, msgspec.Meta(ge=0, le=2**48)], ...], msgspec.Meta(max_length=16)
]


Sides = Annotated[
    tuple[Annotated[int, msgspec.Meta(ge=0, le=15)], ...], msgspec.Meta(max_length=16)
]


class Output(msgspec.Struct, frozen=True, array_like=True):
    """One named output of a pipeline: its dtype and the shape of a row, or of the greatest row.

    `items` are the fields of boxes and keypoints; the shape is then (bound, words). `varies` lists,
    ascending, the places in the shape of those sides that may be shorter in some rows; `form` says
    how such rows make a batch.
    """

    name: Name
    dtype: Word
    shape: Shape
    kind: Word = "array"
    items: ItemFields = ()
    form: Word = "stack"
    varies: Sides = ()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, or of the greatest possible row."""
        return DTYPES[self.dtype] * math.prod(self.shape)

    def allows(self, shape: Sequence[int]) -> bool:
        """Return whether all rows of a batch may have that shape."""
        free = self.varies if self.is_told else ()
        return len(shape) == len(self.shape) and all(
            0 < side <= most if place in free else side == most
            for place, (side, most) in enumerate(zip(shape, self.shape, strict=True))
        )

    def takes(self, shape: Sequence[int]) -> bool:
        """Return whether a row may be written into an array of that shape.

        Padded rows take more room than the greatest needs: that of longer rows of other pipelines.
        """
        if self.form != "pad" or len(shape) != len(self.shape):
            return self.allows(shape)
        return all(
            side > 0 if place in self.varies else side == most
            for place, (side, most) in enumerate(zip(shape, self.shape, strict=True))
        )

    def has_room(self, shape: Sequence[int]) -> bool:
        """Return whether the rows of a batch may have that much room in its slot.

        With buckets, a row of a ragged output or list has only the room that its own bucket needs.
        """
        if self.form not in ("ragged", "list"):
            return self.allows(shape)
        return msgspec.structs.replace(self, form="pad").allows(shape)

    @property
    def has_sizes(self) -> bool:
        """True if the output `<name>.size` holds the lengths of each row's varying sides."""
        return self.form != "stack"

    @property
    def is_told(self) -> bool:
        """True if all rows of a batch have one shape, which READY carries."""
        return bool(self.varies) and self.form in ("stack", "pad")


class Placed(msgspec.Struct, frozen=True, array_like=True):
    """An output in a slot: the shape is the whole batch's, the offset counts from the slot."""

    name: Name
    dtype: Word
    shape: Shape
    offset: Offset

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch's output."""
        return DTYPES[self.dtype] * math.prod(self.shape)


class SlotLayout(msgspec.Struct, frozen=True, array_like=True):
    """All outputs of a batch of `rows` rows, and the size of the slot that holds them."""

    rows: int
    outputs: tuple[Placed, ...]
    slot_bytes: int


def reserved(name: str) -> str:
    """Return why no output of a pipeline may have a name, and the remedy; empty if it may."""
    if name in RESERVED:
        return (
            f"the output name {name!r} is reserved, because batch.{name} is the batch's own; "
            f"choose another, such as 'sample_{name}'"
        )
    if name.startswith("_"):
        other = name.strip("_") or "value"
        return (
            f"the output name {name!r} is reserved, because a batch keeps names that begin with an "
            f"underscore for itself; choose another, such as {other!r}"
        )
    return ""


def check_outputs(outputs: tuple[Output, ...]) -> None:
    """Check names, dtypes and shapes.

    Raises:
        UsageError: an output is named twice, has a reserved name, an unknown dtype, or a side of
            length 0.
    """
    seen = {name for name, _ in META}
    if len(outputs) > MAX_OUTPUTS:
        raise UsageError(f"a batch has at most {MAX_OUTPUTS} outputs, got {len(outputs)}")
    for output in outputs:
        if output.name in seen:
            raise UsageError(
                f"output {output.name!r}: the name is reserved or used twice; choose another"
            )
        if output.dtype not in DTYPES:
            raise UsageError(
                f"output {output.name!r}: expected a dtype among {', '.join(DTYPES)}, got "
                f"{output.dtype!r}"
            )
        if any(side < 1 for side in output.shape):
            raise UsageError(
                f"output {output.name!r}: expected a shape with sides of at least 1, got "
                f"{output.shape}"
            )
        seen.add(output.name)
    for output in outputs:
        if output.items:
            _check_ragged(output, seen)
        if output.form != "stack" or output.varies:
            _check_form(output, outputs)


def ragged_outputs(outputs: Iterable[Output]) -> dict[str, tuple[ItemField, ...]]:
    """Return the ragged outputs: name -> fields of an item."""
    return {output.name: output.items for output in outputs if output.items}


def _check_ragged(output: Output, names: set[str]) -> None:
    """Check that an output's shape fits its items, and that the names of its parts are free."""
    fields = [field.name for field in output.items]
    known = all(field.dtype in DTYPES for field in output.items)
    if not known or output.dtype != WORD or output.shape[1:] != (item_words(output.items),):
        raise UsageError(
            f"output {output.name!r}: items of {[msgspec.to_builtins(f) for f in output.items]} do "
            f"not fit {output.dtype} {output.shape}"
        )
    others = {name for name in names if name.startswith(f"{output.name}.")}
    if others != {f"{output.name}.{COUNT}"} or len(set(fields)) != len(fields):
        raise UsageError(
            f"output {output.name!r}: it is delivered as {output.name}.offsets and so on, so no "
            f"other output may be named like that; got {', '.join(sorted(others)) or 'none'}"
        )


def _check_form(output: Output, outputs: tuple[Output, ...]) -> None:
    """Check that an output's form is possible, and that the output with its sizes exists."""
    ascending = sorted(set(output.varies))
    good = (
        output.form in FORMS
        and not output.items
        and list(output.varies) == ascending
        and ascending[-1:] < [len(output.shape)]
        and bool(output.varies)
        and (output.form != "ragged" or ascending == list(range(len(ascending))))
    )
    if not good:
        raise UsageError(
            f"output {output.name!r}: form {output.form!r} with varying sides {output.varies} of "
            f"{output.shape}: expected a form among {', '.join(FORMS)} and the places of its "
            "sides, ascending; for a ragged output the first ones"
        )
    if not output.has_sizes:
        return
    sizes = Output(f"{output.name}.{SIZE}", "int64", (len(output.varies),), SIZE)
    others = [other for other in outputs if other.name.startswith(f"{output.name}.")]
    if sizes not in others or (output.form != "pad" and len(others) > 1):
        raise UsageError(
            f"output {output.name!r}: its sizes are delivered as {sizes.name} and its rows as "
            f"{output.name}.0 and so on, so no other output may be named like that; got "
            f"{', '.join(other.name for other in others) or 'none'}"
        )


def slot_layout(outputs: tuple[Output, ...], rows: int) -> SlotLayout:
    """Place the outputs of a batch of `rows` rows, then the columns about the rows."""
    placed, end = [], 0
    columns = [*outputs, *(Output(name, dtype, ()) for name, dtype in META)]
    for output in columns:
        offset = _up(end, ALIGN)
        placed.append(Placed(output.name, output.dtype, (rows, *output.shape), offset))
        end = offset + placed[-1].size_bytes
    return SlotLayout(rows, tuple(placed), _up(max(end, 1), PAGE))


def batch_layout(layout: SlotLayout, shapes: Mapping[str, Sequence[int]]) -> SlotLayout:
    """Return the layout of one batch, in which some outputs have a shape of their own.

    Args:
        layout: the layout of the slot.
        shapes: name of an output -> shape of each of its rows in this batch.

    Raises:
        UsageError: a shape does not fit the slot: another number of sides, or a longer side.
    """
    if not shapes:
        return layout
    placed = tuple(
        msgspec.structs.replace(output, shape=(layout.rows, *_within(output, shapes[output.name])))
        if output.name in shapes
        else output
        for output in layout.outputs
    )
    return SlotLayout(layout.rows, placed, layout.slot_bytes)


def _within(placed: Placed, shape: Sequence[int]) -> Sequence[int]:
    room = placed.shape[1:]
    fits = len(shape) == len(room) and all(
        0 <= side <= most for side, most in zip(shape, room, strict=True)
    )
    if not fits:
        raise UsageError(
            f"output {placed.name!r}: expected rows of at most {room} in a slot, got {tuple(shape)}"
        )
    return shape


def told_shapes(
    outputs: Iterable[Output], shapes: Sequence[Sequence[int]]
) -> dict[str, Sequence[int]]:
    """Return the shapes of rows by name; READY has them in the order of `is_told` outputs.

    Raises:
        UsageError: there are more or fewer shapes than such outputs.
    """
    names = [output.name for output in outputs if output.is_told]
    if len(names) != len(shapes):
        raise UsageError(
            f"expected one shape for each of the outputs {names}, got {len(shapes)} shapes"
        )
    return dict(zip(names, shapes, strict=True))


def _up(value: int, to: int) -> int:
    return -(-value // to) * to
