"""The node "repeat": how often each sample comes, by systematic sampling (contract order v1).

Weights become integers whose sum is Q. On a line of length Q sample i has the stretch
[C_i, C_i + q_i). An epoch of M rows puts M marks on it, Q / M apart; a sample comes once for each
mark in its stretch, which is floor(q_i * M / Q) times or once more. The place of the first mark
differs from epoch to epoch by the van der Corput sequence, which fills the gap between two marks
evenly: in 2**k epochs from a multiple of 2**k on, each sample comes as often as its weight says,
to within 1.

M is the number of samples; a bucket has its part of the dataset's, by the sum of its weights. A
look-up is a binary search. Memory: eight bytes per sample. Any thread may call.
"""

import functools
import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stoker.protocol.errors import UsageError
from stoker.rng.draws import integers
from stoker.rng.streams import ORDER_STREAM, make_key, stream_key

Ids = NDArray[np.int64]

SCALE_BITS: Final = 60
"""The integer weights have a sum of at most 2**60."""
OFFSET_LEVEL: Final = 4
_ORDER: Final = stream_key(ORDER_STREAM)
_WORD: Final = 64


class Weighting:
    """The integer weights of the samples of a dataset, or of some of them.

    Attributes:
        count: number of samples with a weight.
        marks: M, the number of rows in an epoch; of a whole dataset, as many as samples.
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        """Prepare.

        Args:
            weights: (N,) float64 of the samples that the stream visits, ascending by id; all are
                positive and finite.

        Raises:
            UsageError: a weight is too small next to the greatest one.
        """
        self._keep(integer_weights(weights), len(weights), 0)

    def _keep(self, whole: Ids, marks: int, part: int) -> None:
        self.count, self.marks, self._part = len(whole), marks, part
        self._ends = np.cumsum(whole)
        self._total = int(self._ends[-1])
        self._apart, self._rest = divmod(self._total, marks)
        self._offset = functools.lru_cache(maxsize=8)(self._make_offset)

    @functools.cached_property
    def whole(self) -> Ids:
        """The integer weights, (count,) int64."""
        return np.diff(self._ends, prepend=0)

    @functools.cached_property
    def digest(self) -> str:
        """BLAKE2b-128 of the weights as little-endian 64-bit integers, 32 hex digits."""
        return hashlib.blake2b(self.whole.astype("<i8").tobytes(), digest_size=16).hexdigest()

    @staticmethod
    def of_whole(whole: Ids, marks: int, part: int) -> "Weighting":
        """Return integer weights of some samples.

        Args:
            whole: (count,) int64, positive.
            marks: the number of rows that they have in an epoch.
            part: the number of their deck, which shifts their marks.
        """
        found = Weighting.__new__(Weighting)
        found._keep(whole, marks, part)
        return found

    def of_part(self, part: int) -> "Weighting":
        """Return the same weights, for a deck of that number."""
        return self if not part else Weighting.of_whole(self.whole, self.marks, part)

    def at(self, seed: int, epoch: int, marks: Ids) -> tuple[Ids, Ids]:
        """Return (places, visits), each (k,) int64, of the samples at marks."""
        first = self._offset(seed, epoch)
        places = np.searchsorted(self._ends, self._spot(marks, first), side="right")
        return places.astype(np.int64), marks - self._first_mark(places, first)

    def count_of(self, seed: int, epoch: int, place: int) -> int:
        """Return how often the sample at a place comes in an epoch."""
        low, high = self._range(seed, epoch, place)
        return high - low

    def mark(self, seed: int, epoch: int, place: int, visit: int) -> int | None:
        """Return the mark of a visit of the sample at a place; None if it does not come so often.

        The inverse of `at`.
        """
        low, high = self._range(seed, epoch, place)
        return low + visit if low + visit < high else None

    def _range(self, seed: int, epoch: int, place: int) -> tuple[int, int]:
        first = self._offset(seed, epoch)
        if place == self.count - 1:
            return int(self._first_mark(np.array([place]), first)[0]), self.marks
        low, high = self._first_mark(np.array([place, place + 1]), first).tolist()
        return low, high

    def _spot(self, marks: Ids, first: int) -> Ids:
        """Return floor((first + mark * Q) / M), without a product beyond 64 bits."""
        spots: Ids = marks * self._apart + (marks * self._rest + first) // self.marks
        return spots

    def _first_mark(self, places: Ids, first: int) -> Ids:
        """Return the first mark at or after the start of each place's stretch."""
        starts = np.where(places > 0, self._ends[places - 1], 0)
        guess = starts.astype(np.float64) / self._total * self.marks
        marks = np.clip(guess.astype(np.int64), 0, self.marks)
        while (early := (marks > 0) & (self._spot(marks - 1, first) >= starts)).any():
            marks -= early
        while (late := self._spot(marks, first) < starts).any():
            marks += late
        return marks

    def _make_offset(self, seed: int, epoch: int) -> int:
        """Return where the first mark of an epoch is, as a numerator over M."""
        start = integers(make_key(seed, _ORDER, self._part, 0, 0, OFFSET_LEVEL), 0, self._total)
        turned = int(f"{epoch:0{_WORD}b}"[::-1], 2)
        return (start + (turned * self._total >> _WORD)) % self._total


def integer_weights(weights: NDArray[np.float64]) -> Ids:
    """Return weights as integers, (N,) int64 for (N,) float64: times a power of two, rounded.

    The power is the greatest for which the sum is at most 2**60, however the weights are spread:
    whole numbers, and all weights that are alike, keep their exact proportions.

    Raises:
        UsageError: a weight is so small that it would be 0.
    """
    bits = SCALE_BITS - int(np.frexp(weights.max())[1]) - (len(weights) - 1).bit_length()
    whole: Ids = np.rint(np.ldexp(weights, bits)).astype(np.int64)
    if not whole.all():
        raise UsageError(
            f"weights: {weights.min()} is too small next to {weights.max()}: with {len(weights)} "
            f"samples expected weights from {float(np.ldexp(0.5, -bits)):.3g}, or 0, which leaves "
            "a sample out"
        )
    return whole
