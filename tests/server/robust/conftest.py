"""Real daemons over a tiny dataset, with pipelines that misbehave on request."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from daemons import Daemon

from stoker.client import Loader

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
    """Start daemons that know the pipelines of `robust_pipelines`; they end with the test."""
    with contextlib.ExitStack() as started:

        def begin(
            *flags: str,
            workers: int = 2,
            prefix: Sequence[str] = (),
            environment: Mapping[str, str] | None = None,
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
            named += ["hoards", "wide"]
            usual += [f"--pipeline={name}=robust_pipelines:{name}" for name in named]
            daemon = Daemon(folder, *usual, *flags, prefix=prefix)
            started.callback(lambda: sys.stdout.write(daemon.log.read_text()))  # if a test fails
            return started.enter_context(contextlib.closing(daemon))

        yield begin


@pytest.fixture
def loader() -> Callable[..., Loader]:
    """Open a Loader over the small dataset."""

    def make(daemon: Daemon, pipeline: str = "labels", **changes: object) -> Loader:
        options = {"dataset": "small", "pipeline": pipeline, "batch_size": 5, "device": "numpy"}
        return Loader(daemon.address, **{**options, **changes})

    return make
