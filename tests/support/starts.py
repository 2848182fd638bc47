"""How Stoker starts in a test: forked from a warm process, or as its users start it.

A daemon of `daemons.serving` is forked from a process that has imported what daemons import
(`warm`), and so are private daemons of Loaders where a test or its module asks for the fixture
`forked_private_daemons`. That costs a fifth. A test with the marker `as_a_user` gets none of it:
each daemon, template and private daemon is executed by its command line, and nothing inside of
Stoker is replaced. docs/guarantees.md has such a test for each guarantee. In a module that is
marked as a whole, `as_a_user(False)` takes a test out that has daemons of its own.
"""

import importlib
from collections.abc import Iterator

import pytest
import warm


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fork nothing for a test that starts Stoker as a user does, nor for its fixtures."""
    marker = item.get_closest_marker("as_a_user")
    warm.forks.allowed = marker is None or marker.args == (False,)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail such a test if a fixture of wider scope holds a daemon that another test forked."""
    if not warm.forks.allowed and (running := warm.forks.running()):
        pytest.fail(
            f"{item.nodeid} is as_a_user, but its module runs forked daemons"
            f" ({', '.join(map(str, running))}): mark the whole module",
            pytrace=False,
        )


@pytest.fixture(scope="module")
def forked_private_daemons() -> Iterator[None]:
    """Private daemons of this module's Loaders are forked, except in tests that are `as_a_user`."""
    with pytest.MonkeyPatch.context() as patch:
        private = importlib.import_module("stoker.client.private.private_daemon")
        patch.setattr(private, "subprocess", warm.PrivateSubprocess)
        yield
