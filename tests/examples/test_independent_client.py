"""The client that knows nothing but docs/protocol.md gets the batches of `stoker.client`."""

import ast
import collections
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import daemons
import numpy as np
import pytest
from sample_photographs import sample_photographs

from stoker.client import Loader
from stoker.dataset import schema, write

EXAMPLE = Path(__file__).parents[2] / "examples" / "independent_client"
PIPELINES = """
from stoker import ops
from stoker.pipeline import pipeline

@pipeline
def train(sample):
    image = ops.random_crop(sample.image, size=(48, 48))
    return {"image": ops.horizontal_flip(image), "label": sample.label}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A daemon with 120 tiles of two photographs; the photograph is the label."""
    folder = tmp_path_factory.mktemp("independent")
    photos = sample_photographs()
    rows = []
    for number in range(120):
        label, place = number % 2, number // 2
        top, left = place // 10 * 60, place % 10 * 60
        rows.append({"image": photos[label][top : top + 64, left : left + 64], "label": label})
    write(folder / "tiles", [schema.image(), schema.label()], rows)
    (folder / "tile_pipelines.py").write_text(PIPELINES)
    flags = (
        f"--dataset=tiles={folder / 'tiles'}",
        "--pipeline=train=tile_pipelines:train",
        f"--python-path={folder}",
        "--workers=1",
    )
    with tempfile.TemporaryDirectory() as short, daemons.serving(Path(short), *flags) as daemon:
        yield daemon.address


@pytest.fixture
def stream_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The example's module."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield importlib.import_module("stream")
    del sys.modules["stream"]


def test_it_imports_nothing_but_the_two_packages() -> None:
    tree = ast.parse((EXAMPLE / "stream.py").read_text())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    assert names - sys.stdlib_module_names == {"msgpack", "zmq"}


@pytest.mark.slow
def test_it_trains(address: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "train.py"), address, "--classes", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "epoch 3: 3 batches, loss 0." in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (1, 2)])
def test_its_bytes_are_those_of_the_loader(
    address: str, stream_module: ModuleType, rank: int, world_size: int
) -> None:
    ours = {"seed": 5, "cut": (rank, world_size), "prefetch": 2}
    theirs = {"seed": 5, "rank": rank, "world_size": world_size}
    with (
        stream_module.Stream(address, pipeline="train", batch_size=32, **ours) as stream,
        Loader(address, pipeline="train", global_batch_size=32, **theirs) as loader,
    ):
        for epoch in range(2):
            batches = zip(stream.epoch(epoch), loader, strict=True)
            for step, (batch, expected) in enumerate(batches):
                assert (batch.epoch, batch.step) == (epoch, step)
                for name, array in batch.arrays.items():
                    got = np.frombuffer(array.memory, array.dtype).reshape(array.shape)
                    np.testing.assert_array_equal(got, np.asarray(expected[name]), err_msg=name)
                    del got
        assert step == stream.steps - 1 == 2
        assert stream.spec["seed"] == 5


@pytest.mark.slow
def test_it_leaves_a_loop_early_and_goes_back(address: str, stream_module: ModuleType) -> None:
    def index(batch: object) -> list[int]:
        return np.frombuffer(batch.arrays["index"].memory, "int64").tolist()

    with stream_module.Stream(address, pipeline="train", batch_size=20) as stream:
        whole = [index(batch) for batch in stream.epoch(3)]
        for _ in range(10):  # more often than there are slots
            for batch in stream.epoch(3, step=2):
                assert index(batch) == whole[2]
                break
        assert sorted(number for ids in whole for number in ids) == list(range(120))


@pytest.mark.slow
def test_mistakes_are_named(address: str, stream_module: ModuleType) -> None:
    with pytest.raises(stream_module.StreamError, match="trein") as caught:
        stream_module.Stream(address, pipeline="trein", batch_size=4)
    assert caught.value.code == "unknown_name"
    with pytest.raises(ValueError, match="expected an address such as ipc:///"):
        stream_module.Stream("tcp://here:1", pipeline="train", batch_size=4)
    with pytest.raises(FileNotFoundError):
        stream_module.Stream(address + "x", pipeline="train", batch_size=4)


@pytest.mark.slow
def test_a_kept_array_stays_readable_after_close(address: str, stream_module: ModuleType) -> None:
    with stream_module.Stream(address, pipeline="train", batch_size=4) as stream:
        batch = next(stream.epoch(0))
        kept = np.frombuffer(batch.arrays["label"].memory, "int64")
    assert kept.shape == (4,)
    assert set(kept) <= {0, 1}
    assert not kept.flags.writeable


@pytest.mark.slow
def test_the_daemon_ends(stream_module: ModuleType, tmp_path: Path) -> None:
    """The side socket says at once that the daemon is gone."""
    write(tmp_path / "numbers", [schema.label()], [{"label": n} for n in range(8)])
    (tmp_path / "number_pipelines.py").write_text(
        "from stoker.pipeline import pipeline\n\n"
        "@pipeline\ndef train(sample):\n    return {'label': sample.label}\n"
    )
    flags = ("--pipeline=train=number_pipelines:train", f"--python-path={tmp_path}")
    data = f"--dataset=numbers={tmp_path / 'numbers'}"
    with (
        tempfile.TemporaryDirectory() as short,
        daemons.serving(Path(short), data, "--workers=1", *flags) as daemon,
        stream_module.Stream(daemon.address, pipeline="train", batch_size=8) as stream,
    ):
        assert [batch.step for batch in stream.epoch(0)] == [0]
        daemon.stop()
        batches = (batch for epoch in range(1, 1000) for batch in stream.epoch(epoch))
        with pytest.raises(stream_module.StreamError, match="daemon_lost"):
            collections.deque(batches, maxlen=0)
