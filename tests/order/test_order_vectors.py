"""docs/contracts/order.md, implemented once more from the page alone, against its vectors.

Nothing of stoker.order or stoker.rng is used by the independent implementation (`order_page` and
here); every test holds stoker.order to the same vectors.
"""

import hashlib
import json
import math
import struct
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from order_page import block_shuffled, permuted, radices, words

from stoker.order.buckets.bucket_plan import make_plan
from stoker.order.compose import dataset_order
from stoker.order.permutation import Permutation
from stoker.order.rank_rows import rank_rows, steps_per_epoch
from stoker.order.substitutes import MAX_ATTEMPTS
from stoker.protocol import version
from stoker.protocol.errors import UsageError
from stoker.protocol.length_buckets import LengthBuckets
from stoker.protocol.size_buckets import Buckets

CONTRACTS = Path(__file__).parents[2] / "docs" / "contracts"
VECTORS = json.loads((CONTRACTS / "vectors" / "order.json").read_text())
PAGE = (CONTRACTS / "order.md").read_text()


# --- the vectors, by the page and by stoker.order ------------------------------------------------


def test_the_page_the_vectors_and_the_code_are_of_one_version():
    assert VECTORS["contract"] == "order"
    assert VECTORS["version"] == version.ORDER == 1
    assert PAGE.startswith("# Order, version 1\n")


@pytest.mark.parametrize("case", VECTORS["permutations"], ids=lambda c: f"{c['n']}-{c['epoch']}")
def test_permutations(case):
    seed = int(case["seed"], 16)
    name = (case["n"], seed, case["epoch"])
    assert radices(case["n"]) == (case["a"], case["b"])
    first = words(seed, "stoker/order", case["part"], case["epoch"], case["level"], 0, 4)
    assert first == [int(key, 16) for key in case["first_round_keys"]]
    ids = [permuted(*name, case["part"], case["level"], x) for x in case["positions"]]
    assert ids == case["ids"]
    order = Permutation(*name, part=case["part"], level=case["level"])
    assert order.many(case["positions"]).tolist() == ids
    assert len(order.state) == 3 + case["rounds"]


@pytest.mark.parametrize("case", VECTORS["orders"], ids=lambda c: f"{c['rows']}-{c['block']}")
def test_orders(case, make_spec):
    seed, n = int(case["seed"], 16), case["rows"]
    if not case["shuffle"]:
        ids = list(range(n))
    elif case["block"] is None:
        ids = [permuted(n, seed, case["epoch"], 0, 0, x) for x in range(n)]
    else:
        ids = block_shuffled(n, case["block"], seed, case["epoch"])
    if case["tail"] == "pad":
        ids += [-1] * (-n % case["batch_size"])
    assert ids == case["ids"]
    spec = make_spec(
        rows=n,
        batch=case["batch_size"],
        tail=case["tail"],
        seed=seed,
        order={"shuffle": case["shuffle"], "block": case["block"]},
    )
    order, size = dataset_order(spec), case["batch_size"]
    steps = [order.rows(case["epoch"], step, 0, size).ids for step in range(order.steps(0))]
    whole = np.concatenate(steps).tolist()
    assert whole == ids[: len(whole)]
    assert len(ids) - len(whole) < size


