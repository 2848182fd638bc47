"""SIGHUP reads the configuration again and never stops a daemon; SIGUSR1 shows its stacks."""

import fcntl
import os
import select
import signal
from pathlib import Path

import numpy as np
import pytest
from daemons import PATIENCE_S, Daemon

from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.protocol.errors import UnknownNameError

pytestmark = pytest.mark.slow
PIPELINES = Path(__file__).parents[2] / "client"
OPTIONS = {"pipeline": "plain", "batch_size": 2, "device": "numpy"}


class Served:
    """A daemon whose log is read from a pipe, so that a test can wait for a line."""

    def __init__(self, folder: Path, *flags: str, **options: bool) -> None:
        self._log, theirs = os.pipe()
        try:
            self.daemon = Daemon(folder, *flags, stderr=theirs, **options)
        finally:
            os.close(theirs)
        self._said = b""

    def wait_for(self, text: str) -> str:
        """Return what the log says, up to the line with a text."""
        while True:
            found, text_, rest = self._said.partition(text.encode())
            if text_ and b"\n" in rest:
                line, _, self._said = rest.partition(b"\n")
                return (found + text_ + line).decode()
            assert select.select([self._log], [], [], PATIENCE_S)[0], self._said
            data = os.read(self._log, 2**16)
            assert data, self._said
            self._said += data

    def close(self) -> None:
        self.daemon.close()
        os.close(self._log)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number, name in enumerate(("first", "second")):
        rows = [{"pixels": np.full((2, 2), number, np.uint8), "label": number}] * 4
        write(tmp_path / name, [schema.array("pixels", "uint8", (2, 2)), schema.label()], rows)
    return tmp_path


@pytest.fixture
def config(data: Path) -> Path:
    file = data / "stoker.toml"
    configure(file, "first = 'first'")
    return file


@pytest.fixture
def served(folder: Path, config: Path):
    running = Served(folder, f"--config={config}", warm=True)
    assert running.daemon.ready == {"address": running.daemon.address}
    yield running
    assert running.daemon.stop() == 0
    running.close()


def configure(file: Path, datasets: str, level: str = "info", workers: int = 1) -> None:
    file.write_text(
        f"[datasets]\n{datasets}\n[pipelines]\nplain = 'client_pipelines:tensors'\n[daemon]\n"
        f"python_path = ['{PIPELINES}']\n[log]\nlevel = '{level}'\n[workers]\ncount = {workers}\n"
    )


def test_names_come_and_go_while_streams_go_on(served: Served, config: Path) -> None:
    address = served.daemon.address
    with Loader(address, dataset="first", **OPTIONS) as first:
        batches = iter(first)
        next(batches)
        with pytest.raises(UnknownNameError):
            Loader(address, dataset="second", **OPTIONS)
        configure(config, "second = 'second'", "debug", workers=2)
        os.kill(served.daemon.pid, signal.SIGHUP)
        line = served.wait_for("configuration_reread")
        said = " datasets=1 pipelines=1 log_level=debug needs_restart=workers.count"
        assert line.endswith(f"configuration_reread{said}")
        with Loader(address, dataset="second", **OPTIONS) as second:
            assert next(iter(second))["label"].tolist() == [1, 1]
        with pytest.raises(UnknownNameError):
            Loader(address, dataset="first", **OPTIONS)
        assert next(batches)["label"].tolist() == [0, 0]


def test_nothing_changed(served: Served) -> None:
    os.kill(served.daemon.pid, signal.SIGHUP)
    assert served.wait_for("configuration_reread").endswith(" log_level=info needs_restart=-")


@pytest.mark.parametrize("datasets", ["first = 'gone'", "first = ", "", "first = 'first'\n[x]"])
def test_a_mistake_changes_nothing(served: Served, config: Path, datasets: str) -> None:
    configure(config, datasets)
    os.kill(served.daemon.pid, signal.SIGHUP)
    assert " error configuration_not_reread reason=" in served.wait_for("configuration_not_reread")
    with Loader(served.daemon.address, dataset="first", **OPTIONS) as loader:
        assert next(iter(loader))["label"].tolist() == [0, 0]
    for _ in range(3):
        os.kill(served.daemon.pid, signal.SIGHUP)
    served.wait_for("configuration_not_reread")


def test_stacks_of_all_threads(served: Served) -> None:
    with Loader(served.daemon.address, dataset="first", **OPTIONS) as loader:
        os.kill(served.daemon.pid, signal.SIGUSR1)
        stacks = served.wait_for("in main")
        assert 'daemon/daemon.py", line ' in stacks
        assert 'settings/logs.py", line ' in stacks
        next(iter(loader))


@pytest.mark.as_a_user
def test_stacks_stop_nothing_where_no_process_reads_them(folder: Path, config: Path) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, b"x" * 4096)
    daemon = Daemon(folder, f"--config={config}", stderr=writing)
    try:
        os.kill(daemon.pid, signal.SIGUSR1)
        with Loader(daemon.address, dataset="first", **OPTIONS) as loader:
            next(iter(loader))
        assert daemon.stop() == 0
    finally:
        os.close(reading)
        os.close(writing)
        daemon.close()
