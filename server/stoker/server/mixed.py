"""Rows of a stream whose pipeline ends in batch ops: each is mixed with rows of its group.

Groups are cut from the rows of the global batch, so a row's partner is the same however ranks and
chunks are cut. What lies outside of a chunk is computed again: chunks of whole groups (the daemon
cuts them so) compute each row once. A partner is what its place delivers: the substitute of a bad
sample, or nothing where the row pads or is masked. A tile of a mosaic is a row of its own: visit 0
of its id in this epoch, the view of the row that it is for; a bad one follows the stream's policy,
with the substitutes of that row's position. With buckets a tile is a sample of the row's bucket.
"""

from collections.abc import Callable, Sequence

import numpy as np

from stoker.ops.batch import GROUP
from stoker.order.stream import StreamOrder
from stoker.pipeline.engine import Row
from stoker.pipeline.mixer import Mixer
from stoker.server.places import Place, RowCounts
from stoker.server.samples import SampleRows

Begun = Callable[[int], None]


class MixedRows:
    """The rows of one step after the other; the `Members` of a mixer."""

    def __init__(self, samples: SampleRows, order: StreamOrder, *, machine: bool = False) -> None:
        """Prepare.

        Args:
            samples: computes rows before batch ops.
            order: of the stream.
            machine: mix by machine code; the bytes are the same.
        """
        self._spec = samples.spec
        self._samples = samples
        self._order = order
        self._mixer = Mixer(samples.engine, machine=machine)
        size = samples.drawn.row_bytes if samples.drawn else 0
        self._records = np.zeros((GROUP + 1, size), np.uint8)
        self._counts: dict[int, RowCounts] = {}
        self._group: list[tuple[int, ...]] = []
        self._first = -1
        self._row = -1

    @property
    def rows(self) -> int:
        """Samples that may be tiles; see `Members`."""
        return self._order.peers(*self._where[:2])

    def enter(
        self, epoch: int, step: int, progress: float | None, begun: Begun | None = None
    ) -> None:
        """Begin with rows of a step.

        Args:
            epoch: from 0.
            step: in the epoch.
            progress: how much of the training is over, where that is known.
            begun: called with each row that is computed for another one.
        """
        self._where = (epoch, step, progress)
        self._size = self._order.positions(epoch, step) * self._spec.views
        self._begun = begun
        self._first = -1

    def write(self, row: int, outputs: Sequence[np.ndarray], counts: RowCounts) -> Row | None:
        """Write a row of the step as it is delivered; return which it is, if there is one.

        Raises:
            SampleError: it or one that it is mixed with cannot be used under policy "raise".
        """
        first = row - row % GROUP
        if first != self._first:
            self._first, self._counts = first, {}
            stop = min(first + GROUP, self._size)
            found = self._order.rows(*self._where[:2], first, stop)
            self._group = list(zip(*(column.tolist() for column in found), strict=True))
            self._mixer.begin(self, stop - first)
        self._row = row
        done = self._mixer.write(row - first, outputs)
        happened = self._counts[row - first]
        counts.replaced_rows += happened.replaced_rows
        counts.invalid_rows += happened.invalid_rows
        counts.note_bad(happened.bad)
        if self._samples.drawn is not None and done is not None:
            outputs[-1][...] = self._records[row - first]
            self._samples.drawn.replace(outputs[-1], self._mixer.records(row - first))
        return done

    def history(self, row: int) -> tuple[list[list[np.ndarray]], dict[int, np.ndarray]]:
        """Return how the row that was written last came about.

        Returns:
            Its outputs after each mix but the last, and its records: decision -> (1,), resolved.
        """
        member = row - self._first
        return self._mixer.before_last(member), dict(self._mixer.records(member))

    def member(self, number: int, outputs: Sequence[np.ndarray]) -> Row | None:
        """Write a row of the group before batch ops; see `Members`."""
        self._counts[number] = RowCounts()
        sample, visit = self._group[number][:2]
        if sample < 0:
            return None
        if self._begun is not None and self._first + number != self._row:
            self._begun(self._first + number)
        into = self._with_records(outputs, number)
        place = self._place(number)
        return self._samples.write(sample, visit, place, into, self._counts[number])

    def tile(self, sample: int, of: int, outputs: Sequence[np.ndarray]) -> int | None:
        """Write a sample for a mosaic; see `Members`."""
        into = self._with_records(outputs, GROUP)
        counts = RowCounts()
        sample = self._order.peer(*self._where[:2], sample)
        done = self._samples.write(sample, 0, self._place(of), into, counts)
        self._counts[of].note_bad(counts.bad)
        return None if done is None else done.id

    def _place(self, number: int) -> Place:
        _, step, progress = self._where
        _, _, epoch, position, view = self._group[number]
        return Place(epoch, position, view, step, progress)

    def _with_records(self, outputs: Sequence[np.ndarray], number: int) -> Sequence[np.ndarray]:
        """Add where the records of a member go; what a tile draws is not kept."""
        return outputs if self._samples.drawn is None else [*outputs, self._records[number]]
