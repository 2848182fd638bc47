"""Draw records in a batch: the parameters that each decision drew for each row, on request.

They are one more output of the slot, `params`, (rows, bytes) uint8. For each decision it holds one
byte that says whether the decision was made (1, or 0 in a branch that was not taken), then its
record: packed, values little-endian. In a decision that was not made all bytes are 0. OPENED
carries the places of all records as a list of `Drawn`. They are not part of the StreamSpec: pixels
and stream id are the same with and without them. They are part of the slot's layout.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import ProtocolError, UsageError
from stoker.protocol.item_fields import DTYPES
from stoker.protocol.slot_layout import Output

PARAMS: Final = "params"
"""Name of the output."""
MADE: Final = "made"
MAX_DRAWN: Final = 2048
MAX_FIELDS: Final = 64
MAX_ROW_BYTES: Final = 2**20

Name = Annotated[str, msgspec.Meta(max_length=272)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=MAX_ROW_BYTES)]
Sides = Annotated[
    tuple[Annotated[int, msgspec.Meta(ge=1, le=MAX_ROW_BYTES)], ...], msgspec.Meta(max_length=4)
]


class DrawnField(msgspec.Struct, frozen=True, array_like=True):
    """A field of a record; `offset` counts from the start of the row."""

    name: Name
    dtype: Annotated[str, msgspec.Meta(max_length=16)]
    shape: Sides
    offset: Offset

    @property
    def end(self) -> int:
        """Offset in the row of the first byte after the field."""
        return self.offset + DTYPES[self.dtype] * math.prod(self.shape)


class Drawn(msgspec.Struct, frozen=True, array_like=True):
    """A decision: its name, the byte that says whether it was made, and the fields of its record.

    The name is that of its stream; where several decisions draw from one stream, the second is
    named `name#2`, and so on.
    """

    name: Name
    op: Name
    made: Offset
    fields: Annotated[tuple[DrawnField, ...], msgspec.Meta(max_length=MAX_FIELDS)]


_AllDrawn = Annotated[list[Drawn], msgspec.Meta(max_length=MAX_DRAWN)]


def params_output(row_bytes: int) -> tuple[Output, ...]:
    """Return the output for the records; empty if there are no records."""
    return (Output(PARAMS, "uint8", (row_bytes,), PARAMS),) if row_bytes else ()


def check_sendable(drawn: Sequence[Drawn], row_bytes: int) -> None:
    """Check that OPENED can describe the records and that a client can read them.

    Raises:
        UsageError: there are too many, they are too large, or a record has a type that no batch
            holds.
    """
    try:
        msgspec.convert(msgspec.to_builtins(list(drawn)), analyzed(_AllDrawn))
        check_drawn(drawn, row_bytes)
    except (msgspec.ValidationError, ProtocolError) as error:
        raise UsageError(
            f"params=True: the draw records of this pipeline do not fit a batch: {error}; leave "
            "params out, and replay the samples that matter"
        ) from None


def check_drawn(drawn: Sequence[Drawn], row_bytes: int) -> None:
    """Check that every record fits in the row.

    Raises:
        ProtocolError: a record does not fit, has an unknown dtype, or a name occurs twice.
    """
    names = [one.name for one in drawn]
    if len(set(names)) != len(names):
        raise ProtocolError(f"params: expected distinct decision names, got {names}")
    for one in drawn:
        unknown = [field.dtype for field in one.fields if field.dtype not in DTYPES]
        if unknown:
            raise ProtocolError(
                f"params: {one.name}: expected a dtype among {', '.join(DTYPES)}, got "
                f"{unknown[0]!r}"
            )
        fields = [field.name for field in one.fields]
        if len({*fields, MADE}) != len(fields) + 1:
            raise ProtocolError(f"params: {one.name}: expected distinct field names, got {fields}")
        end = max([one.made + 1, *(field.end for field in one.fields)])
        if end > row_bytes:
            raise ProtocolError(
                f"params: {one.name} ends at byte {end}, but a row has only {row_bytes} bytes"
            )
