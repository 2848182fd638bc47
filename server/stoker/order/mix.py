"""Mixtures: which dataset each position shows, and which of its samples (contract order v1).

Several datasets count as one, their ids one after the other. A period of 1,000 batches has a fixed
number of rows of each, its share. Position x of the endless stream of all epochs has the slot
(x G + F) mod P of its period; slots belong to the datasets in order. G is near P times the golden
ratio, so each batch has about the shares too; and since every period has the same pattern, any
1,000 batches in a row have exactly the shares.

The rows of a dataset are its own endless stream: its keyed permutations of epochs 0, 1, 2, ... end
to end. How many rows of it came before a position is a sum of floors, found in the time of Euclid's
algorithm; nothing is stored. Any thread may call.
"""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.epoch import Ids
from stoker.order.permutation import Permutation
from stoker.order.stream import Found, RowColumns
from stoker.order.substitutes import substitute
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec
from stoker.rng.draws import integers
from stoker.rng.streams import ORDER_STREAM, make_key, stream_key

WINDOW: Final = 1000
"""Batches in a row that have exactly the shares."""
ORDER_LEVEL: Final = 5
OFFSET_LEVEL: Final = 6
MAX_PARTS: Final = 64
_GOLDEN: Final = 11400714819323198485
"""2**64 divided by the golden ratio."""
_ORDER: Final = stream_key(ORDER_STREAM)


class Part(NamedTuple):
    """A dataset of a mixture.

    Attributes:
        fingerprint: of the dataset.
        rows: number of its samples.
        pipeline: id of its pipeline.
        share: rows that it has in 1,000 batches.
    """

    fingerprint: str
    rows: int
    pipeline: str
    share: int


def shares(ratios: Sequence[float], batch_size: int) -> list[int]:
    """Return how many rows of each dataset 1,000 batches have.

    Each is the floor of its exact part of all rows; what is left goes to the largest remainders, of
    equal ones to the first.

    Args:
        ratios: one per dataset, positive, in any scale.
        batch_size: positions in a global batch.

    Raises:
        UsageError: a ratio is not a positive number, or gives less than one row in 1,000 batches.
    """
    if not 1 <= len(ratios) <= MAX_PARTS:
        raise UsageError(f"mix: expected 1 to {MAX_PARTS} datasets, got {len(ratios)}")
    for ratio in ratios:
        if isinstance(ratio, bool) or not (math.isfinite(ratio) and ratio > 0):
            raise UsageError(f"mix: expected positive finite ratios, got {ratio!r}")
    rows = WINDOW * batch_size
    total = sum(map(Fraction, ratios))
    exact = [Fraction(ratio) * rows / total for ratio in ratios]
    found = [math.floor(part) for part in exact]
    order = sorted(range(len(exact)), key=lambda d: (found[d] - exact[d], d))
    for d in order[: rows - sum(found)]:
        found[d] += 1
    if 0 in found:
        raise UsageError(
            f"mix: the ratio {ratios[found.index(0)]!r} gives no row in {WINDOW} batches of "
            f"{batch_size}; expected at least {float(total / rows):.3g} of {float(total):g}"
        )
    return found


def mix_digest(parts: Sequence[Part]) -> str:
    """Return the digest of a mixture for the StreamSpec, 32 hex digits."""
    return canonical_digest([list(part) for part in parts])


