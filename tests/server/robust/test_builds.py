"""Builds that hang, are killed, or are not wanted any more: other clients are served."""

import os
import re
import signal
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from asking import opening
from daemons import children

from stoker.client.client_session import ClientSession
from stoker.protocol.errors import BuildError, ResourceError

pytestmark = pytest.mark.slow
DEADLINE_S = 5
"""Longer than a builder that a busy machine stops takes to come to the function."""


@pytest.fixture
def impatient(serve, monkeypatch):
    """A daemon that waits some seconds for a build to make progress."""
    monkeypatch.setenv("STOKER_WORKERS_BUILD_DEADLINE_S", str(DEADLINE_S))
    return serve


@pytest.mark.as_a_user
def test_pipelines_that_hang_end_with_an_error_that_names_the_function(impatient, loader):
    daemon = impatient(warm=True)
    loader(daemon, batch_size=4).close()  # the template is up now
    errors: dict[str, BuildError] = {}

    def hang(name: str) -> None:
        with pytest.raises(BuildError) as caught:
            loader(daemon, name)
        errors[name] = caught.value

    both = [threading.Thread(target=hang, args=(name,)) for name in ("sleeps", "loops")]
    for thread in both:
        thread.start()
    with loader(daemon) as fine:
        assert [batch.step for batch in fine] == [0, 1]
    for thread in both:
        thread.join()
    source = Path(__file__).with_name("robust_pipelines.py")
    for name, function in (("sleeps", "sleeping"), ("loops", "looping")):
        assert f"made no progress for {DEADLINE_S} s: it was in {function} ({source}:" in str(
            errors[name]
        )
        assert "raise workers.build_deadline_s" in str(errors[name])


def forks(daemon, known=frozenset(), count=1):
    """Wait until the template has that number of new children; return them."""
    deadline = time.monotonic() + 60
    while True:
        found = {child for parent in children(daemon.pid) for child in children(parent)} - known
        if len(found) == count:
            return found
        assert time.monotonic() < deadline, found


def asked(daemon, pipeline):
    """A session that has asked for a stream and did not wait for the answer."""
    session = ClientSession(daemon.address, 20.0)
    session.send(opening(dataset="small", pipeline=pipeline, batch_size=5))
    return session


@pytest.mark.as_a_user
def test_a_build_that_nobody_waits_for_is_killed(serve, loader):
    daemon = serve(warm=True)
    loader(daemon).close()
    workers = forks(daemon, count=2)
    with closing(asked(daemon, "sleeps")):
        (builder,) = forks(daemon, workers)
    assert forks(daemon, count=2) == workers
    assert not Path(f"/proc/{builder}").exists()


@pytest.mark.parametrize(
    "victim", ["builder", pytest.param("template", marks=pytest.mark.as_a_user)]
)
def test_a_build_whose_process_is_killed_is_started_again(serve, loader, victim):
    daemon = serve(warm=True)
    loader(daemon).close()
    workers = forks(daemon, count=2)
    steps: list[int] = []

    def open_it() -> None:
        with loader(daemon, "slowly") as batches:
            steps.append(next(iter(batches)).step)

    thread = threading.Thread(target=open_it)
    thread.start()
    (builder,) = forks(daemon, workers)
    (template,) = children(daemon.pid)
    os.kill(builder if victim == "builder" else template, signal.SIGKILL)
    thread.join()
    assert steps == [0]
    daemon.logged("builder_down")


def test_a_build_whose_process_is_killed_again_and_again_says_how_often(serve, loader, monkeypatch):
    monkeypatch.setenv("STOKER_WORKERS_START_DEADLINE_S", "12")
    daemon = serve(warm=True, workers=1)
    loader(daemon).close()
    workers, said, killed = forks(daemon), [], 0

    def open_it() -> None:
        try:
            loader(daemon, "slowly").close()
        except ResourceError as error:
            said.append(error.message)

    thread = threading.Thread(target=open_it)
    thread.start()
    while thread.is_alive():
        for parent in children(daemon.pid):
            for builder in set(children(parent)) - workers:
                with suppress(ProcessLookupError):
                    os.kill(builder, signal.SIGKILL)
                    killed += 1
        thread.join(0.02)
    (message,) = said
    found = re.search(r"was killed (\d+) times in a row, the last: killed by SIGKILL", message)
    assert found
    assert 2 <= int(found[1]) <= killed
