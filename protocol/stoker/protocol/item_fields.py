"""Items of ragged values: the fields of one box or keypoint, in words of 32 bits.

These records are carried by messages. Code for arrays of items is in `stoker.protocol.ragged`, so
that a process that only passes messages on does not need NumPy. Specified in
docs/contracts/ragged.md.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

DTYPES: Final = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "uint32": 4,
    "int32": 4, "float32": 4, "uint64": 8, "int64": 8, "float64": 8,
}  # fmt: skip
"""Bytes per element of each dtype that a batch may hold, by NumPy name."""
WORD_BYTES: Final = 4
WORD: Final = "uint32"
COUNT: Final = "count"
OFFSETS: Final = "offsets"
COORDINATES: Final = {"boxes": ("xyxy", 4), "keypoints": ("xy", 2)}
"""Kind -> name and number of the float32 coordinates that ops transform, in pixels."""
MAX_FIELDS: Final = 64
MAX_WIDTH: Final = 1024

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Width = Annotated[int, msgspec.Meta(ge=1, le=MAX_WIDTH)]


class ItemField(msgspec.Struct, frozen=True, array_like=True):
    """A part of an item: `width` values of one dtype."""

    name: Name
    dtype: Annotated[str, msgspec.Meta(max_length=16)]
    width: Width = 1

    @property
    def words(self) -> int:
        """Words that the field fills; the bytes after its values are 0."""
        return -(-self.width * DTYPES[self.dtype] // WORD_BYTES)


ItemFields = Annotated[tuple[ItemField, ...], msgspec.Meta(max_length=MAX_FIELDS)]


def item_words(fields: Sequence[ItemField]) -> int:
    """Return the number of words in one item."""
    return sum(field.words for field in fields)
