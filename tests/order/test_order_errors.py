"""Errors of orders, as a table: call, error, message. Those of bucket requests are in buckets/."""

import itertools

import numpy as np
import pytest

from stoker.order.buckets.bucket_plan import make_plan
from stoker.order.buckets.sizes import bucket_sizes
from stoker.order.compose import dataset_order, order_of
from stoker.order.mix import Part, mix_digest, shares
from stoker.order.rank_rows import rank_rows, steps_per_epoch
from stoker.order.repeat import Weighting
from stoker.order.selected import Selected
from stoker.protocol.errors import UsageError, VersionError
from stoker.protocol.exclude import Excluded
from stoker.protocol.length_buckets import LengthBuckets
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.spec import Contracts

EXCLUDED = Excluded([3, 5])
ONE, OTHER = Weighting(np.array([1.0, 2])), Weighting(np.array([1.0, 3]))
SUPPORTED = ": this version supports order.kind='full' and 'weighted', without order.subset"
SIZES = Buckets(max_area=128**2, divisor=16, leftovers="drop")
SHAPES = [(128, 128), (200, 90), (90, 200), (300, 60)]
LENGTHS = [(5, 5)] * 300 + [(9, 9)] * 40
SHORT = LengthBuckets(field="tokens", bounds=(8,), longer="drop")
MANY_SIZES = np.array(list(itertools.product(range(1, 66), range(1, 66)))).T


def plan_of(sizes, request, batch=2, *excluded):
    """The plan of samples with these (width, height)."""
    columns = tuple(np.array(sizes, np.int64).reshape(-1, 2).T)
    return make_plan([columns], request, batch, np.array(excluded, np.int64))


def bucketed(spec):
    """A stream of 30 images in one bucket, 7 batches of 4."""
    plan = plan_of([(100, 100)] * 30, SIZES, 4)
    return dataset_order(spec(rows=30, batch=4, buckets=plan.digest), plan=plan)


def mixture(spec, rows=(50, 13), ratios=(1, 2), batch=8, plan=None, *, of_others=False):
    """A stream of datasets; `of_others`: its spec names them in another order."""
    parts = [
        Part(f"content:{number:032x}", count, f"{number:032x}", share)
        for number, (count, share) in enumerate(zip(rows, shares(ratios, batch), strict=True))
    ]
    named = parts[::-1] if of_others else parts
    digests = {"mix": mix_digest(named), "buckets": plan and plan.digest}
    made = spec(rows=sum(rows), batch=batch, **digests)
    return order_of(made, [Selected(count) for count in rows], parts=parts, plan=plan)


def weighted(spec, weighting, of=ONE):
    """A stream whose spec names the weights `of`."""
    order = {"kind": "weighted", "weights": of.digest} if of else {}
    return dataset_order(spec(rows=2, batch=1, order=order), weighting=weighting)


def excluding(spec, excluded, rows=9):
    return dataset_order(spec(rows=rows, exclude=EXCLUDED.digest), excluded=excluded)


