"""The node "mix": which of several decks each row comes from (contract order v1).

Several datasets count as one, their ids one after the other. A period of P rows has a fixed number
of rows of each deck: without buckets P are the rows of 1,000 batches, and the numbers are the
shares of the datasets; in a bucket P are the rows of its epoch. Row x of the endless stream of all
epochs has the slot (x G + F) mod P of its period; slots belong to the decks in order. G is near P
times the golden ratio, so each batch has about the shares too; and since every period has the same
pattern, any P rows that follow each other have exactly the shares.

The epochs of each deck are joined end to end. How many rows of a deck came before a position is a
sum of floors, found in the time of Euclid's algorithm; nothing is stored. Any thread may call.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from stoker.order.apportion import apportion
from stoker.order.deck import Deck, DeckEntries, Ids
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import UsageError
from stoker.rng.draws import integers
from stoker.rng.streams import ORDER_STREAM, make_key, stream_key

WINDOW: Final = 1000
"""Batches in a row that have exactly the shares."""
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
    rows, total = WINDOW * batch_size, sum(map(Fraction, ratios))
    found = apportion(rows, [Fraction(ratio) for ratio in ratios])
    if 0 in found:
        raise UsageError(
            f"mix: the ratio {ratios[found.index(0)]!r} gives no row in {WINDOW} batches of "
            f"{batch_size}; expected at least {float(total / rows):.3g} of {float(total):g}"
        )
    return found


def joined_digests(parts: Sequence[Part]) -> tuple[str, str]:
    """Return the fingerprint and the pipeline id that stand for all datasets of a mixture."""
    levels = [part.fingerprint.partition(":")[0] for part in parts]
    weakest = max(levels, key=("content", "stat", "declared").index)
    fingerprints = canonical_digest([[part.fingerprint, part.rows] for part in parts])
    return f"{weakest}:{fingerprints}", canonical_digest([part.pipeline for part in parts])


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
    """The dataset of each position: arithmetic on shares alone.

    Attributes:
        period: positions after which the pattern repeats.
        starts: first slot of each dataset, and behind them the period.
    """

    def __init__(self, counts: Sequence[int], seed: int, part: int = 0) -> None:
        """Prepare the pattern of a mixture.

        Args:
            counts: rows of each deck in a period.
            seed: of the order.
            part: the number of the mixture: of its bucket, or 0.
        """
        self.period = sum(counts)
        self.starts = [0, *accumulate(counts)]
        self._counts = list(counts)
        self._ends = np.array(self.starts[1:], np.int64)
        step = self.period * _GOLDEN >> 64
        while math.gcd(step, self.period) != 1:
            step += 1
        self._step = step
        key = make_key(seed, _ORDER, part, 0, 0, OFFSET_LEVEL)
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
        for dataset in set(datasets.tolist()):
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


class MixedDecks:
    """The rows of several decks, in turns; see `stoker.order.deck.Rows`.

    Attributes:
        rows: how many each epoch has.
        samples: how many different samples the decks have.
        decks: that rows come from.
    """

    def __init__(self, decks: Sequence[Deck], turns: MixTurns, rows: int) -> None:
        """Mix decks; `turns` has as many."""
        self.rows = rows
        self.decks = tuple(decks)
        self._turns = turns
        self._firsts = [0, *accumulate(deck.samples for deck in decks)]
        self.samples = self._firsts[-1]

    def lookup(self, epoch: int, start: int, stop: int) -> DeckEntries:
        """Return the entries [start, stop), each with the epoch and position of its deck."""
        first = epoch * self.rows + start
        turns, numbers = self._turns.at(first, first + stop - start)
        found = DeckEntries(*np.empty((len(DeckEntries._fields), stop - start), np.int64))
        for number in set(turns.tolist()):
            (places,) = np.nonzero(turns == number)
            deck = self.decks[number]
            own, position = divmod(int(numbers[places[0]]), deck.rows)
            part = deck.lookup(own, position, position + len(places))
            for column, values in zip(found, part, strict=True):
                column[places] = values
        return found

    def deck_of(self, sample_id: int) -> Deck | None:
        """Return the deck of a sample; None if it is in none."""
        return next((deck for deck in self.decks if deck.deck_of(sample_id)), None)

    def number(self, deck: Deck, epoch: int, position: int) -> int:
        """Return how many rows come before one of a deck."""
        return self._turns.position(self.decks.index(deck), epoch * deck.rows + position)

    def sample(self, number: int) -> int:
        """Return the id of a sample, by number from 0."""
        deck = bisect_right(self._firsts, number) - 1
        return self.decks[deck].sample(number - self._firsts[deck])
