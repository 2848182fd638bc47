"""Memory for samples that the row fillers of one thread share: rows are computed one by one.

No pixel-sized memory is allocated after the first row: encoded fields are decoded into buffers of
their bound.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from stoker.dataset import Dataset
from stoker.pipeline.planning.decoded_boxes import Box
from stoker.pipeline.planning.scaled_fields import stored_field, stored_fields
from stoker.server.rows.ahead import ReadAhead

ENCODED = ("jpeg", "png", "encoded", "bands", "planes")


def decoded_bytes(dataset: Dataset, names: Collection[str]) -> dict[str, int]:
    """Return the bytes that decoding needs by field, for those of the names that need any."""
    return {
        field.name: field.bound_bytes
        for field in dataset.schema.fields
        if field.name in names and field.encoding in ENCODED
    }


class Decoded(NamedTuple):
    """The decoded part of an input: dataset, sample, box, and by how much the image is reduced.

    A box of None is all of it.
    """

    dataset: Dataset
    sample_id: int
    box: Box | None
    divisor: int
    pixels: Any


class Scratch:
    """Buffers for one thread.

    Attributes:
        buffers: input -> flat uint8 memory of the bound of its pixels, for those that are decoded.
        decoded: input -> what was decoded last.
        ahead: reads ahead; None until a filler of a worker asks for it.
    """

    def __init__(self) -> None:
        self.buffers: dict[str, np.ndarray] = {}
        self.decoded: dict[str, Decoded] = {}
        self.ahead: ReadAhead | None = None

    def reserve(self, dataset: Dataset, names: tuple[str, ...]) -> frozenset[str]:
        """Make room for each of the named inputs that is decoded; return the fields that are."""
        sizes = decoded_bytes(dataset, stored_fields(names))
        for name in names:
            size_bytes = sizes.get(stored_field(name), 0)
            if size_bytes and len(self.buffers.get(name, b"")) < size_bytes:
                self.buffers[name] = np.empty(size_bytes, np.uint8)
        return frozenset(sizes)

    def read_ahead(self, dataset: Dataset, names: tuple[str, ...]) -> ReadAhead:
        """Return what reads ahead, made at the first call."""
        if self.ahead is None:
            self.ahead = ReadAhead(dataset, names)
        return self.ahead
