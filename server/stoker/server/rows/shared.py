"""Decoded samples that the streams of a fork read one after the other.

Runs in a worker, on its one thread. The chunks of a fork's members that have the same rows come one
right behind the other. The first that reads a field decodes it whole, and the others find it. A
row is a function of the image, and every part of a whole image has the pixels of that part decoded
by itself (`Dataset.decode_box`), so no byte depends on who decoded it, how much, and when.

A field that cannot be decoded whole is not kept: each stream reads the part that it needs, which
may be good. Memory is taken in turn and is free again with the next rows. A field that does not
fit is decoded by each stream for itself.
"""

import math
from collections.abc import Collection

import numpy as np

from stoker.dataset import Dataset, Field
from stoker.dataset.reading.pixel_memory import pixel_bytes
from stoker.protocol.errors import SampleError
from stoker.protocol.slot_layout import ALIGN
from stoker.server.rows.listener import RowListener
from stoker.server.rows.scratch import decoded_bytes
from stoker.server.work.work_records import OpenStream, Work

Rows = tuple[int, int, int]
"""(epoch, step, first row of the global batch)."""


class SharedSamples:
    """Fields of samples of the rows that are computed now, decoded whole.

    Attributes:
        decodes: number of fields that were decoded for all.
        found: number of times that one was found.
    """

    def __init__(self, size_bytes: int) -> None:
        self._memory = np.empty(size_bytes, np.uint8)
        self._kept: dict[tuple[Dataset, str, int], np.ndarray | None] = {}
        self._used = 0
        self._rows: Rows | None = None
        self._keeps = False
        self.decodes = 0
        self.found = 0

    def grow(self, size_bytes: int) -> None:
        """Have memory of at least that size."""
        if size_bytes > len(self._memory):
            self._memory = np.empty(size_bytes, np.uint8)
            self._rows = None

    def enter(self, rows: Rows, behind: int) -> None:
        """Begin with rows, which `behind` further streams will read right behind this one."""
        if rows != self._rows:
            self._rows, self._used = rows, 0
            self._kept.clear()
        self._keeps = behind > 0

    def read(
        self, dataset: Dataset, field: Field, sample_id: int, listener: RowListener
    ) -> np.ndarray | None:
        """Return a whole decoded field, which is valid until `enter`.

        Returns:
            None if it is not there, and no later row reads it, there is no room, or it is damaged.
        """
        sample = field.name, sample_id
        key = dataset, *sample
        if key in self._kept or not self._keeps:
            pixels = self._kept.get(key)
            self.found += pixels is not None
            return pixels
        room, (height, width) = self._memory[self._used :], dataset.size(*sample)
        if height * width * pixel_bytes(field) > len(room):
            return None
        try:
            if dataset.grid(*sample) is not None:
                dataset.check_grid(*sample)  # a lone stream reads by the grid
            listener.decode_begins()
            pixels = dataset.decode(*sample, room, compiled=True)
        except SampleError:
            pixels = None
        else:
            self.decodes += 1
            self._used += -(-pixels.nbytes // ALIGN) * ALIGN
        self._kept[key] = pixels
        return pixels


class WorkerForks:
    """The forks that a worker has streams of."""

    def __init__(self) -> None:
        self._samples: dict[int, SharedSamples] = {}
        self._of_stream: dict[int, int] = {}

    def open(self, record: OpenStream) -> SharedSamples | None:
        """Return what a stream shares with others; None if it belongs to no fork."""
        if not record.fork:
            return None
        shared = self._samples.setdefault(record.fork, SharedSamples(0))
        shared.grow(record.fork_bytes)
        self._of_stream[record.stream] = record.fork
        return shared

    def close(self, stream: int) -> None:
        """Forget a stream; the memory of a fork goes with its last one."""
        fork = self._of_stream.pop(stream, 0)
        if fork and fork not in self._of_stream.values():
            del self._samples[fork]

    def enter(self, work: Work) -> None:
        """Begin with a chunk."""
        fork = self._of_stream.get(work.stream, 0)
        if fork:
            self._samples[fork].enter((work.epoch, work.step, work.row_lo), work.behind)


def shared_bytes(dataset: Dataset, names: Collection[str], samples: int = 1) -> tuple[int, int]:
    """Return the bytes that a row's decoded fields take among shared samples: at most, and usually.

    Args:
        dataset: what is read.
        names: the fields that are read.
        samples: how many samples a row reads.
    """
    seen, sizes = dataset.manifest.statistics.fields, decoded_bytes(dataset, names)
    most = usual = 0
    for field in dataset.schema.fields:
        if field.name not in sizes:
            continue
        found, size_bytes = seen.get(field.name), sizes[field.name]
        most += size_bytes + ALIGN
        if found is not None and found.height is not None and found.width is not None:
            size_bytes = math.ceil(found.height[2] * found.width[2]) * pixel_bytes(field)
        usual += size_bytes + ALIGN
    return most * samples, usual * samples