ERRORS = [
    # stoker.order.buckets: plans of image sizes and of lengths
    (lambda _: bucket_sizes(np.array([64, 333]), np.array([128, 64]), Buckets(resize=False)),
     UsageError, "multiple of divisor=64; image 1 has 333x64 pixels, and 1 do not fit: use resize"),
    (lambda _: make_plan([tuple(MANY_SIZES)], Buckets(resize=False, divisor=1), 1), UsageError,
     "4225 different sizes, but at most 4096 are allowed: use a"),
    (lambda _: plan_of([(100, 100)] * 3, SIZES, 4), UsageError,
     "has 3 samples for batches of 4, so an epoch could have no step"),
    (lambda _: plan_of([], SIZES, 4), UsageError, "buckets: the dataset has no sample"),
    (lambda _: plan_of([(9, 9), (0, 7)], SIZES), UsageError,
     "the image of id 1 has 0x7 pixels; expected sides from 1"),
    (lambda _: plan_of([(9, 9)] * 3 + [(0, 9)], SIZES, 1, 0, 2), UsageError, "the image of id 3 "),
    (lambda _: plan_of([(9, 9)] * 3, SIZES, 1, 0, 1, 2), UsageError,
     "the dataset has no sample that is not left out"),
    (lambda _: plan_of([(9, 9)] * 3, SIZES, 1, 1).locate(1), UsageError,
     "id 1 is in no bucket: the plan leaves it"),
    (lambda _: plan_of([(9, 9)] * 3, SIZES, 1).locate(3), UsageError,
     "expected an id from 0 to 2, got 3"),
    # dataset_order: what a spec names, and what is given for it
    (lambda spec: dataset_order(spec(contracts=Contracts(random=2))), VersionError,
     "contract 'random': the spec has version 2"),
    (lambda spec: dataset_order(spec(contracts=Contracts(order=2))), VersionError,
     "contract 'order': the spec has version 2"),
    (lambda spec: dataset_order(spec(order={"kind": "subset", "subset": "a" * 32})), UsageError,
     f"order.subset='{'a' * 32}'{SUPPORTED}"),
    (lambda spec: dataset_order(spec(order={"kind": "subset"})), UsageError,
     f"order.kind='subset'{SUPPORTED}"),
    (lambda spec: dataset_order(spec(order={"kind": "weighted"})), UsageError,
     "expected kind 'weighted' exactly if there are weights"),
    (lambda spec: dataset_order(spec(order={"weights": "0" * 32})), UsageError,
     "expected kind 'weighted' exactly if there are weights"),
    (lambda spec: dataset_order(spec(order={"kind": "full", "weights": "0" * 32})), UsageError,
     "expected kind 'weighted' exactly if there are weights"),
    (lambda spec: dataset_order(spec(order={"block": 0})), UsageError,
     "order.block: expected a length from 1, with shuffle"),
    (lambda spec: dataset_order(spec(order={"block": 5, "shuffle": False})), UsageError,
     "order.block: expected a length from 1, with shuffle"),
    (lambda spec: dataset_order(spec(buckets="b" * 32)), UsageError,
     f"the stream was made with the bucket plan {'b' * 32}, got None"),
    (lambda spec: dataset_order(spec(buckets="b" * 32), plan=plan_of([(9, 9)] * 100, SIZES)),
     UsageError, f"the stream was made with the bucket plan {'b' * 32}, got "),
    (lambda spec: dataset_order(spec(exclude="3:" + "c" * 32)), UsageError,
     f"the stream was made with the exclude list 3:{'c' * 32}, got None"),
    (lambda spec: excluding(spec, None), UsageError,
     f"the stream was made with the exclude list {EXCLUDED.digest}, got"),
    (lambda spec: excluding(spec, Excluded(())), UsageError,
     f"the stream was made with the exclude list {EXCLUDED.digest}, got"),
    (lambda spec: excluding(spec, Excluded([3, 6])), UsageError,
     f"the stream was made with the exclude list {EXCLUDED.digest}, got"),
    (lambda spec: excluding(spec, EXCLUDED, rows=5), UsageError,
     "has 5 samples, ids 0 to 4; the list names 5"),
    (lambda spec: dataset_order(spec(mix="a" * 32)), UsageError,
     f"the stream was made with the mixture {'a' * 32}, got None"),
    (lambda spec: weighted(spec, OTHER), UsageError,
     f"the stream was made with the weights {ONE.digest}, got"),
    (lambda spec: weighted(spec, None), UsageError,
     f"the stream was made with the weights {ONE.digest}, got"),
    (lambda spec: weighted(spec, ONE, of=None), UsageError,
     "the stream was made with the weights None, got"),
    # Weighting, shares, and order_of: mixtures and weights
    (lambda _: Weighting(np.array([1, 1e-30, 5])), UsageError,
     "1e-30 is too small next to 5.0: with 3 samples exp"),
    (lambda _: shares([], 4), UsageError, "expected 1 to 64 datasets, got 0"),
    (lambda _: shares([1.0] * 65, 4), UsageError, "expected 1 to 64 datasets, got 65"),
    (lambda _: shares([1.0, 0.0], 4), UsageError, "expected positive finite ratios, got 0.0"),
    (lambda _: shares([1.0, -2], 4), UsageError, "expected positive finite ratios, got -2"),
    (lambda _: shares([1.0, float("nan")], 4), UsageError,
     "expected positive finite ratios, got nan"),
    (lambda _: shares([True, 1.0], 4), UsageError, "expected positive finite ratios, got True"),
    (lambda _: shares([1.0, 1e-9], 4), UsageError,
     "ratio 1e-09 gives no row in 1000 batches of 4; expected at least 0.00025"),
    (lambda spec: mixture(spec, of_others=True), UsageError,
     "the stream was made with the mixture "),
    (lambda spec: mixture(spec, ratios=(1, 1), batch=64), UsageError,
     "a global batch of 64 from the 63 samples of all data"),
    (lambda spec: mixture(spec, (300, 40), (1, 0.002), 2, plan_of(SHAPES * 85, SIZES)), UsageError,
     "mix: dataset 1 has 1 rows in an epoch, by its ratio"),
    (lambda spec: mixture(spec, (300, 40), (1, 1), 2, plan_of(LENGTHS, SHORT)), UsageError,
     "mix: dataset 1 has no sample in any bucket"),
    # steps_per_epoch and rank_rows
    (lambda spec: steps_per_epoch(spec(rows=7, batch=8)), UsageError,
     "a global batch of 8 from 7 samples leaves no step when the incomplete batch is dropped: "
     "use a smaller batch size, or drop_last=False"),
    (lambda _: rank_rows(8, 2, 2), UsageError,
     "rank: expected one from 0 to world_size - 1 = 1, got 2"),
    (lambda _: rank_rows(8, -1, 2), UsageError,
     "rank: expected one from 0 to world_size - 1 = 1, got -1"),
    (lambda _: rank_rows(8, 0, 0), UsageError,
     "rank: expected one from 0 to world_size - 1 = -1, got 0"),
    # StreamOrder.rows: steps of an epoch, and rows of a step
    (lambda spec: dataset_order(spec(rows=10, batch=8, views=2)).rows(0, 1, 0, 8), UsageError,
     "step: expected one from 0 to 0 in epoch 0, got 1"),
    (lambda spec: dataset_order(spec(rows=10, batch=8, views=2)).rows(-1, 0, 0, 8), UsageError,
     "epoch: expected one from 0, got -1"),
    (lambda spec: dataset_order(spec(rows=10, batch=8, views=2)).rows(0, 0, 5, 17), UsageError,
     "rows: expected 0 <= lo <= hi <= 16, got 5 and 17"),
    (lambda spec: dataset_order(spec(rows=10, batch=8, views=2)).rows(0, 0, 5, 4), UsageError,
     "rows: expected 0 <= lo <= hi <= 16, got 5 and 4"),
    (lambda spec: bucketed(spec).rows(0, 7, 0, 4), UsageError,
     "step: expected one from 0 to 6 in epoch 0, got 7"),
    (lambda spec: bucketed(spec).rows(0, 0, 0, 5), UsageError,
     "rows: expected 0 <= lo <= hi <= 4, got 0 and 5"),
    (lambda spec: mixture(spec).rows(0, 7, 0, 8), UsageError,
     "step: expected one from 0 to 6 in epoch 0, got 7"),
    (lambda spec: mixture(spec).rows(0, 0, 0, 9), UsageError,
     "rows: expected 0 <= lo <= hi <= 8, got 0 and 9"),
    # find: where a sample is
    (lambda spec: dataset_order(spec(rows=10)).rows_of[0].find(0, -1), UsageError,
     "the stream leaves out sample -1, so"),
    (lambda spec: dataset_order(spec(rows=10)).rows_of[0].find(0, 10), UsageError,
     "the stream leaves out sample 10, so"),
    (lambda spec: dataset_order(spec(rows=10)).rows_of[0].find(-1, 3), UsageError,
     "epoch: expected one from 0, got -1"),
    (lambda spec: bucketed(spec).find(0, 30), UsageError, "expected an id from 0 to 29, got 30"),
    (lambda spec: bucketed(spec).find(0, 3, 31), UsageError,
     "sample 3: expected a visit of at most 30, "),
    (lambda spec: bucketed(spec).find(-1, 3), UsageError, "epoch: expected one from 0, got -1"),
    (lambda spec: mixture(spec).find(0, 63), UsageError, "expected an id from 0 to 62, got 63"),
    (lambda spec: mixture(spec).find(0, 5, 51), UsageError,
     "sample 5: expected a visit of at most 50, since an epoch"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[row[-1][:60] for row in ERRORS])
def test_errors(make_spec, call, error, message):
    with pytest.raises(error) as caught:
        call(make_spec)
    assert message in str(caught.value)
