"""Draw records in a batch: what every decision of the pipeline drew for each row, on request.

They lie in one more output of the slot, `params`, (rows, bytes) uint8: for each decision one byte
that says whether it was made (1; 0 in a branch that was not taken), then its record, packed, values
little-endian; in a decision that was not made all bytes are 0. What lies where is told when the
stream is opened, as a list of `Drawn`. They have no part in the StreamSpec: pixels and stream id
are the same with and without them; they are a part of the slot's layout.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from stoker.protocol.errors import ProtocolError, UsageError
from stoker.protocol.items import DTYPES
from stoker.protocol.layout import Output

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
    """A field of a record; `offset` counts from the begin of the row."""

    name: Name
    dtype: Annotated[str, msgspec.Meta(max_length=16)]
    shape: Sides
    offset: Offset

    @property
    def end(self) -> int:
        """First byte of the row behind the field."""
        return self.offset + DTYPES[self.dtype] * math.prod(self.shape)


class Drawn(msgspec.Struct, frozen=True, array_like=True):
    """A decision: its name, the byte that says whether it was made, and the fields of its record.

    The name is that of its stream; where several decisions draw from one stream, the second is
    called `name#2`, and so on.
    """

    name: Name
    op: Name
    made: Offset
    fields: Annotated[tuple[DrawnField, ...], msgspec.Meta(max_length=MAX_FIELDS)]


_AllDrawn = Annotated[list[Drawn], msgspec.Meta(max_length=MAX_DRAWN)]


def params_output(row_bytes: int) -> tuple[Output, ...]:
    """Return the output that holds the records, none if there is nothing to hold."""
    return (Output(PARAMS, "uint8", (row_bytes,), PARAMS),) if row_bytes else ()


def check_sendable(drawn: Sequence[Drawn], row_bytes: int) -> None:
    """Check that records can be told of and read.

    Raises:
        UsageError: they are too many or too large, or an op's record holds what no batch can.
    """
    try:
        msgspec.convert(msgspec.to_builtins(list(drawn)), _AllDrawn)
        check_drawn(drawn, row_bytes)
    except (msgspec.ValidationError, ProtocolError) as error:
        raise UsageError(
            f"params=True: the draw records of this pipeline do not fit a batch: {error}; leave "
            "params out, and replay the samples that matter"
        ) from None


def check_drawn(drawn: Sequence[Drawn], row_bytes: int) -> None:
    """Check that every record lies in the row.

    Raises:
        ProtocolError: one does not, has an unknown dtype, or a name comes twice.
    """
    names = [one.name for one in drawn]
    if len(set(names)) != len(names):
        raise ProtocolError(f"params: a decision is named twice: {names}")
    for one in drawn:
        unknown = [field.dtype for field in one.fields if field.dtype not in DTYPES]
        if unknown:
            raise ProtocolError(f"params: {one.name}: unknown dtype {unknown[0]!r}")
        fields = [field.name for field in one.fields]
        if len({*fields, MADE}) != len(fields) + 1:
            raise ProtocolError(f"params: {one.name}: a field is named twice: {fields}")
        end = max([one.made + 1, *(field.end for field in one.fields)])
        if end > row_bytes:
            raise ProtocolError(
                f"params: {one.name} ends at byte {end} of a row of {row_bytes} bytes"
            )
