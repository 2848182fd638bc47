"""The order of a spec, composed of its nodes; see `stoker.order.stream_order`.

| stream            | rows                                  | cut           |
| ----------------- | ------------------------------------- | ------------- |
| plain             | a deck                                | `EvenCut`     |
| mixture           | a mixture of one deck a dataset       | `EvenCut`     |
| buckets           | a deck a bucket                       | `BucketTurns` |
| buckets, mixture  | a mixture a bucket, of its datasets   | `BucketTurns` |

A deck is select, repeat (with weights) and shuffle. Its permutations and marks have a level and a
part, so that those of different decks of a stream differ.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.buckets.bucket_plan import BucketPlan
from stoker.order.buckets.pieces import Piece, pieces_of, with_rows
from stoker.order.buckets.turns import BucketTurns
from stoker.order.deck import Deck, Rows
from stoker.order.mix import MixedDecks, MixTurns, Part, mix_digest
from stoker.order.repeat import Weighting
from stoker.order.select import Listed, Select
from stoker.order.selected import Selected, exclude_of, weights_of
from stoker.order.shuffle import Shuffle
from stoker.order.step_cut import EvenCut
from stoker.order.stream_order import StreamOrder
from stoker.protocol import version
from stoker.protocol.errors import UsageError, VersionError
from stoker.protocol.exclude import Excluded
from stoker.protocol.spec import StreamSpec

PLAIN_LEVEL: Final = 0
BUCKET_LEVEL: Final = 2
MIX_LEVEL: Final = 5
DATASET_BITS: Final = 36
"""Width of the part of a bucket: `2**16 * width + height`."""


def order_of(
    spec: StreamSpec,
    selections: Sequence[Selected],
    *,
    parts: Sequence[Part] = (),
    plan: BucketPlan | None = None,
    arithmetic: Arithmetic = PLAIN,
) -> StreamOrder:
    """Return the order of a stream.

    Args:
        spec: the stream.
        selections: what it takes of each dataset.
        parts: the datasets, if it is a mixture.
        plan: the buckets, if it has buckets.
        arithmetic: compiled (imports numba) or plain; the numbers are the same.

    Raises:
        UsageError: the spec was made with something else, has an order that there is not, or its
            epochs have no step.
        VersionError: the spec was made with another version of a contract.
    """
    check_order(spec)
    _check_digests(spec, selections, parts, plan)
    decks = _Decks(spec, arithmetic)
    firsts = [0, *accumulate(selection.rows for selection in selections)]
    if plan is not None:
        pieces = pieces_of(plan, selections, [part.share for part in parts] or None)
        buckets = with_rows(plan, pieces)
        turns = BucketTurns(spec, buckets, plan.request.leftovers, arithmetic=arithmetic)
        own = [
            decks.of_bucket(bucket.width << 16 | bucket.height, found, is_mixed=bool(parts))
            for bucket, found in zip(buckets, pieces, strict=True)
        ]
        return StreamOrder(spec, own, turns, firsts, plan)
    cut = EvenCut(spec)
    if not parts:
        return StreamOrder(spec, [decks.of_dataset(selections[0])], cut, firsts)
    mixed = [
        decks.of_dataset(selection, first, number, MIX_LEVEL)
        for number, (selection, first) in enumerate(zip(selections, firsts, strict=False))
    ]
    of_mix = MixTurns([part.share for part in parts], spec.order_seed)
    mix = MixedDecks(mixed, of_mix, cut.steps(0) * spec.batch_size)
    return StreamOrder(spec, [mix], cut, firsts)


def dataset_order(
    spec: StreamSpec,
    excluded: Excluded | None = None,
    weighting: Weighting | None = None,
    plan: BucketPlan | None = None,
    arithmetic: Arithmetic = PLAIN,
) -> StreamOrder:
    """Return the order of a stream of one dataset; see `order_of`."""
    selection = Selected(spec.dataset_rows, excluded or Excluded(()), weighting)
    return order_of(spec, [selection], plan=plan, arithmetic=arithmetic)


class _Decks:
    """Makes the decks of a stream."""

    def __init__(self, spec: StreamSpec, arithmetic: Arithmetic) -> None:
        self._seed, self._order, self._arithmetic = spec.order_seed, spec.order, arithmetic

    def of_dataset(
        self, selection: Selected, first_id: int = 0, part: int = 0, level: int = PLAIN_LEVEL
    ) -> Deck:
        weighting = selection.weighting and selection.weighting.of_part(part)
        return self._deck(selection.remaining(first_id), weighting, part, level)

    def of_bucket(self, part: int, pieces: Sequence[Piece], *, is_mixed: bool) -> Rows:
        decks = []
        for piece in pieces:
            own = piece.dataset << DATASET_BITS | part
            weighting = None
            if piece.weights is not None:
                weighting = Weighting.of_whole(piece.weights, piece.marks, own)
            decks.append(self._deck(Listed(piece.ids), weighting, own, BUCKET_LEVEL))
        if not is_mixed:
            return decks[0]
        counts = [piece.rows for piece in pieces]
        return MixedDecks(decks, MixTurns(counts, self._seed, part), sum(counts))

    def _deck(self, select: Select, weighting: Weighting | None, part: int, level: int) -> Deck:
        if not self._order.shuffle:
            return Deck(self._seed, select, weighting)
        count = select.count if weighting is None else weighting.marks
        shuffle = Shuffle(
            count, self._seed, block=self._order.block, part=part, level=level,
            arithmetic=self._arithmetic,
        )  # fmt: skip
        return Deck(self._seed, select, weighting, shuffle)


def check_order(spec: StreamSpec) -> None:
    """Check that this version can deliver the order of a spec.

    Raises:
        UsageError: it cannot; the message says what is supported.
        VersionError: the spec was made with another version of the random or order contract.
    """
    _check_contracts(spec)
    order = spec.order
    given = [] if order.subset is None else [f"order.subset={order.subset!r}"]
    if order.kind == "subset":
        given.insert(0, f"order.kind={order.kind!r}")
    if given:
        raise UsageError(
            f"{', '.join(given)}: this version supports order.kind='full' and 'weighted', without "
            "order.subset: a subset is an exclude list of all other samples"
        )
    if (order.kind == "weighted") != (order.weights is not None):
        raise UsageError(
            f"order.kind={order.kind!r}, order.weights={order.weights!r}: expected kind 'weighted' "
            "exactly if there are weights"
        )
    if order.block is not None and (order.block < 1 or not order.shuffle):
        raise UsageError(
            f"order.block: expected a length from 1, with shuffle=True; got block={order.block},"
            f" shuffle={order.shuffle}"
        )


def _check_digests(
    spec: StreamSpec,
    selections: Sequence[Selected],
    parts: Sequence[Part],
    plan: BucketPlan | None,
) -> None:
    """Check that a spec was made with these datasets, samples, weights and buckets."""
    excluded = exclude_of([selection.excluded.digest for selection in selections])
    weights = weights_of([selection.weights for selection in selections])
    for what, options, expected, got in (
        ("the mixture", "datasets and ratios", spec.mix, mix_digest(parts) if parts else None),
        ("the exclude list", "exclude=, subset= and split=", spec.exclude, excluded),
        ("the weights", "weights=", spec.order.weights, weights),
        ("the bucket plan", "buckets=", spec.buckets, None if plan is None else plan.digest),
    ):
        if expected != got:
            raise UsageError(
                f"the stream was made with {what} {expected}, got {got}: give the same {options}"
            )
    rows = sum(selection.rows for selection in selections)
    if rows != spec.dataset_rows:
        raise UsageError(f"the stream was made for {spec.dataset_rows} samples, got {rows}")
    for selection in selections:
        selection.excluded.check(selection.rows)
        weighting = selection.weighting
        if weighting is not None and weighting.count != selection.count:
            raise UsageError(
                f"expected a weight for each of {selection.count} samples, got {weighting.count}"
            )


def _check_contracts(spec: StreamSpec) -> None:
    """Check that the spec was made with our versions of the random and order contracts."""
    for name, got, ours in (
        ("random", spec.contracts.random, version.RANDOM),
        ("order", spec.contracts.order, version.ORDER),
    ):
        if got != ours:
            raise VersionError(
                f"contract {name!r}: the spec has version {got}, but this Stoker has {ours}: use "
                "the Stoker that made the spec, or start a new stream"
            )
