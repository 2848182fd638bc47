"""Orders of several nodes at once: weights, blocks, exclude lists and mixtures, also in buckets.

An oracle by the page (docs/contracts/order.md) keeps lists: it has no node of the product, except
for the plan of the buckets, which has oracles of its own, and the permutation.
"""

import itertools
import random
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from order_page import integer

from stoker.order.bucket_leftovers import account, carried_ids
from stoker.order.buckets.bucket_plan import make_plan
from stoker.order.compose import order_of
from stoker.order.mix import Part, mix_digest, shares
from stoker.order.permutation import Permutation
from stoker.order.repeat import Weighting, integer_weights
from stoker.order.selected import Selected, exclude_of, weights_of
from stoker.protocol.exclude import Excluded
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.spec import OrderSpec, StreamSpec
from stoker.rng.streams import ORDER_STREAM, make_key, stream_key

EPOCHS = 3
SEED = 77
SHAPES = [(128, 128), (200, 90), (90, 200), (300, 60)]


class Permuted(Permutation):
    """A permutation inside a block of a deck: its key has the part of the deck as visit."""

    def __init__(self, n, epoch, block, part):
        super().__init__(n, SEED, epoch, part=block, level=1, deck=part)
        assert make_key(SEED, stream_key(ORDER_STREAM), block, epoch, part, 1).lane == (
            part * 2**16 + 1
        )


def apportioned(count, weights, least=0):
    """By the largest remainder, and none empty if `least` is 1."""
    exact = [Fraction(count) * weight / sum(weights) for weight in weights]
    found = [int(share) for share in exact]
    while sum(found) < count:
        rests = [share - got for share, got in zip(exact, found, strict=True)]
        found[rests.index(max(rests))] += 1
    while least and 0 in found:
        found[found.index(max(found))] -= 1
        found[found.index(0)] = 1
    return found


def marks_of(weights, marks, part, epoch):
    """(place, visit) of each mark of an epoch, by a walk along the line."""
    total = sum(weights)
    turned = int(f"{epoch:064b}"[::-1], 2)
    first = integer(SEED, "stoker/order", part, 0, 4, 0, total) + turned * total // 2**64
    first %= total
    found, place, end, visit = [], 0, weights[0], 0
    for mark in range(marks):
        while Fraction(first + mark * total, marks) >= end:
            place, visit = place + 1, 0
            end += weights[place]
        found.append((place, visit))
        visit += 1
    return found