def floor_sum(n: int, m: int, a: int, b: int) -> int:
    """Return the sum of floor((a i + b) / m) over i = 0 ... n - 1, for n, a, b >= 0 and m >= 1."""
    total = 0
    while n > 0:
        total += (a // m) * (n * (n - 1) // 2) + (b // m) * n
        a, b = a % m, b % m
        top = a * n + b
        if top < m:
            break
        # Count the lattice points below the line by columns in place of rows.
        n, b = divmod(top, m)
        m, a = a, m
    return total


class MixTurns:
    """Whose turn it is at each position: arithmetic on shares alone.

    Attributes:
        period: positions after which the pattern repeats.
        starts: first slot of each dataset, and behind them the period.
    """

    def __init__(self, counts: Sequence[int], seed: int) -> None:
        """Prepare the pattern of a mixture.

        Args:
            counts: rows of each dataset in a period.
            seed: of the stream.
        """
        self.period = sum(counts)
        self.starts = [0, *accumulate(counts)]
        self._counts = list(counts)
        self._ends = np.array(self.starts[1:], np.int64)
        step = self.period * _GOLDEN >> 64
        while math.gcd(step, self.period) != 1:
            step += 1
        self._step = step
        key = make_key(seed, _ORDER, 0, 0, 0, OFFSET_LEVEL)
        self._first = integers(key, 0, self.period)

    def before(self, dataset: int, position: int) -> int:
        """Return how many rows of a dataset come before a position of the endless stream."""
        periods, count = divmod(position, self.period)
        low, high = self.starts[dataset], self.starts[dataset + 1]
        inside = self._below(count, high) - self._below(count, low)
        return periods * self._counts[dataset] + inside

    def at(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Return the turns at the positions [start, stop) of the endless stream.

        Returns:
            (datasets, numbers), each (stop - start,) int64: which dataset, and how many rows of it
            came before.
        """
        slot = (start * self._step + self._first) % self.period
        steps = np.arange(stop - start, dtype=np.int64) * self._step
        datasets = np.searchsorted(self._ends, (slot + steps) % self.period, side="right")
        numbers = np.empty(stop - start, np.int64)
        for dataset in np.unique(datasets).tolist():
            (places,) = np.nonzero(datasets == dataset)
            numbers[places] = self.before(dataset, start) + np.arange(len(places))
        return datasets.astype(np.int64), numbers

    def position(self, dataset: int, number: int) -> int:
        """Return the position of a row of a dataset, by how many of it come before."""
        periods, _ = divmod(number, self._counts[dataset])
        low, high = periods * self.period, (periods + 1) * self.period
        while high - low > 1:
            middle = (low + high) // 2
            if self.before(dataset, middle) <= number:
                low = middle
            else:
                high = middle
        return low

    def _below(self, count: int, slot: int) -> int:
        """Return how many of the first positions of a period have a slot below that one."""
        if slot in {0, self.period}:
            return count if slot else 0
        step, first, period = self._step, self._first, self.period
        whole = floor_sum(count, period, step, first)
        return whole - floor_sum(count, period, step, first + period - slot) + count


class MixOrder:
    """The order of a mixture; see `stoker.order.stream.StreamOrder`."""

    def __init__(
        self, spec: StreamSpec, parts: Sequence[Part], *, arithmetic: Arithmetic = PLAIN
    ) -> None:
        """Make the order of a spec.

        Args:
            spec: the stream.
            parts: the datasets that it was made with.
            arithmetic: compiled (imports numba) or plain; the numbers are the same.

        Raises:
            UsageError: the spec was made with other parts, or has fewer samples than a batch.
        """
        if mix_digest(parts) != spec.mix:
            raise UsageError(
                f"expected the mixture {spec.mix}, which the stream was made with, got "
                f"{mix_digest(parts)}"
            )
        self.turns = MixTurns([part.share for part in parts], spec.order_seed)
        self.firsts = [0, *accumulate(part.rows for part in parts)]
        self._rows = np.array([part.rows for part in parts], np.int64)
        self._spec = spec
        self._steps = mix_steps(spec)
        self._arithmetic = arithmetic
        self._permutation = functools.lru_cache(maxsize=4 * len(parts))(self._make)

    def steps(self, epoch: int) -> int:
        """Return the number of batches that every epoch delivers."""
        return self._steps

    def progress(self, epoch: int, step: int) -> float | None:
        """Return the part of the training that is over before a step; None without a length."""
        if self._spec.total_epochs is None:
            return None
        whole = self._spec.total_epochs * self._steps
        return min(epoch * self._steps + step, whole) / whole

    def bucket(self, epoch: int, step: int) -> int | None:
        """Return None."""
        return None

    def positions(self, epoch: int, step: int) -> int:
        """Return the number of positions in a global batch."""
        return self._spec.batch_size

    def dataset_of(self, sample_id: int) -> int:
        """Return the number of the dataset that an id belongs to.

        Raises:
            UsageError: there is no such id.
        """
        if not 0 <= sample_id < self.firsts[-1]:
            raise UsageError(f"expected an id from 0 to {self.firsts[-1] - 1}, got {sample_id}")
        return int(np.searchsorted(self.firsts, sample_id, side="right")) - 1

    def rows(self, epoch: int, step: int, lo: int, hi: int) -> RowColumns:
        """Return the rows [lo, hi) of the global batch of a step.

        Raises:
            UsageError: the epoch has no such step, or the batch has no such rows.
        """
        size, views = self._spec.batch_size, self._spec.views
        if epoch < 0 or not 0 <= step < self._steps:
            raise UsageError(
                f"expected an epoch from 0 and a step from 0 to {self._steps - 1}, got {epoch} and "
                f"{step}"
            )
        if not 0 <= lo <= hi <= size * views:
            raise UsageError(f"rows: expected 0 <= lo <= hi <= {size * views}, got {lo} and {hi}")
        offsets, view = np.divmod(np.arange(lo, hi, dtype=np.int64), views)
        start = (epoch * self._steps + step) * size
        first, last = lo // views, -(-hi // views)
        datasets, numbers = self.turns.at(start + first, start + last)
        datasets, numbers = datasets[offsets - first], numbers[offsets - first]
        epochs, places = np.divmod(numbers, self._rows[datasets])
        ids = np.empty(hi - lo, np.int64)
        for dataset, turn in set(zip(datasets.tolist(), epochs.tolist(), strict=True)):
            rows = (datasets == dataset) & (epochs == turn)
            ids[rows] = self.firsts[dataset] + self._order_of(dataset, turn, places[rows])
        return RowColumns(ids, np.zeros(hi - lo, np.int64), epochs, places, view)

    def substitute(self, epoch: int, position: int, bad_id: int, attempt: int) -> tuple[int, int]:
        """Return (id, visit) of the substitute for a bad row, from the same dataset."""
        dataset = self.dataset_of(bad_id)
        among = int(self._rows[dataset])
        place, visit = substitute(self._spec, epoch, position, bad_id, attempt, among=among)
        return self.firsts[dataset] + place, visit

    def peers(self, epoch: int, step: int) -> int:
        """Return the number of samples of all datasets."""
        return self.firsts[-1]

    def peer(self, epoch: int, step: int, number: int) -> int:
        """Return the id of one of these samples, by number."""
        return number

    def find(self, epoch: int, sample_id: int, visit: int = 0) -> Found:
        """Return where a row is delivered; `epoch` is that of its own dataset.

        Raises:
            UsageError: there is no such row.
        """
        dataset = self.dataset_of(sample_id)
        rows = int(self._rows[dataset])
        if epoch < 0:
            raise UsageError(f"epoch: expected one from 0, got {epoch}")
        if visit > rows:
            raise UsageError(f"expected a visit of at most {rows}, got {visit}")
        place = visit - 1
        if not visit:
            place = sample_id - self.firsts[dataset]
            if self._spec.order.shuffle:
                place = self._permutation(dataset, epoch).inverse(place)
        number = self.turns.position(dataset, epoch * rows + place) // self._spec.batch_size
        return Found(None, place, divmod(number, self._steps))

    def _order_of(self, dataset: int, epoch: int, places: Ids) -> Ids:
        if not self._spec.order.shuffle:
            return places
        return self._permutation(dataset, epoch).many_in_range(places)

    def _make(self, dataset: int, epoch: int) -> Permutation:
        rows = int(self._rows[dataset])
        return Permutation(
            rows, self._spec.order_seed, epoch, part=dataset, level=ORDER_LEVEL,
            arithmetic=self._arithmetic,
        )  # fmt: skip


def mix_steps(spec: StreamSpec) -> int:
    """Return the number of batches in an epoch of a mixture: whole batches of as many rows.

    Raises:
        UsageError: there is not one.
    """
    if spec.dataset_rows < spec.batch_size:
        raise UsageError(
            f"a global batch of {spec.batch_size} from the {spec.dataset_rows} samples of all "
            "datasets of the mixture leaves no step: use a smaller batch size"
        )
    return spec.dataset_rows // spec.batch_size
