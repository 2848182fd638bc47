"""Real daemons over a tiny dataset, with pipelines that misbehave on request."""

import contextlib
import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import counting
import pytest
from daemons import Daemon
from loading import grouped

from stoker.client import Loader
from stoker.dataset import open_dataset
from stoker.protocol.digest import batch_digest
from stoker.server.rows.reference import make_spec, reference_batches

HERE = Path(__file__).parent


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, as sockets need it."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.fixture
def serve(
    folder: Path, small_dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Daemon]]:
    """Start daemons that know the pipelines of `robust_pipelines`; they end with the test.

    `warm`: forked from a warm process, where nothing depends on how a daemon starts.
    """
    with contextlib.ExitStack() as started:

        def begin(
            *flags: str,
            workers: int = 2,
            prefix: Sequence[str] = (),
            environment: Mapping[str, str] | None = None,
            warm: bool = False,
        ) -> Daemon:
            for name, value in (environment or {}).items():
                monkeypatch.setenv(name, value)
            usual = [
                f"--dataset=small={small_dataset}",
                "--memory-limit=64MiB",
                f"--workers={workers}",
                f"--python-path={HERE}",
            ]
            named = ["labels", "sleeps", "loops", "slowly", "huge", "forks", "closes"]
            named += ["hoards", "wide", "hangs", "waits"]
            usual += [f"--pipeline={name}=robust_pipelines:{name}" for name in named]
            daemon = Daemon(folder, *usual, *flags, prefix=prefix, warm=warm)
            started.callback(lambda: sys.stdout.write(daemon.log.read_text()))  # if a test fails
            return started.enter_context(contextlib.closing(daemon))

        yield begin


@pytest.fixture
def loader() -> Callable[..., Loader]:
    """Open a Loader over the small dataset."""

    def make(daemon: Daemon, pipeline: str = "labels", **changes: object) -> Loader:
        options = {"dataset": "small", "pipeline": pipeline, "batch_size": 5, "device": "numpy"}
        return Loader(daemon.address, **grouped(**{**options, **changes}))

    return make


@pytest.fixture
def expected(small_dataset: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Digests of a Loader's first epochs, by the interpreter."""
    monkeypatch.syspath_prepend(str(HERE))
    pipelines = importlib.import_module("robust_pipelines")

    def digests(pipeline: str, epochs: int, **given: object) -> list[str]:
        graph = getattr(pipelines, pipeline).graph()
        spec = make_spec(small_dataset, graph, batch_size=5)
        return [
            batch_digest(arrays, epoch, step)
            for epoch in range(epochs)
            for step, arrays in reference_batches(small_dataset, graph, spec, epoch=epoch, **given)
        ]

    return digests


@pytest.fixture
def sum_of(small_dataset: Path) -> Callable[[int], str]:
    """The sum of a sample's pixels, by which functions of `robust_pipelines` recognize it."""

    def total(sample: int) -> str:
        with open_dataset(small_dataset) as dataset:
            return str(int(dataset.read("image", sample).astype(int).sum()))

    return total


@pytest.fixture
def counters() -> Callable[[Daemon], dict[str, int | float]]:
    """Counters of a daemon, read by a session of its own."""

    return lambda daemon: counting.counters(daemon.address)


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object]], None]:
    """Wait until something has happened."""

    return counting.wait_for
