"""Buckets through a daemon: shapes, ids, ranks, lengths, resume, replay, and refusals."""

import contextlib
import logging
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from daemons import serving

from stoker import ops
from stoker.client import Buckets, LengthBuckets, Loader
from stoker.client.opened_stream import steps_of
from stoker.dataset import schema, write
from stoker.order.buckets.sizes import bucket_size
from stoker.pipeline import outputs, pipeline
from stoker.protocol.errors import BuildError, ProtocolError, UsageError
from stoker.protocol.messages import Opened
from stoker.protocol.size_buckets import Bucket

pytestmark = pytest.mark.as_a_user

SIZES = [(60, 60), (60, 100), (100, 60), (80, 80), (50, 100)] * 7
BUCKETS = Buckets(max_area=48 * 48, divisor=16)


@pipeline
def fitted(sample):
    image = ops.fit_bucket(sample.image)
    return {"image": image, **ops.crop_numbers(sample.image, image)}


@pipeline
def unfitted(sample):
    return {"image": ops.resize(sample.image, size=(16, 16))}


@pipeline
def words(sample):
    text = ops.fit_length(sample.text)
    return {
        "text": outputs.pad(text, fill=255),
        "bound": outputs.pad(text, to="bound"),
        "ragged": outputs.ragged(text),
    }


@pipeline
def plain_words(sample):
    return {"text": outputs.ragged(sample.text)}


@pytest.fixture(scope="module")
def pieces():
    """The paragraphs of a license."""
    text = Path(__file__).parents[2] / "LICENSE"
    return [" ".join(piece.split()).encode() for piece in text.read_text().split("\n\n")][:40]


@pytest.fixture(scope="module")
def address(tmp_path_factory, pieces):
    """Address of a daemon that serves `texts`, the pieces, and `shapes`, images of the SIZES."""
    folder = tmp_path_factory.mktemp("client-buckets")
    rows = [{"text": piece, "number": 0.5 * n} for n, piece in enumerate(pieces)]
    write(folder / "texts", [schema.blob("text"), schema.scalar("number", "float32")], rows)
    photo = skimage.data.chelsea()
    rows = [{"image": photo[n : n + h, 2 * n : 2 * n + w].copy()} for n, (w, h) in enumerate(SIZES)]
    write(folder / "shapes", [schema.image()], rows)
    flags = [f"--dataset={name}={folder / name}" for name in ("texts", "shapes")]
    with serving(folder, *flags, "--workers=1") as running:
        yield running.address


@pytest.fixture(scope="module")
def load(address):
    """load(**arguments) -> a Loader of the shapes."""

    def make(**more) -> Loader:
        arguments = {"pipeline": fitted, "global_batch_size": 4, "device": "numpy"}
        return Loader(address, dataset="shapes", **{"buckets": BUCKETS, **arguments, **more})

    return make


@pytest.fixture(scope="module")
def load_texts(address):
    """load_texts(**arguments) -> a Loader of the texts."""

    def make(pipeline, **more) -> Loader:
        given = {"global_batch_size": 2, "device": "numpy", **more}
        return Loader(address, dataset="texts", pipeline=pipeline, **given)

    return make


@pytest.mark.slow
def test_every_sample_comes_in_the_size_of_its_bucket(load):
    seen, lengths = Counter(), []
    with load(seed=4) as loader:
        for epoch in range(4):
            loader.set_epoch(epoch)
            announced, count = len(loader), 0
            for batch in loader:
                count += 1
                height, width = batch.image.shape[1:3]
                for number in batch.index.tolist():
                    assert bucket_size(*SIZES[number], BUCKETS) == (width, height)
                original = [SIZES[number] for number in batch.index.tolist()]
                sides = zip(batch.original_width, batch.original_height, strict=True)
                assert [tuple(map(int, pair)) for pair in sides] == original
                seen.update(batch.index.tolist())
                assert (batch.drawn_as[:, 0] <= epoch).all()
            assert count == announced == len(loader)
            lengths.append(count)
    assert len(set(lengths)) > 1, "epochs differ in length"
    assert set(seen) == set(range(len(SIZES)))
    assert set(seen.values()) <= {3, 4}


