"""`loader.replay` and `batch.params` through the real daemon: the batch's own bytes and draws."""

import importlib
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image

from stoker.client import Loader
from stoker.dataset import open_dataset
from stoker.pipeline import pipeline
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import ClosedError, SampleError, UsageError
from stoker.server.reference import make_spec, reference_batches

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
ROWS = 12


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve crops of photographs in two classes, packed by the command line."""
    root = tmp_path_factory.mktemp("replay")
    sources = (skimage.data.astronaut(), skimage.data.chelsea())
    for number in range(ROWS):
        folder = root / "source" / ("day", "night")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        crop = sources[number % 2][number : 110 + 3 * number, 20 : 140 + 2 * number]
        Image.fromarray(crop).save(folder / f"{number:02}.jpg", quality=92)
    command = [sys.executable, "-m", "stoker.server", "pack", str(root / "source")]
    subprocess.run([*command, str(root / "packed")], check=True, capture_output=True, timeout=120)
    return root / "packed"


@pytest.fixture(scope="module")
def broken(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the bytes of sample 5 spoilt."""
    path = tmp_path_factory.mktemp("broken") / "packed"
    shutil.copytree(photos, path)
    with open_dataset(path) as dataset:
        file, offset = dataset.locate("image", 5)
    with open(path / file.name, "r+b") as stored:
        stored.seek(offset)
        stored.write(bytes(64))
    return path


@contextmanager
def serving(folder: Path, photos: Path, fail_points: str = "") -> Iterator[str]:
    """A daemon's address; it has ended well when the block is left."""
    reader, writer = os.pipe()
    (folder / "c.toml").write_text(f'[testing]\nfail_points = "{fail_points}"\n')
    command = [sys.executable, "-m", "stoker.server", "serve", "--config", f"{folder}/c.toml"]
    command += ["--address", f"ipc://{folder}/stoker.sock", "--dataset", f"photos={photos}"]
    command += ["--pipeline", "train=client_pipelines:train", "--python-path", str(HERE)]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [*command, "--workers", "2", "--ready-fd", str(writer)], pass_fds=[writer], stderr=log
        )
    os.close(writer)
    try:
        with os.fdopen(reader) as ready:
            assert select.select([ready], [], [], 60)[0]
            yield json.loads(ready.readline())["address"]
    finally:
        process.terminate()
        assert process.wait(30) == 0


def load(address: str, **more) -> Loader:
    arguments = {"pipeline": "train", "batch_size": 4, "device": "numpy", "seed": 11, **more}
    return Loader(address, **arguments)


def test_outputs_are_the_bytes_of_the_batches(folder, photos) -> None:
    freeze = {"horizontal_flip": "epoch"}
    with serving(folder, photos) as address, load(address, views=2, freeze=freeze) as loader:
        applied = set()
        for epoch in (0, 1):
            for batch in loader:
                for row in (0, 5):
                    number = int(batch.index[row])
                    found = loader.replay_row(batch, row)
                    assert found.view == row % 2
                    assert (found.seed, found.id, found.epoch) == (11, number, epoch)
                    assert found.pipeline_id == loader.spec.pipeline
                    for name in ("image", "label"):
                        assert found.output(name).dtype == batch[name].dtype
                        assert found.output(name).tobytes() == batch[name][row].tobytes()
                    crop, flip = found.steps
                    assert (crop.op, crop.applied, flip.op) == (
                        "center_crop", True, "horizontal_flip",
                    )  # fmt: skip
                    assert flip.applied == bool(flip.parameters["flip"])
                    turned = crop.values[0].array[:, :: -1 if flip.applied else 1]
                    assert np.array_equal(flip.values[0].array, turned)
                    applied.add(flip.applied)
        assert applied == {True, False}


def test_substitutes_and_cut_rows_are_replayed_as_they_were_computed(folder, broken) -> None:
    """Sample 5 cannot be decoded; rank 1 of 2 gets rows 3 to 5 of 6, of two views each."""
    arguments = {"on_error": "replace", "views": 2, "rank": 1, "world_size": 2, "seed": 3}
    with (
        serving(folder, broken) as address,
        load(address, batch_size=None, global_batch_size=3, **arguments) as loader,
    ):
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