@pytest.mark.parametrize("case", VECTORS["batches"], ids=lambda c: str(c["rows"]))
def test_batches_and_ranks(case, make_spec):
    n, size, views, step = case["rows"], case["batch_size"], case["views"], case["step"]
    steps = n // size if case["tail"] == "drop" else math.ceil(n / size)
    rows = size * views
    world = len(case["ranks"])
    assert steps == case["steps"]
    assert [step * size + r // views for r in range(rows)] == case["positions"]
    assert [r % views for r in range(rows)] == case["view"]
    cuts = [[k * rows // world, (k + 1) * rows // world] for k in range(world)]
    assert cuts == case["ranks"]
    spec = make_spec(rows=n, batch=size, tail=case["tail"], views=views)
    found = dataset_order(spec).rows(3, step, 0, rows)
    assert steps_per_epoch(spec) == steps
    assert (found.positions.tolist(), found.views.tolist()) == (case["positions"], case["view"])
    assert [list(rank_rows(rows, k, world)) for k in range(world)] == cuts


@pytest.mark.parametrize("case", VECTORS["places"], ids=lambda c: f"{c['epoch']}-{c['step']}")
def test_places(case, make_spec):
    n, size = case["rows"], case["batch_size"]
    steps = n // size if case["tail"] == "drop" else -(-n // size)
    assert steps_per_epoch(make_spec(rows=n, batch=size, tail=case["tail"])) == steps
    place = divmod(case["epoch"] * steps + case["step"] + case["count"], steps)
    assert list(place) == case["place"]


@pytest.mark.parametrize("case", VECTORS["substitutes"], ids=lambda c: str(c["attempt"]))
def test_substitutes(case, make_spec):
    seed, n, visit = int(case["seed"], 16), case["rows"], case["position"] + 1
    drawn = words(
        seed,
        "stoker/substitute",
        case["bad_id"],
        case["epoch"],
        visit * 2**16,
        case["attempt"],
        8,
    )
    accepted = next(w * n for w in drawn if w * n % 2**64 >= 2**64 % n)
    assert (accepted >> 64, visit) == (case["id"], case["visit"])
    spec = make_spec(rows=n, batch=1, seed=seed)
    place = (case["epoch"], case["position"], case["bad_id"], case["attempt"])
    assert dataset_order(spec).substitute(*place) == (case["id"], visit)


def test_substitutes_follow_one_key_of_the_bad_row(make_spec):
    order = dataset_order(make_spec(rows=10**6, seed=1))
    tried = [order.substitute(2, 10, 77, k) for k in range(1, MAX_ATTEMPTS + 1)]
    assert len(set(tried)) == MAX_ATTEMPTS
    assert {visit for _, visit in tried} == {11}
    for other in [(3, 10, 77, 1), (2, 11, 77, 1), (2, 10, 78, 1)]:
        assert order.substitute(*other)[0] != tried[0][0]
    for attempt in (0, 17):
        with pytest.raises(UsageError, match=f"expected attempt 1 to 16, got {attempt}"):
            order.substitute(2, 10, 77, attempt)


# --- buckets, by the page ------------------------------------------------------------------------

BUCKETS = json.loads((CONTRACTS / "vectors" / "buckets.json").read_text())


def size_of(w, h, request):
    """The best of all allowed sizes, tried one after the other."""
    if not request.get("resize", True):
        return w, h
    sizes = [tuple(size) for size in request.get("sizes", [])]
    upscale = request.get("upscale", True)
    if sizes and not upscale:
        fitting = [(W, H) for W, H in sizes if w >= W and h >= H]
        sizes = fitting or [min(sizes, key=lambda size: (size[0] * size[1], size[0]))]
    elif not sizes:
        d, parts = request.get("divisor", 64), round(1000 * request.get("max_ratio", 64))
        most = [65535 if upscale else max(d, side) for side in (w, h)]
        for W in range(d, min(most[0], request["max_area"] // d) + 1, d):
            for H in range(d, min(most[1], request["max_area"] // W) + 1, d):
                if 1000 * max(W, H) <= parts * min(W, H):
                    sizes.append((W, H))

    def score(size):
        W, H = size
        kept = power = 2**30 * min(W * h, H * w) // max(W * h, H * w)
        for _ in range(request.get("cut_weight", 7) - 1):
            power = power * kept // 2**30
        return power * W * H, kept, W

    return max(sizes, key=score)


def planned(request, batch_size):
    """[(W, H, n, B)] and the members of each, by the page."""
    pictures = [tuple(size) for size in BUCKETS["sizes"]]
    where = [size_of(w, h, request) for w, h in pictures]
    most = max(w * h for w, h in request.get("sizes", where))

    def batch_of(size):
        if request.get("constant", "rows") == "rows":
            return batch_size
        found = batch_size * request.get("max_area", most) // (size[0] * size[1])
        return min(max(found, 1), request.get("max_rows", found))

    alive = sorted(set(where))
    while request.get("leftovers") == "merge" and len(alive) > 1:
        small = [size for size in alive if where.count(size) < batch_of(size)]
        if not small:
            break
        least = min(small, key=lambda size: (where.count(size), size))
        alive.remove(least)
        for number, (w, h) in enumerate(pictures):
            if where[number] == least:
                fits = alive
                if not request.get("upscale", True):
                    fits = [(W, H) for W, H in alive if w >= W and h >= H] or alive
                kept = {(W, H): Fraction(min(W * h, H * w), max(W * h, H * w)) for W, H in fits}
                where[number] = max(fits, key=lambda s: (kept[s], s[0] * s[1], s[0]))
    members = [[n for n, found in enumerate(where) if found == size] for size in alive]
    table = [[*s, len(ids), batch_of(s)] for s, ids in zip(alive, members, strict=True)]
    return table, members


def epoch_by_the_page(case, table, members, epoch):
    """The steps of an epoch: [bucket, [[id, its epoch, its position], ...]]."""
    seed, steps = case["seed"], []
    for bucket, (w, h, n, size) in enumerate(table):

        def place(of, x, bucket=bucket, part=2**16 * w + h, n=n):
            if x >= n:
                return [-1, of, x]
            at = permuted(n, seed, of, part, 2, x) if case["shuffle"] else x
            return [members[bucket][at], of, x]

        if case["tail"] == "pad" or case["request"].get("leftovers") == "drop":
            count = math.ceil(n / size) if case["tail"] == "pad" else n // size
            starts = [(epoch, k * size) for k in range(count)]
            rows = [[place(e, x + i) for i in range(size)] for e, x in starts]
        else:
            numbers = range(epoch * n // size, (epoch + 1) * n // size)
            rows = [[place(*divmod(k * size + i, n)) for i in range(size)] for k in numbers]
        steps += [[bucket, row] for row in rows]
    if not case["shuffle"]:
        return steps
    return [steps[permuted(len(steps), seed, epoch, 0, 3, s)] for s in range(len(steps))]


@pytest.mark.parametrize("case", BUCKETS["cases"], ids=range(len(BUCKETS["cases"])))
def test_buckets(case, make_spec):
    table, members = planned(case["request"], case["batch_size"])
    assert (table, members) == (case["buckets"], case["members"])
    epochs = [epoch_by_the_page(case, table, members, epoch) for epoch in range(3)]
    assert epochs == case["epochs"]
    plan = make_plan(
        [tuple(np.array(BUCKETS["sizes"], np.int32).T)],
        Buckets(**case["request"]),
        case["batch_size"],
    )
    assert plan.digest == case["digest"]
    every = [number for ids in members for number in ids]
    packed = struct.pack(f"<{len(every)}i", *every)
    said = {
        "version": 1,
        "request": {name: getattr(plan.request, name) for name in plan.request.__struct_fields__},
        "batch_size": case["batch_size"],
        "buckets": table,
        "members": hashlib.blake2b(packed, digest_size=16).hexdigest(),
    }
    if (ratio := plan.request.max_ratio) is not None:
        said["request"]["max_ratio"] = {"$f64": struct.pack(">d", ratio).hex()}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    assert hashlib.blake2b(text.encode(), digest_size=16).hexdigest() == case["digest"]
    spec = make_spec(
        rows=len(BUCKETS["sizes"]),
        batch=case["batch_size"],
        tail=case["tail"],
        seed=case["seed"],
        views=case["views"],
        order={"shuffle": case["shuffle"]},
        buckets=plan.digest,
    )
    order = dataset_order(spec, plan=plan)
    for epoch, steps in enumerate(epochs):
        assert order.steps(epoch) == len(steps)
        for step, (bucket, rows) in enumerate(steps):
            found = order.rows(epoch, step, 0, len(rows) * case["views"])
            columns = (found.ids, found.epochs, found.positions)
            got = [list(row) for row in zip(*(c.tolist() for c in columns), strict=True)]
            assert order.bucket(epoch, step) == bucket
            assert got[:: case["views"]] == rows
    bucket, rows = epochs[0][0]
    bad, _, position = rows[0]
    for attempt, (number, visit) in enumerate(case["substitutes"], 1):
        assert order.substitute(0, position, bad, attempt) == (number, visit)
        assert number in members[bucket]
        assert visit == position + 1


LENGTHS = json.loads((CONTRACTS / "vectors" / "lengths.json").read_text())


def length_of(length, request):
    """The length of a sequence's bucket, by the page; None without a bucket."""
    bounds = request.get("bounds")
    if bounds:
        found = next((bound for bound in bounds if bound >= max(length, 1)), None)
    else:
        multiple, most = request["multiple"], request.get("max_length", 2**20)
        found = None
        if length <= most:
            found = min(math.ceil(max(length, 1) / multiple) * multiple, most)
    if found is None and request["longer"] == "truncate":
        return bounds[-1] if bounds else request["max_length"]
    return found


def planned_lengths(request, batch_size):
    """[[L, 0, n, B], ...] and the members of each, by the page."""
    where = [length_of(length, request) for length in LENGTHS["lengths"]]
    reference = (request.get("bounds") or [request.get("max_length")])[-1]
    reference = reference or max(found for found in where if found)

    def batch_of(length):
        if request.get("constant", "rows") == "rows":
            return batch_size
        return max(batch_size * reference // length, 1)

    alive = sorted({found for found in where if found})
    while request.get("leftovers") == "merge" and len(alive) > 1:
        small = [length for length in alive if where.count(length) < batch_of(length)]
        if not small:
            break
        gone = min(small, key=lambda length: (where.count(length), length))
        if gone == alive[-1]:
            gone = alive[-2]
        into = alive[alive.index(gone) + 1]
        alive.remove(gone)
        where = [into if found == gone else found for found in where]
    members = [[n for n, found in enumerate(where) if found == length] for length in alive]
    table = [[n, 0, len(ids), batch_of(n)] for n, ids in zip(alive, members, strict=True)]
    return table, members


@pytest.mark.parametrize("case", LENGTHS["cases"], ids=range(len(LENGTHS["cases"])))
def test_buckets_of_sequences(case, make_spec):
    table, members = planned_lengths(case["request"], case["batch_size"])
    assert (table, members) == (case["buckets"], case["members"])
    column = np.array(LENGTHS["lengths"], np.int64)
    request = LengthBuckets(field="tokens", **case["request"])
    plan = make_plan([(column, column)], request, case["batch_size"])
    assert plan.digest == case["digest"]
    assert [list(msgspec.structs.astuple(bucket)[:4]) for bucket in plan.buckets] == table
    assert [plan.ids(number).tolist() for number in range(len(table))] == members
    spec = make_spec(
        rows=len(column), batch=case["batch_size"], seed=case["seed"],
        order={"shuffle": case["shuffle"]}, buckets=plan.digest,
    )  # fmt: skip
    order = dataset_order(spec, plan=plan)
    told = {**case, "tail": "drop"}
    for epoch in range(2):
        steps = epoch_by_the_page(told, table, members, epoch)
        assert [bucket for bucket, _ in steps] == case["epochs"][epoch]
        for step, (bucket, rows) in enumerate(steps):
            assert order.bucket(epoch, step) == bucket
            found = order.rows(epoch, step, 0, order.positions(epoch, step)).ids
            assert found.tolist() == [number for number, _, _ in rows]