class ListedDeck:
    """The rows of a deck, epoch by epoch, as lists."""

    def __init__(self, ids, weights, marks, part, level, order):
        self.ids, self.weights, self.rows = ids, weights, marks
        self.part, self.level, self.order = part, level, order

    def epoch(self, epoch):
        places = [(place, 0) for place in range(len(self.ids))]
        if self.weights is not None:
            places = marks_of(self.weights, self.rows, self.part, epoch)
        return [
            (self.ids[places[at][0]], places[at][1], epoch, position)
            for position, at in enumerate(self._shuffled(epoch))
        ]

    def _shuffled(self, epoch):
        n, block = self.rows, self.order.get("block")
        if not self.order.get("shuffle", True):
            return range(n)
        if block is None:
            one = Permutation(n, SEED, epoch, part=self.part, level=self.level)
            return [one(x) for x in range(n)]
        outer = Permutation(-(-n // block), SEED, epoch, part=self.part, level=self.level)
        found = []
        for slot in range(outer.n):
            number = outer(slot)
            inner = Permuted(min(block, n - number * block), epoch, number, self.part)
            found += [number * block + inner(x) for x in range(inner.n)]
        return found

    def endless(self):
        for epoch in itertools.count():
            yield from self.epoch(epoch)


def mixed(decks, counts, part):
    """The endless rows of decks in turns."""
    period = sum(counts)
    step = period * 11400714819323198485 // 2**64
    while np.gcd(step, period) != 1:
        step += 1
    slot = integer(SEED, "stoker/order", part, 0, 6, 0, period)
    ends = list(itertools.accumulate(counts))
    sources = [deck.endless() for deck in decks]
    while True:
        yield next(sources[next(d for d, end in enumerate(ends) if slot < end)])
        slot = (slot + step) % period


class Case:
    """A stream of some datasets, as data for the product and for the oracle."""

    def __init__(self, rows, *, weighted=(), gone=(), order=None, batch=4, mix=None, **more):
        draw = random.Random(1)
        self.rows, self.mix, self.batch, self.order = rows, mix, batch, order or {}
        self.sizes = [draw.choice(SHAPES) for _ in range(sum(rows))]
        self.firsts = [0, *itertools.accumulate(rows)]
        left_out = [gone.count(d) * n // 4 for d, n in enumerate(rows)]
        self.gone = [
            sorted(draw.sample(range(n), count)) for n, count in zip(rows, left_out, strict=True)
        ]
        self.left = [[i for i in range(n) if i not in self.gone[d]] for d, n in enumerate(rows)]
        self.weights = [
            [draw.choice([1.0, 1.0, 2.5, 7.0, 0.3]) for _ in left] if d in weighted else None
            for d, left in enumerate(self.left)
        ]
        self.request = more.pop("buckets", None)
        self.fields = more

    def whole(self, dataset):
        given = self.weights[dataset]
        return None if given is None else integer_weights(np.array(given)).tolist()

    def selections(self):
        return [
            Selected(n, Excluded(gone), None if given is None else Weighting(np.array(given)))
            for n, gone, given in zip(self.rows, self.gone, self.weights, strict=True)
        ]

    def plan(self):
        gone = [first + i for first, ids in zip(self.firsts, self.gone, strict=False) for i in ids]
        blocks = [tuple(np.array(self.sizes, np.int32).T)]
        return make_plan(blocks, self.request, self.batch, np.array(gone, np.int64))

    def parts(self):
        if self.mix is None:
            return []
        counts = shares(self.mix, self.batch)
        return [
            Part(f"content:{d:032x}", n, f"{d:032x}", share)
            for d, (n, share) in enumerate(zip(self.rows, counts, strict=True))
        ]

    def make(self):
        chosen, parts = self.selections(), self.parts()
        plan = None if self.request is None else self.plan()
        weights = weights_of([one.weights for one in chosen])
        spec = StreamSpec(
            dataset="content:" + "0" * 32, dataset_rows=sum(self.rows), pipeline="0" * 32,
            batch_size=self.batch, seed=SEED,
            order=OrderSpec(kind="weighted" if weights else "full", weights=weights, **self.order),
            exclude=exclude_of([one.excluded.digest for one in chosen]),
            mix=mix_digest(parts) if parts else None,
            buckets=None if plan is None else plan.digest, **self.fields,
        )  # fmt: skip
        return order_of(spec, chosen, parts=parts, plan=plan)

    def expected(self):
        """(epoch, step) -> rows (id, visit, epoch, position), None where a row pads."""
        return self._bucketed() if self.request is not None else self._plain()

    def _plain(self):
        if self.mix is None:
            deck = ListedDeck(self.left[0], self.whole(0), len(self.left[0]), 0, 0, self.order)
            found = {}
            for epoch in range(EPOCHS):
                rows = deck.epoch(epoch)
                found |= cut(rows, self.batch, epoch, 0, self.fields.get("tail", "drop"))
            return found
        decks = [
            ListedDeck(
                [self.firsts[d] + i for i in left], self.whole(d), len(left), d, 5, self.order
            )
            for d, left in enumerate(self.left)
        ]
        rows = mixed(decks, shares(self.mix, self.batch), 0)
        steps = sum(map(len, self.left)) // self.batch
        return {
            (epoch, step): list(itertools.islice(rows, self.batch))
            for epoch in range(EPOCHS)
            for step in range(steps)
        }

    def _bucketed(self):
        plan = self.plan()
        members = [plan.ids(number).tolist() for number in range(len(plan.buckets))]
        own = {
            (b, d): [i for i in ids if self.firsts[d] <= i < self.firsts[d + 1]]
            for b, ids in enumerate(members)
            for d in range(len(self.rows))
        }
        own = {key: ids for key, ids in own.items() if ids}
        total = sum(map(len, members))
        counts = [total] if self.mix is None else apportioned(total, shares(self.mix, self.batch))
        decks, rows_of = defaultdict(list), defaultdict(list)
        for d, count in enumerate(counts):
            there = [b for b in range(len(members)) if (b, d) in own]
            whole = dict(zip(self.left[d], self.whole(d) or [1] * len(self.left[d]), strict=True))
            given = [[whole[i - self.firsts[d]] for i in own[b, d]] for b in there]
            sums = [sum(one) for one in given]
            marks = apportioned(sum(map(len, given)), sums, 1)
            rows = apportioned(count, sums, 1)
            for b, one, mark, row in zip(there, given, marks, rows, strict=True):
                part = d * 2**36 + plan.buckets[b].width * 2**16 + plan.buckets[b].height
                weights = None if self.weights[d] is None else one
                decks[b].append(ListedDeck(own[b, d], weights, mark, part, 2, self.order))
                rows_of[b].append(row)
        return self._cut_buckets(plan, decks, rows_of)

    def _cut_buckets(self, plan, decks, rows_of):
        tail = self.fields.get("tail", "drop")
        endless = [
            decks[b][0].endless()
            if self.mix is None
            else mixed(decks[b], rows_of[b], bucket.width * 2**16 + bucket.height)
            for b, bucket in enumerate(plan.buckets)
        ]
        waiting, found = defaultdict(list), {}
        for epoch in range(EPOCHS):
            ready = []
            for b, bucket in enumerate(plan.buckets):
                queue = waiting[b]
                queue += itertools.islice(endless[b], sum(rows_of[b]))
                size = bucket.positions
                while len(queue) >= size:
                    ready.append(queue[:size])
                    del queue[:size]
                if tail == "pad" and queue:
                    ready.append(queue + [None] * (size - len(queue)))
                if tail == "pad" or self.request.leftovers == "drop":
                    queue.clear()
            turn = Permutation(len(ready), SEED, epoch, level=3)
            for step in range(len(ready)):
                at = turn(step) if self.order.get("shuffle", True) else step
                found[epoch, step] = ready[at]
        return found


def cut(rows, size, epoch, first, tail):
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    if len(batches[-1]) < size:
        batches[-1] += [None] * (size - len(batches[-1]))
        if tail == "drop":
            batches.pop()
    return {(epoch, first + step): batch for step, batch in enumerate(batches)}


BUCKETS = Buckets(max_area=128 * 128, divisor=16)
BLOCK = {"block": 5}
STRAIGHT = {"shuffle": False}
CASES = {
    "plain": Case([37], tail="pad"),
    "weights, block, exclude": Case([40], weighted=[0], gone=[0], order=BLOCK, tail="pad"),
    "buckets, weights": Case([60], weighted=[0], buckets=BUCKETS),
    "buckets, weights, in order": Case([60], weighted=[0], order=STRAIGHT, buckets=BUCKETS),
    "buckets, weights, padded, exclude": Case(
        [60], weighted=[0], gone=[0], buckets=BUCKETS, tail="pad"
    ),
    "buckets, block": Case([80], order=BLOCK, buckets=BUCKETS),
    "buckets, block, weights, dropped": Case(
        [80], weighted=[0], order=BLOCK,
        buckets=Buckets(max_area=128 * 128, divisor=16, leftovers="drop"),
    ),
    "mixture, exclude": Case([40, 25], mix=[0.7, 0.3], gone=[0, 1]),
    "mixture, weights": Case([40, 25, 9], mix=[5, 3, 2], weighted=[0, 2]),
    "mixture, weights, exclude, block": Case(
        [40, 25], mix=[0.5, 0.5], weighted=[1], gone=[0, 1, 1], order=BLOCK
    ),
    "buckets, mixture": Case([60, 30], mix=[0.6, 0.4], buckets=BUCKETS),
    "buckets, mixture, in order": Case(
        [60, 30, 20], mix=[1, 2, 3], order=STRAIGHT, buckets=BUCKETS, tail="pad"
    ),
    "buckets, mixture, weights, exclude, block": Case(
        [70, 40], mix=[0.3, 0.7], weighted=[0, 1], gone=[0, 1], order=BLOCK, buckets=BUCKETS
    ),
    "buckets, mixture of one": Case([50], mix=[1], buckets=BUCKETS),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_batches_are_those_of_lists(name):
    case = CASES[name]
    order, expected = case.make(), case.expected()
    assert list(expected) == [(e, s) for e in range(EPOCHS) for s in range(order.steps(e))]
    for (epoch, step), rows in expected.items():
        found = order.rows(epoch, step, 0, len(rows))
        assert order.positions(epoch, step) == len(rows)
        got = list(zip(*(column.tolist() for column in found[:4]), strict=True))
        for place, row in enumerate(rows):
            assert got[place] == row if row is not None else got[place][:2] == (-1, 0)
            if row is not None:
                sample, visit, own, position = row
                assert order.find(own, sample, visit)[1:] == (position, (epoch, step))
        part = order.rows(epoch, step, 1, len(rows) - 1)
        assert all(a[1:-1].tolist() == b.tolist() for a, b in zip(found, part, strict=True))


@pytest.mark.parametrize("name", [name for name in CASES if "buckets" in name])
def test_no_bucket_is_mixed_with_another_and_every_row_is_accounted_for(name):
    case = CASES[name]
    order = case.make()
    seen, left = Counter(), 0
    for epoch in range(EPOCHS):
        for step in range(order.steps(epoch)):
            rows = order.rows(epoch, step, 0, order.positions(epoch, step))
            bucket = order.bucket(epoch, step)
            ids = rows.ids[rows.ids >= 0]
            assert set(ids.tolist()) <= set(order.plan.ids(bucket).tolist())
            seen.update(ids.tolist())
            substitute, visit = order.substitute(
                int(rows.epochs[0]), int(rows.positions[0]), int(ids[0]), 1
            )
            assert substitute in order.plan.ids(bucket)
            assert order.dataset_of(substitute) == order.dataset_of(int(ids[0]))
            found = order.find(int(rows.epochs[0]), substitute, visit)
            assert found == (bucket, int(rows.positions[0]), (epoch, step))
        one = account(order, epoch)
        assert one.carried_in + one.samples == one.delivered + one.carried_out + one.dropped
        assert one.samples == len(order.plan.members)
        left = one.carried_out
    assert len(carried_ids(order, EPOCHS - 1)) == left
    members = order.plan.members.tolist()
    assert set(seen) <= set(members)
    if order.cut.tail == "carry" and not any(case.weights):
        assert len(seen) == len(members), "every sample comes within three epochs"


@pytest.mark.parametrize("name", [name for name in CASES if "buckets, mixture" in name])
def test_the_ratio_of_a_mixture_holds_over_the_rows_of_an_epoch(name):
    """Of the rows of an epoch, whether delivered in it or carried, exactly each dataset's part."""
    case = CASES[name]
    order = case.make()
    counts = apportioned(len(order.plan.members), shares(case.mix, case.batch))
    for epoch in (0, 7):
        rows = [one.lookup(epoch, 0, one.rows).ids for one in order.rows_of]
        found = np.bincount([order.dataset_of(i) for i in np.concatenate(rows).tolist()])
        assert found.tolist() == counts


def test_a_bucket_comes_as_often_as_its_weights_say():
    case = CASES["buckets, weights"]
    order = case.make()
    whole = case.whole(0)
    for number, bucket in enumerate(order.cut.buckets):
        share = Fraction(sum(whole[i] for i in order.plan.ids(number))) * 60 / sum(whole)
        assert abs(bucket.rows - share) < 1
    epochs = range(32)
    counts = Counter()
    for epoch in epochs:
        for one in order.rows_of:
            counts.update(one.lookup(epoch, 0, one.rows).ids.tolist())
    for number, bucket in enumerate(order.cut.buckets):
        ids = order.plan.ids(number).tolist()
        for i in ids:
            share = Fraction(whole[i] * bucket.rows * len(epochs), sum(whole[j] for j in ids))
            assert abs(counts[i] - share) <= 1


def test_a_mixture_of_one_dataset_has_the_order_of_its_buckets():
    mixture = CASES["buckets, mixture of one"].make()
    alone = Case([50], buckets=BUCKETS).make()
    for epoch, step in itertools.product(range(3), range(5)):
        rows = [order.rows(epoch, step, 0, 4).ids.tolist() for order in (mixture, alone)]
        assert rows[0] == rows[1]


def test_a_block_of_a_bucket_has_neighbors_of_the_bucket():
    order = Case([400], order={"block": 8}, buckets=BUCKETS).make()
    for number, one in enumerate(order.rows_of):
        ids = order.plan.ids(number).tolist()
        places = [ids.index(i) // 8 for i in one.lookup(1, 0, one.rows).ids.tolist()]
        assert len(list(itertools.groupby(places))) == -(-len(ids) // 8)
