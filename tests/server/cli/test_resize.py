"""`stoker resize`: another number of workers while a client reads, and the same bytes."""

import contextlib
import os
import signal
from pathlib import Path

import counting
import keyed
import pytest
from commands import call
from daemons import children, serving
from loading import digest

from stoker.client import Loader
from stoker.client.remote.loader_keys import resolve_keys
from stoker.client.remote.remote_session import session_at
from stoker.protocol.errors import AccessError

pytestmark = pytest.mark.slow
AWAY, FAILED, USAGE = 75, 1, 2
PIPELINES = Path(__file__).parents[1] / "robust"
MOST = 3
EPOCHS = 6


@pytest.fixture
def served(small_dataset, tmp_path):
    with serving(
        tmp_path, f"--dataset=small={small_dataset}", f"--workers={MOST}", "--memory-limit=64MiB",
        "--pipeline=labels=robust_pipelines:labels", f"--python-path={PIPELINES}",
    ) as daemon:  # fmt: skip
        yield daemon


def workers_of(daemon):
    """The processes of its workers, once all that are wanted are up and the others gone."""

    def settled():
        found.update(counting.counters(daemon.address))
        return found["workers"] == found["workers_up"] == found["workers_wanted"]

    found = {}
    counting.wait_for(settled)
    (template,) = children(daemon.pid)
    counting.wait_for(lambda: len(children(template)) == found["workers"])
    return children(template)


def delivered(daemon, at):
    """Digests of a few epochs; `at(number)` is called before each batch."""
    options = {"pipeline": "labels", "batch_size": 2, "device": "numpy", "prefetch": 2, "seed": 3}
    found = []
    with Loader(daemon.address, **options) as batches:
        for _ in range(EPOCHS):
            for batch in batches:
                at(len(found))
                found.append(digest(batch))
    return found


def test_batches_are_the_same_while_workers_come_and_go(served):
    expected = delivered(served, lambda _: None)
    first = workers_of(served)
    sizes = {3: 1, 9: 3, 15: 2, 21: 1, 24: 2}
    seen = {}

    def resize(number):
        if number in sizes:
            code, printed, errors = call("resize", served.address, "--workers", sizes[number])
            assert (code, errors) == (0, "")
            assert printed.startswith(f"workers: {sizes[number]} are wanted, ")
            seen[number] = workers_of(served)

    assert delivered(served, resize) == expected
    assert [len(seen[number]) for number in sizes] == [*sizes.values()]
    assert set(seen[3]) < set(first), "one of those that were there stays"
    counters = counting.counters(served.address)
    assert counters["worker_deaths_total"] == 0
    assert counters["recomputed_rows_total"] == 0, "a worker that retires ends its chunk"
    assert served.log.read_text().count("workers_resized") == len(sizes)


def test_a_number_that_cannot_be_is_refused_in_words(served):
    code, printed, errors = call("resize", served.address, "--workers", MOST + 1)
    assert (code, printed) == (USAGE, "")
    assert errors == (
        f"stoker: expected 1 to {MOST} workers, the number with which the daemon was started, got"
        f" {MOST + 1}; to have more, set workers.count and start it again\n"
    )
    for number in (0, 2**20, 2**40, 10**30):
        code, printed, _ = call("resize", served.address, "--workers", number)
        assert (code, printed) == (USAGE, "")
    assert call("resize", served.address)[0] == USAGE
    assert counting.counters(served.address)["workers_wanted"] == MOST


def test_a_client_with_keys_of_another_host_may_not(tmp_path):
    with keyed.keyed_daemon(tmp_path) as served:
        keys = resolve_keys(served.tcp, served.root / "alice.key", served.public)
        with (
            contextlib.closing(session_at(served.tcp, 20.0, keys, "other")) as session,
            pytest.raises(AccessError, match="only the daemon's own user, or root, on its host"),
        ):
            session.resize(1, 20.0)
        code, printed, errors = call("resize", served.tcp, "--workers=1")
    assert (code, printed) == (USAGE, "")
    assert "run the command there" in errors


def test_a_configuration_that_is_read_again_changes_nothing_of_it(served):
    assert call("resize", served.address, "--workers=1")[0] == 0
    os.kill(served.pid, signal.SIGHUP)
    served.logged("configuration_reread")
    assert len(workers_of(served)) == 1


def test_no_daemon_is_one_line(tmp_path):
    code, printed, errors = call("resize", f"ipc://{tmp_path}/none.sock", "--workers=1")
    assert (code, printed) == (AWAY, "")
    assert errors.startswith("stoker: no daemon listens at ")
