"""A fake daemon (tests/support/fake_daemons.py) for the client's tests."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_daemons import FakeDaemon

from stoker.protocol.slot_layout import META


@pytest.fixture
def folder(session_folder: Path) -> Iterator[Path]:
    """A folder with a short path, for sockets."""
    path = session_folder / f"f{os.urandom(3).hex()}"
    path.mkdir()
    yield path
    for left in path.iterdir():
        left.unlink()
    path.rmdir()


@pytest.fixture
def daemon(folder: Path) -> Iterator[FakeDaemon]:
    fake = FakeDaemon(folder)
    with contextlib.closing(fake):
        yield fake


@pytest.fixture
def make_daemon(session_folder: Path) -> Iterator[Callable[..., FakeDaemon]]:
    """Make daemons with other numbers than the usual."""
    with contextlib.ExitStack() as stack:

        def make(**numbers: int) -> FakeDaemon:
            path = session_folder / f"f{os.urandom(3).hex()}"
            path.mkdir()
            stack.callback(path.rmdir)
            return stack.enter_context(contextlib.closing(FakeDaemon(path, **numbers)))

        yield make


@pytest.fixture(scope="session")
def same() -> Callable[..., None]:
    """Compare a batch with what a fake daemon wrote."""

    def check(fake: FakeDaemon, batch: object, epoch: int, step: int) -> None:
        assert (batch.epoch, batch.step) == (epoch, step)
        expected = fake.batch(epoch, step)
        assert list(batch) == [*(o.name for o in fake.outputs), *(name for name, _ in META)]
        for name, array in expected.items():
            np.testing.assert_array_equal(np.asarray(batch[name]), array, err_msg=name)

    return check
