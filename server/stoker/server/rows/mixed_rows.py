"""Rows of a stream whose pipeline ends in batch ops: each is mixed with rows of its group.

Groups are cut from the rows of the global batch, so a row's partner is the same however ranks and
chunks are cut. Partners outside of a chunk are computed again: chunks of whole groups (the daemon
cuts them so) compute each row once. A partner is what its place delivers: the substitute of a bad
sample, or nothing where the row pads or is masked. A tile of a mosaic is a row of its own: visit 0
of its id in this epoch, the view of the row that it is for; a bad one follows the stream's policy,
with the substitutes of that row's position. With buckets a tile is a sample of the row's bucket.
"""

from collections.abc import Sequence

import numpy as np

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.ops.bases.batch_op import GROUP
from stoker.order.stream_order import RowColumns, StreamOrder
from stoker.pipeline.engine.mixer import Mixer
from stoker.rng.row import Row
from stoker.server.rows.chunks import ChunkComputer
from stoker.server.rows.counts import RowCounts
from stoker.server.rows.listener import ALL_ROWS, RowListener
from stoker.server.rows.sample_rows import SampleRows


class MixedRows:
    """The rows of one step after the other; the `Members` of a mixer.

    Attributes:
        chunks: computes whole groups in one call; None: each of their rows is computed by itself.
        seed: of the stream.
        row: that is written.
    """

    def __init__(
        self,
        samples: SampleRows,
        order: StreamOrder,
        *,
        arithmetic: Arithmetic = PLAIN,
        chunks: ChunkComputer | None = None,
        listener: RowListener | None = None,
    ) -> None:
        """Prepare.

        Args:
            samples: computes rows before batch ops.
            order: of the stream.
            arithmetic: how rows are mixed; the bytes are the same.
            chunks: see above.
            listener: notes each row that is computed for another one, and of `ALL_ROWS` where a
                group is computed in one call.
        """
        self.chunks = chunks
        self.seed = samples.spec.seed
        self._views = samples.spec.views
        self._samples = samples
        self._order = order
        self._listener = listener or RowListener()
        self._mixer = Mixer(samples.mixing, arithmetic=arithmetic)
        size = samples.drawn.row_bytes if samples.drawn else 0
        self._records = np.zeros((GROUP + 1, size), np.uint8)
        self._counts: dict[int, RowCounts] = {}
        self._group: list[Row] = []
        self._positions: list[int] = []
        self._claimed = range(0)
        self._first = -1
        self.row = -1

    @property
    def rows(self) -> int:
        """Samples that may be tiles; see `Members`."""
        return self._order.peers(*self._where[:2])

    def enter(
        self, epoch: int, step: int, progress: float | None, claimed: range = range(0)
    ) -> None:
        """Begin with rows of a step.

        Args:
            epoch: from 0.
            step: in the epoch.
            progress: how much of the training is over, where that is known.
            claimed: rows that will be asked for; a group that is in part outside of them is
                computed row by row.
        """
        self._where = (epoch, step, progress)
        self._claimed = claimed
        self._size = self._order.positions(epoch, step) * self._views
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
            self._group = found.rows(self.seed, *self._where[1:])
            self._positions = found.positions.tolist()
            self.row = row
            self._mixer.begin(self, stop - first, self._at_once(found, row))
        self.row = row
        done = self._mixer.write(row - first, outputs)
        counts.add_faults(self._counts[row - first])
        if self._samples.drawn is not None and done is not None:
            number = self._order.dataset_of(done.id)
            records = self._samples.mixing.of_pipeline(number, self._mixer.records(row - first))
            outputs[-1][...] = self._records[row - first]
            self._samples.drawn.replace(number, outputs[-1], records)
        return done

    def _at_once(self, found: RowColumns, row: int) -> "_ComputedGroup | None":
        """Compute the rows of a group in one call, if that can be."""
        first, size = self._first, len(found.ids)
        inside = first in self._claimed and first + size - 1 in self._claimed
        if self.chunks is None or not inside or (found.ids < 0).any():
            return None
        records = self.chunks.engine.room_for_records(size)
        if not self.compute(found, row, self._mixer.room(size), records):
            return None
        self._counts = {number: RowCounts() for number in range(size)}
        return _ComputedGroup(self, found, self._group, records)

    def compute(
        self,
        found: RowColumns,
        row: int,
        outputs: Sequence[np.ndarray],
        records: np.ndarray | None = None,
    ) -> bool:
        """Compute samples in one call and note each; False if that is not possible.

        Args:
            found: which; none of them pads.
            row: which is noted again after that.
            outputs: one for each of the plan's, (n, ...).
            records: where what they draw is kept, if at all.
        """
        crashed = self._samples.crashed
        if self.chunks is None or (crashed and np.isin(found.ids, list(crashed)).any()):
            return False
        self._listener.row_begins(ALL_ROWS)
        done = self.chunks.compute(self.seed, found, outputs, records)
        self._listener.row_begins(row)
        self._listener.sample_begins(self._group[row - self._first].id)
        return done

    def peers(self, samples: Sequence[int]) -> list[int]:
        """Return the ids of samples of a mosaic."""
        return [self._order.peer(*self._where[:2], sample) for sample in samples]

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
        row = self._group[number]
        if row.id < 0:
            return None
        if self._first + number != self.row:
            self._listener.row_begins(self._first + number)
        into = self._with_records(outputs, number)
        return self._samples.write(row, self._positions[number], into, self._counts[number])

    def tile(self, sample: int, of: int, outputs: Sequence[np.ndarray]) -> int | None:
        """Write a sample for a mosaic; see `Members`."""
        into = self._with_records(outputs, GROUP)
        counts = RowCounts()
        sample_id = self._order.peer(*self._where[:2], sample)
        row = self._group[of]._replace(id=sample_id, visit=0)
        done = self._samples.write(row, self._positions[of], into, counts)
        self._counts[of].note_bad(counts.bad)
        return None if done is None else done.id

    def _with_records(self, outputs: Sequence[np.ndarray], number: int) -> Sequence[np.ndarray]:
        """Add where the records of a member go; what a tile draws is not kept."""
        return outputs if self._samples.drawn is None else [*outputs, self._records[number]]


class _ComputedGroup:
    """The rows of a group that was computed in one call; see `Computed`."""

    def __init__(
        self, owner: MixedRows, found: RowColumns, rows: Sequence[Row], records: np.ndarray
    ) -> None:
        self.rows = rows
        self.records = records
        self._owner, self._found = owner, found

    def tiles(
        self, samples: Sequence[int], of: Sequence[int], outputs: Sequence[np.ndarray]
    ) -> list[int] | None:
        """Write many samples of the dataset, each for a member's mosaic; see `Computed`."""
        if not samples:
            return []
        ids = self._owner.peers(samples)
        found = RowColumns(*(column[of] for column in self._found))
        found = found._replace(ids=np.array(ids, np.int64), visits=np.zeros_like(found.ids))
        return ids if self._owner.compute(found, self._owner.row, outputs) else None