@pytest.mark.parametrize(
    ("request_", "sizes"),
    [
        (
            Buckets(max_area=80 * 80, divisor=16, upscale=False),
            {(48, 48), (48, 80), (80, 48), (80, 80), (48, 96)},
        ),
        (Buckets(max_area=48 * 48, divisor=16, max_ratio=1), {(48, 48)}),
        (Buckets(max_area=48 * 48, divisor=16, cut_weight=2), {(48, 48), (32, 64), (64, 32)}),
        (Buckets(sizes=[(32, 64), (48, 48)], divisor=16), {(32, 64), (48, 48)}),
    ],
)
def test_other_ways_to_choose_sizes(load, request_, sizes):
    """No upscaling, a limit of the ratio, another weight of what is cut off, a table."""
    with load(buckets=request_, last="pad") as loader:
        shapes = {batch.image.shape[2:0:-1] for batch in loader if batch.valid.any()}
    assert shapes == sizes
    assert shapes == {bucket_size(*size, request_) for size in SIZES}


@pytest.mark.slow
def test_every_epoch_is_accounted_for_in_the_log(load, caplog):
    caplog.set_level(logging.INFO, "stoker.client")

    def told():
        return [one.getMessage() for one in caplog.records if one.name == "stoker.client"]

    with load(seed=4) as loader:
        for epoch in range(3):
            delivered = sum(len(batch.index) for batch in loader)
            found = loader.account(epoch)
            assert (found.epoch, found.steps, found.delivered) == (epoch, len(loader), delivered)
            assert found.carried_in + found.samples == (
                found.delivered + found.carried_out + found.dropped
            )
            assert (found.samples, found.merged, found.excluded) == (len(SIZES), 0, 0)
            assert told()[epoch:] == [str(found)]
        assert loader.account(2).carried_in == loader.account(1).carried_out > 0
        with pytest.raises(UsageError, match="epoch=-1: expected an integer from 0"):
            loader.account(-1)
    assert told()[2] == (
        "epoch 2: 9 steps; 6 carried in + 35 = 36 delivered + 5 carried on + 0 dropped"
    )


def test_ranks_but_the_first_say_nothing(load, caplog):
    caplog.set_level(logging.INFO, "stoker.client")
    with load(rank=1, world_size=2) as other:
        assert [batch.step for batch in other] == list(range(len(other)))
    assert not caplog.messages


