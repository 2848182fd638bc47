"""Buckets through a private daemon: shapes, ids, ranks, lengths, resume, replay, and refusals."""

from collections import Counter

import numpy as np
import pytest
import skimage.data

from stoker import ops
from stoker.client import Buckets, Loader
from stoker.client.opening import steps_of
from stoker.dataset import schema, write
from stoker.order.buckets.sizes import bucket_size
from stoker.pipeline import pipeline
from stoker.protocol.buckets import Bucket
from stoker.protocol.errors import BuildError, ProtocolError, UsageError
from stoker.protocol.messages import Opened

SIZES = [(60, 60), (60, 100), (100, 60), (80, 80), (50, 100)] * 7
BUCKETS = Buckets(max_area=48 * 48, divisor=16)


@pipeline
def fitted(sample):
    image = ops.fit_bucket(sample.image)
    return {"image": image, **ops.crop_numbers(sample.image, image)}


@pipeline
def unfitted(sample):
    return {"image": ops.resize(sample.image, size=16)}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    dest = tmp_path_factory.mktemp("client-buckets") / "shapes"
    photo = skimage.data.chelsea()
    rows = [{"image": photo[n : n + h, 2 * n : 2 * n + w].copy()} for n, (w, h) in enumerate(SIZES)]
    write(dest, [schema.image()], rows)
    return dest


@pytest.fixture(scope="module")
def load(shapes):
    """load(**arguments) -> a Loader; one daemon serves them all."""

    def make(**more) -> Loader:
        arguments = {"pipeline": fitted, "global_batch_size": 4, "device": "numpy", "workers": 1}
        return Loader(shapes, **{"buckets": BUCKETS, **arguments, **more})

    with make():
        yield make


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


@pytest.mark.slow
def test_what_cannot_be_is_refused(load):
    with pytest.raises(BuildError, match="does not read the size of a sample's bucket"):
        load(pipeline=unfitted)
    with pytest.raises(BuildError, match="there are no buckets: give buckets= to the Loader"):
        load(buckets=None)
    with pytest.raises(UsageError, match=r"expected stoker.client.Buckets, for example Buckets\("):
        load(buckets={"max_area": 99})
    with pytest.raises(UsageError, match="leaves incomplete batches out, and drop_last=False"):
        load(buckets=Buckets(max_area=48 * 48, divisor=16, leftovers="drop"), drop_last=False)
    with pytest.raises(UsageError, match="a batch is larger than every bucket"):
        load(global_batch_size=50)
    wanted = Buckets(max_area=96 * 96, divisor=96, constant="pixels", max_rows=3)
    with pytest.raises(UsageError, match="rank 0 of 4 has no row: a global batch has 3 rows"):
        load(buckets=wanted, rank=0, world_size=4)
    with load() as loader, pytest.raises(UsageError, match=r"skip\(99\): expected an integer"):
        loader.skip(99)


def opened(spec=None, steps=2, buckets=((32, 32, 9, 4),), leftovers="carry") -> Opened:
    return Opened(
        1, spec or {"tail": "drop"}, "0" * 32, steps, 4, 0, 1, 3, 4096, [], [],
        [Bucket(*one) for one in buckets], leftovers,
    )  # fmt: skip


def test_a_daemon_that_contradicts_itself_is_not_believed():
    assert [steps_of(opened())(epoch) for epoch in range(4)] == [2, 2, 2, 3]
    assert steps_of(opened(steps=3, buckets=()))(7) == 3
    with pytest.raises(ProtocolError, match="expected 2 steps in epoch 0, as the buckets say, got"):
        steps_of(opened(steps=3))
    with pytest.raises(ProtocolError, match="opened a stream that cannot be: buckets: leftovers"):
        steps_of(opened({"tail": "pad"}, leftovers="drop"))


def test_what_is_no_request_is_refused():
    assert Buckets.from_bytes(BUCKETS.to_bytes()) == BUCKETS
    for data in (b"", b"{}x", b'{"max_area":"1"}', b'{"area":1}', b"[1]"):
        with pytest.raises(UsageError, match=r"this is no request for buckets|give max_area"):
            Buckets.from_bytes(data)
