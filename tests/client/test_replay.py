"""`loader.replay` and `batch.params` through the real daemon: the batch's own bytes and draws."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import law_pipelines
import numpy as np
import pytest
from law_rig import daemon, dataset, photographs, serving, source

from stoker.client import Loader
from stoker.client.batches.batch_params import read_params
from stoker.dataset import open_dataset
from stoker.pipeline import pipeline
from stoker.pipeline.engine.drawing import drawn_by
from stoker.pipeline.planning.planner import bind
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import ClosedError, PeerError, SampleError, UsageError
from stoker.server.rows.field_states import field_states
from stoker.server.rows.reference import make_spec, reference_batches

__all__ = ["daemon", "dataset", "photographs", "source"]

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
ROWS, BATCH = 37, 8
STEPS = ROWS // BATCH


@pytest.fixture(scope="module")
def broken(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photographs with the bytes of sample 5 spoilt."""
    path = tmp_path_factory.mktemp("broken") / "packed"
    shutil.copytree(dataset, path)
    with open_dataset(path) as opened:
        file, offset = opened.locate("image", 5)
    with open(path / file.name, "r+b") as stored:
        stored.seek(offset)
        stored.write(bytes(64))
    return path


@pytest.fixture(scope="module")
def address(dataset: Path, broken: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a daemon of the photographs, whole and broken, for tests that leave it alive."""
    datasets = {"photos": dataset, "broken": broken}
    with serving(tmp_path_factory.mktemp("shared"), datasets, workers=2) as served:
        yield served.address


def load(address: str, **more) -> Loader:
    usual = {"dataset": "photos", "pipeline": "crops", "batch_size": BATCH, "seed": 11}
    return Loader(address, device="numpy", **{**usual, **more})


def test_outputs_are_the_bytes_of_the_batches(address) -> None:
    with load(address, views=2, freeze={"horizontal_flip": "epoch"}) as loader:
        applied = set()
        for epoch in (0, 1):
            for batch in loader:
                for row in (0, 5):
                    number = int(batch.index[row])
                    found = loader.replay_row(batch, row)
                    assert found.view == row % 2
                    assert (found.seed, found.id, found.epoch) == (11, number, epoch)
                    assert found.pipeline_id == loader.spec.pipeline
                    for name in ("image", "mask", "label"):
                        assert found.output(name).dtype == batch[name].dtype
                        assert found.output(name).tobytes() == batch[name][row].tobytes()
                    crop, flip = found.steps
                    assert (crop.op, crop.applied, flip.op) == (
                        "random_resized_crop", True, "horizontal_flip",
                    )  # fmt: skip
                    assert flip.applied == bool(flip.parameters["flip"])
                    turned = crop.values[0].array[:, :: -1 if flip.applied else 1]
                    assert np.array_equal(flip.values[0].array, turned)
                    applied.add(flip.applied)
        assert applied == {True, False}


def test_mixed_rows_are_replayed_with_their_partners(address) -> None:
    """Rank 1 of 2 gets rows 6 to 11 of 12: both groups are cut."""
    arguments = {"pipeline": "mixed", "batch_size": None, "global_batch_size": 12, "params": True}
    with load(address, rank=1, world_size=2, **arguments) as loader:
        mixed = 0
        for batch in loader:
            for row in (0, 4):
                found = loader.replay_row(batch, row)
                for name in ("image", "mask", "picture", "label"):
                    assert found.output(name).tobytes() == batch[name][row].tobytes()
                for step in found.steps:
                    if step.op in ("cutmix", "mixup"):
                        told = batch.params[step.stream][row]
                        assert told["made"] == step.made
                        if not step.made:
                            assert "its branch was not taken" in step.why
                            continue
                        assert step.parameters == {n: told[n] for n in step.parameters}
                        assert step.applied == (step.parameters["partner"] >= 0)
                        mixed += step.applied
        assert mixed > 2


@pytest.mark.parametrize("policy", ["replace", "mask"])
def test_rows_beside_a_bad_sample_are_those_of_the_reference(address, broken, policy) -> None:
    """Sample 5 cannot be decoded: it is never a partner, in any worker."""
    graph = law_pipelines.mixed.graph()
    spec = make_spec(broken, graph, batch_size=9, seed=11, on_error=policy)
    options = {"dataset": "broken", "pipeline": "mixed", "on_error": policy, "world_size": 2}
    parts = []
    for rank in range(2):
        with load(address, batch_size=None, global_batch_size=9, rank=rank, **options) as loader:
            parts.append([{name: np.array(batch[name]) for name in batch} for batch in loader])
    expected = [batch for _, batch in reference_batches(broken, graph, spec)]
    assert len(expected) == len(parts[0]) == len(parts[1])
    other = 0
    for batch, *cuts in zip(expected, *parts, strict=True):
        for name, array in batch.items():
            assert np.array_equal(array, np.concatenate([cut[name] for cut in cuts])), name
        other += int((batch["index"] != batch["requested"]).sum())
    assert other == 1


def test_substitutes_and_cut_rows_are_replayed_as_they_were_computed(address) -> None:
    """Sample 5 cannot be decoded; rank 1 of 2 gets rows 3 to 5 of 6, of two views each."""
    arguments = {"on_error": "replace", "views": 2, "rank": 1, "world_size": 2, "seed": 3}
    sizes = {"batch_size": None, "global_batch_size": 3}
    with load(address, dataset="broken", **sizes, **arguments) as loader:
        substitutes = 0
        for batch in (batch for _ in range(4) for batch in loader):
            assert loader._connection.stream.opened.first_row == 3
            for row in range(3):
                replaced = batch.index[row] != batch.requested[row]
                if replaced or row == batch.step == 0:
                    found = loader.replay_row(batch, row)
                    assert found.output("image").tobytes() == batch.image[row].tobytes()
                    assert (found.id, found.view) == (batch.index[row], (3 + row) % 2)
                    assert (found.visit > 0) == replaced
                    substitutes += replaced
        assert substitutes
        with pytest.raises(UsageError, match="row=3: expected an integer from 0 to 2"):
            loader.replay_row(batch, 3)


def test_a_row_without_a_sample_cannot_be_replayed(address) -> None:
    with load(address, last="pad") as loader:
        *_, last = [batch for batch in loader if batch.valid.any()]
        with pytest.raises(UsageError, match="row 7 holds no sample: its index is -1"):
            loader.replay_row(last, 7)


def test_impossible_replays_are_refused_and_delivery_goes_on(daemon) -> None:
    with daemon(2, "replayer.start:segv:1") as served:
        with load(served.address) as loader:
            batches = iter(loader)
            next(batches)
            with pytest.raises(SampleError, match=r"process that replays the sample died \(killed"):
                loader.replay(0, 0)
            with pytest.raises(UsageError, match="expected an id from 0 to 36, got 37"):
                loader.replay(37, 0)
            with pytest.raises(UsageError, match="expected a view from 0 to 0, got 1"):
                loader.replay(0, 0, view=1)
            with pytest.raises(UsageError, match="sample_id=-1: expected an integer from 0"):
                loader.replay(-1, 0)
            with pytest.raises(UsageError, match=r"epoch=1\.5: expected an integer from 0"):
                loader.replay(0, 1.5)
            assert len(list(batches)) == STEPS - 1
        with pytest.raises(ClosedError):
            loader.replay(0, 0)


def test_a_replay_that_is_given_up_disturbs_nobody(daemon) -> None:
    """The replayer stops: the loader gives up in time, and the session's end ends the process."""
    with daemon(2, "replayer.start:stop:1") as served, load(served.address) as loader:
        next(iter(loader))
        loader._connection._timeout_s = 0.2
        with pytest.raises(PeerError, match="did not answer in time"):
            loader.replay(0, 0)
        loader._connection._timeout_s = 60.0
        with pytest.raises(UsageError, match="expected one at a time per session"):
            loader.replay(0, 0)
        assert sum(1 for _ in loader) == STEPS


def test_a_private_daemon_replays_too(dataset) -> None:
    with Loader(
        dataset, pipeline=law_pipelines.crops, batch_size=BATCH, device="numpy", workers=1
    ) as loader:
        batch = next(iter(loader))
        found = loader.replay(int(batch.index[2]), 0)
        assert found.output("image").tobytes() == batch.image[2].tobytes()
        assert {value.name for value in found.fields} == {"label", "image", "mask"}


def test_params_are_the_draws_of_every_row_and_change_nothing_else(address) -> None:
    with load(address, views=2) as plain:
        expected = [batch_digest(batch, batch.epoch, batch.step) for batch in plain]
        assert not hasattr(next(iter(plain)), "params")
    with load(address, views=2, params=True) as loader:
        assert loader.spec == plain.spec
        found = []
        for batch in loader:
            assert list(batch) == ["image", "mask", "label", "index", "requested", "valid"]
            found.append(batch_digest(batch, batch.epoch, batch.step))
            assert set(batch.params) == {"random_resized_crop", "horizontal_flip"}
            flips = batch.params["horizontal_flip"]
            assert flips.shape == (2 * BATCH,)
            assert flips["made"].all()
            for row in (1, 4):
                step = loader.replay(int(batch.index[row]), 0, view=row % 2).steps[1]
                assert step.parameters == {"flip": flips["flip"][row]}
        assert found == expected


def test_params_through_seeks_and_hoarding_and_without_draws(address, dataset) -> None:
    graph = law_pipelines.crops.graph()
    spec = make_spec(dataset, graph, batch_size=BATCH, seed=11)
    with open_dataset(dataset) as opened:
        drawn = drawn_by(bind(graph, field_states(opened)))
    with load(address, params=True) as loader:
        kept = {}
        for epoch in (0, 3, 0, 1):
            loader.set_epoch(epoch)
            for batch in loader:
                kept[epoch, batch.step] = batch.params
        assert not loader._connection.delivery.params
    for step, arrays in reference_batches(dataset, graph, spec, epoch=3, params=True):
        for name, table in read_params(drawn, arrays["params"]).items():
            assert np.array_equal(kept[3, step][name], table)
    with load(address, pipeline=plain_labels(), params=True) as loader:
        assert next(iter(loader)).params == {}


def plain_labels() -> object:
    @pipeline
    def labels(sample):
        return {"label": sample.label}

    return labels