def test_a_row_without_a_sample_cannot_be_replayed(folder, photos) -> None:
    with serving(folder, photos) as address, load(address, batch_size=8, drop_last=False) as loader:
        *_, last = loader
        with pytest.raises(UsageError, match="row 7 holds no sample: its index is -1"):
            loader.replay_row(last, 7)


def test_what_cannot_be_is_refused_and_delivery_goes_on(folder, photos) -> None:
    with serving(folder, photos, "replayer.start:segv:1") as address:
        with load(address) as loader:
            batches = iter(loader)
            next(batches)
            with pytest.raises(SampleError, match=r"process that replays the sample died \(killed"):
                loader.replay(0, 0)
            with pytest.raises(UsageError, match="expected an id from 0 to 11, got 12"):
                loader.replay(12, 0)
            with pytest.raises(UsageError, match="expected a view from 0 to 0, got 1"):
                loader.replay(0, 0, view=1)
            with pytest.raises(UsageError, match="sample_id=-1: expected an integer from 0"):
                loader.replay(-1, 0)
            with pytest.raises(UsageError, match=r"epoch=1\.5: expected an integer from 0"):
                loader.replay(0, 1.5)
            assert len(list(batches)) == 2
        with pytest.raises(ClosedError):
            loader.replay(0, 0)


def test_a_replay_that_is_given_up_disturbs_nobody(folder, photos) -> None:
    """The replayer stops: the loader gives up in time, and the session's end ends the process."""
    with serving(folder, photos, "replayer.start:stop:1") as address, load(address) as loader:
        next(iter(loader))
        loader._connection._timeout_s = 0.2
        with pytest.raises(Exception, match="did not answer in time"):
            loader.replay(0, 0)
        loader._connection._timeout_s = 60.0
        with pytest.raises(UsageError, match="one is under way"):
            loader.replay(0, 0)
        assert sum(1 for _ in loader) == 3


def test_a_private_daemon_replays_too(photos, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    with Loader(
        photos, pipeline="client_pipelines:train", batch_size=4, device="numpy", workers=1
    ) as loader:
        batch = next(iter(loader))
        found = loader.replay(int(batch.index[2]), 0)
        assert found.output("image").tobytes() == batch.image[2].tobytes()
        assert {value.name for value in found.fields} == {"label", "image"}


def test_params_are_the_draws_of_every_row_and_change_nothing_else(folder, photos) -> None:
    with serving(folder, photos) as address:
        with load(address, views=2) as plain:
            expected = [batch_digest(batch, batch.epoch, batch.step) for batch in plain]
            assert not hasattr(next(iter(plain)), "params")
        with load(address, views=2, params=True) as loader:
            assert loader.spec == plain.spec
            found = []
            for batch in loader:
                assert list(batch) == ["image", "label", "index", "requested", "valid"]
                found.append(batch_digest(batch, batch.epoch, batch.step))
                assert list(batch.params) == ["horizontal_flip"]
                flips = batch.params["horizontal_flip"]
                assert flips.shape == (8,)
                assert flips["made"].all()
                for row in (1, 4):
                    step = loader.replay(int(batch.index[row]), 0, view=row % 2).steps[1]
                    assert step.parameters == {"flip": flips["flip"][row]}
            assert found == expected


def test_params_through_seeks_and_hoarding_and_without_draws(folder, photos, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    train = importlib.import_module("client_pipelines").train
    graph = train.graph()
    spec = make_spec(photos, graph, batch_size=4, seed=11)
    with serving(folder, photos) as address:
        with load(address, params=True) as loader:
            kept = {}
            for epoch in (0, 3, 0, 1):
                loader.set_epoch(epoch)
                for batch in loader:
                    kept[epoch, batch.step] = batch.params["horizontal_flip"]
            assert not loader._connection.delivery.params
        for epoch in (0, 1, 3):
            for step, arrays in reference_batches(photos, graph, spec, epoch=epoch, params=True):
                made, flip = arrays["params"].T
                assert np.array_equal(kept[epoch, step]["made"], made)
                assert np.array_equal(kept[epoch, step]["flip"], flip)
        with load(address, pipeline=plain_labels(), params=True) as loader:
            assert next(iter(loader)).params == {}


def plain_labels() -> object:
    @pipeline
    def labels(sample):
        return {"label": sample.label}

    return labels