@pytest.mark.slow
def test_sequences_come_in_buckets_of_their_lengths(load_texts, pieces):
    """Real text, as bytes: 24 pieces of a license."""
    lengths = [len(piece) for piece in pieces]
    wanted = LengthBuckets(
        field="text", bounds=(32, 64, 200), longer="drop", constant="tokens", max_rows=9
    )
    with load_texts(words, buckets=wanted) as loader:
        account = loader.account(0)
        seen = Counter()
        for batch in loader:
            longest = max(lengths[number] for number in batch.index.tolist())
            bound = batch.bound.shape[1]
            assert bound in (32, 64, 200)
            assert longest <= bound
            assert batch.text.shape == (len(batch.index), longest)
            assert batch.real("text").sum(1).tolist() == [lengths[n] for n in batch.index.tolist()]
            assert len(batch.index) == min(2 * 200 // bound, 9)
            assert [len(row) for row in batch.ragged] == [lengths[n] for n in batch.index.tolist()]
            seen.update(batch.index.tolist())
        assert seen.total() == account.delivered
        left_out = [number for number, length in enumerate(lengths) if length > 200]
        assert account.excluded == len(left_out) > 0
        assert not set(left_out) & set(seen)
        assert f"; {len(left_out)} excluded" in str(account)
        replayed = loader.replay_row(batch, 0)
        assert np.array_equal(replayed.output("bound"), batch.bound[0][: lengths[batch.index[0]]])


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_batches_are_those_of_a_list_for_each_size(load, ranks):
    """Not shuffled: each size has a queue of ids, which is carried from epoch to epoch."""
    sizes = [bucket_size(w, h, BUCKETS) for w, h in SIZES]
    queues = {size: [] for size in sizes}
    with contextlib.ExitStack() as stack:
        options = {"shuffle": False, "world_size": ranks}
        loaders = [stack.enter_context(load(rank=rank, **options)) for rank in range(ranks)]
        for _ in range(3):
            for number, size in enumerate(sizes):
                queues[size].append(number)
            for parts in zip(*loaders, strict=True):
                ids = np.concatenate([part.index for part in parts]).tolist()
                queue = queues[sizes[ids[0]]]
                assert ids == queue[:4]
                del queue[:4]
            assert all(len(queue) < 4 for queue in queues.values())


@pytest.mark.slow
def test_ranks_have_one_bucket_at_a_time_and_a_cursor_serves_any_number_of_them(load):
    with load() as whole, load(rank=0, world_size=2) as one, load(rank=1, world_size=2) as other:
        for batch, left, right in zip(whole, one, other, strict=True):
            assert left.image.shape[1:] == right.image.shape[1:]
            parts = np.concatenate([left.image, right.image])
            assert np.array_equal(parts, batch.image)
        one.skip(0)
        state = one.state_dict()
        rest = [batch.index.tolist() for batch in whole]
    with load() as again:
        again.load_state_dict(state)
        assert [batch.index.tolist() for batch in again] == rest


@pytest.mark.slow
def test_a_carried_row_is_replayed_as_it_was(load):
    with load(seed=1, views=2) as loader:
        loader.set_epoch(1)
        replayed = 0
        for batch in loader:
            for row in np.flatnonzero(batch.drawn_as[:, 0] < 1)[:1]:
                found = loader.replay_row(batch, int(row))
                assert np.array_equal(found.output("image"), batch.image[row])
                assert found.epoch == 0
                replayed += 1
    assert replayed


@pytest.mark.slow
def test_constant_pixels_give_batches_of_many_sizes(load):
    wanted = Buckets(max_area=64 * 64, divisor=32, max_side=64, constant="pixels", max_rows=7)
    with load(buckets=wanted, device="cpu") as loader:
        rows = {tuple(batch.image.shape[1:3]): len(batch.index) for batch in loader}
    assert rows == {(64, 64): 4, (64, 32): 7, (32, 64): 7}


def opened(spec=None, steps=2, buckets=((32, 32, 9, 4),), leftovers="carry") -> Opened:
    return Opened(
        1, spec or {"tail": "drop"}, "0" * 32, steps, 4, 0, 1, 3, 4096, [], [],
        [Bucket(*one, one[2]) for one in buckets], leftovers,
    )  # fmt: skip


def test_steps_of_an_epoch():
    assert [steps_of(opened())(epoch) for epoch in range(4)] == [2, 2, 2, 3]
    assert steps_of(opened(steps=3, buckets=()))(7) == 3


def account_without_buckets(_, texts) -> None:
    with texts(plain_words) as loader:
        loader.account(0)


def skip_too_many(shapes, _) -> None:
    with shapes() as loader:
        loader.skip(99)


WANTED = LengthBuckets(field="text", multiple=64)
ONE_SIZE = Buckets(max_area=96 * 96, divisor=96, constant="pixels", max_rows=3)
ERRORS = [
    (account_without_buckets, UsageError, "account: the stream has no buckets, so every epoch"),
    (skip_too_many, UsageError, r"skip\(99\): expected an integer"),
    (lambda shapes, _: shapes(buckets=None), BuildError,
     "there are no buckets: pass buckets= to the Loader"),
    (lambda shapes, _: shapes(buckets=ONE_SIZE, rank=0, world_size=4), UsageError,
     "rank 0 of 4 has no row: a global batch has 3 rows"),
    (lambda shapes, _: shapes(global_batch_size=50), UsageError,
     "a batch is larger than every bucket"),
    (lambda shapes, _: shapes(pipeline=unfitted), BuildError,
     "does not read the size of a sample's bucket"),
    (lambda _, texts: texts(plain_words, buckets=WANTED), BuildError,
     "use ops.fit_bucket, of sequences ops.fit_length, or"),
    (lambda _, texts: texts(words, buckets=LengthBuckets(field="number", multiple=64)), UsageError,
     "field 'number' .* has no length: expected an array"),
    (lambda *_: steps_of(opened(steps=3)), ProtocolError,
     "expected 2 steps in epoch 0, from the buckets, got"),
    (lambda *_: steps_of(opened({"tail": "pad"}, leftovers="drop")), ProtocolError,
     "expected 3 steps in epoch 0, from the buckets, got"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:60] for *_, message in ERRORS]
)
def test_impossible_bucket_requests_are_refused(load, load_texts, call, error, message):
    with pytest.raises(error, match=message):
        call(load, load_texts)
