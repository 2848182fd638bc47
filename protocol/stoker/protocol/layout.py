"""Layout v1: where each output of a batch lies in a slot.

A slot holds the outputs of one batch one after the other, each contiguous in row-major order and
aligned to `ALIGN` bytes, then three columns about the rows: `index` (the id delivered), `requested`
(the id ordered) and `valid`. No control state lies in a slot. A slot's size is rounded up to
`PAGE` bytes, so slots can be mapped and registered one by one. A row's place is fixed by its number
alone: `offset + row * row_bytes`. A ragged output is two outputs, see `stoker.protocol.ragged`.
"""

import math
from collections.abc import Iterable
from typing import Annotated

import msgspec

from stoker.protocol.errors import UsageError
from stoker.protocol.items import COUNT, DTYPES, WORD, ItemField, ItemFields, item_words

ALIGN = 64
PAGE = 4096
MAX_OUTPUTS = 256
META = (("index", "int64"), ("requested", "int64"), ("valid", "bool"))

Name = Annotated[str, msgspec.Meta(max_length=256)]
Word = Annotated[str, msgspec.Meta(max_length=16)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**48)]
Shape = Annotated[
    tuple[Annotated[int, msgspec.Meta(ge=0, le=2**48)], ...], msgspec.Meta(max_length=16)
]


class Output(msgspec.Struct, frozen=True, array_like=True):
    """One named output of a pipeline: dtype and the shape of one row.

    `items` are the fields of an item where the output is ragged; then the shape is (bound, words).
    """

    name: Name
    dtype: Word
    shape: Shape
    kind: Word = "array"
    items: ItemFields = ()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return DTYPES[self.dtype] * math.prod(self.shape)


class Placed(msgspec.Struct, frozen=True, array_like=True):
    """An output placed in a slot: shape is that of the whole batch, offset counts from the slot."""

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


def check_outputs(outputs: tuple[Output, ...]) -> None:
    """Check names, dtypes and shapes.

    Raises:
        UsageError: an output is named twice, has a reserved name, an unknown dtype or an empty
            shape.
    """
    seen = {name for name, _ in META}
    if len(outputs) > MAX_OUTPUTS:
        raise UsageError(f"a batch has at most {MAX_OUTPUTS} outputs, got {len(outputs)}")
    for output in outputs:
        if output.name in seen:
            raise UsageError(
                f"output {output.name!r}: the name is taken or reserved; choose another"
            )
        if output.dtype not in DTYPES:
            raise UsageError(
                f"output {output.name!r}: dtype {output.dtype!r} is none of {', '.join(DTYPES)}"
            )
        if any(side < 1 for side in output.shape):
            raise UsageError(
                f"output {output.name!r}: every side of a shape is at least 1, got {output.shape}"
            )
        seen.add(output.name)
    for output in outputs:
        if output.items:
            _check_ragged(output, seen)


def ragged_outputs(outputs: Iterable[Output]) -> dict[str, tuple[ItemField, ...]]:
    """Return the ragged ones among outputs: name -> fields of an item."""
    return {output.name: output.items for output in outputs if output.items}


def _check_ragged(output: Output, names: set[str]) -> None:
    """Check that an output's shape is that of its items, and that its parts' names are free."""
    fields = [field.name for field in output.items]
    known = all(field.dtype in DTYPES for field in output.items)
    if not known or output.dtype != WORD or output.shape[1:] != (item_words(output.items),):
        raise UsageError(
            f"output {output.name!r}: items of {[msgspec.to_builtins(f) for f in output.items]} do "
            f"not lie in {output.dtype} {output.shape}"
        )
    others = {name for name in names if name.startswith(f"{output.name}.")}
    if others != {f"{output.name}.{COUNT}"} or len(set(fields)) != len(fields):
        raise UsageError(
            f"output {output.name!r}: it is delivered as {output.name}.offsets and so on, so no "
            f"other output may be named like that; got {', '.join(sorted(others)) or 'none'}"
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


def _up(value: int, to: int) -> int:
    return -(-value // to) * to
