"""Connection(reconnect_s=...): the daemon dies, comes back, and the loop sees only a delay."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from daemons import Restarted
from loading import digest, grouped
from user_folders import importing_from
from warm import Script

from stoker.client import Batch, Connection, Loader, daemon_stream, retrying
from stoker.client.device import AheadSource, Target
from stoker.client.private.private_daemon import daemon_pids
from stoker.dataset import open_dataset, write
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import (
    DaemonLostError,
    ResumeError,
    UnknownNameError,
    UsageError,
)
from stoker.protocol.messages import AskStatus, Error

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]
HERE = Path(__file__).parent
ROWS, BATCH = 16, 2
STEPS = ROWS // BATCH
PLAIN = {"batch_size": BATCH, "device": "numpy", "on_error": "mask", "views": 3}
"""Views, so that also the batches of two ranks are too large to be copied out of their slots."""
EVERYTHING = {
    "subset": range(1, 16),
    "views": 4,
    "on_error": "replace",
    "freeze": {"horizontal_flip": "epoch"},
    "last": "short",
    "params": True,
    "seed": 5,
}
"""Options that a stream can have."""
BAD = 5
"""The sample that cannot be decoded."""


@pytest.fixture(scope="module", autouse=True)
def modules() -> Iterator[None]:
    """The modules of pipelines and sources are on the path of every process."""
    with importing_from(HERE):
        yield


@pytest.fixture(scope="module")
def live():
    return importlib.import_module("live_sources")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, live) -> Path:
    """16 images of different sizes; one of them cannot be decoded."""
    path = tmp_path_factory.mktemp("reconnect") / "photos"
    write(path, live.Photos.fields, [live.Photos()[number] for number in range(ROWS)])
    with open_dataset(path) as packed:
        file, offset = packed.locate("image", BAD)
        size = len(packed.read("image", BAD))
    with (path / file.name).open("r+b") as data:
        data.seek(offset + size // 2)
        data.write(bytes(size - size // 2))
    return path


def flags(dataset: object, pipeline: str = "train") -> list[str]:
    served = [f"--dataset=photos={dataset}", f"--pipeline=train=client_pipelines:{pipeline}"]
    return [*served, f"--python-path={HERE}", "--workers=1"]


@pytest.fixture
def serving(folder: Path, dataset: Path) -> Iterator[Restarted]:
    made = Restarted(folder, *flags(dataset))
    with contextlib.closing(made):
        made.start()
        yield made


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the gates of `live_sources.Gated`."""
    monkeypatch.setenv("STOKER_TEST_GATES", str(tmp_path))
    return tmp_path


def load(serving: Restarted, **more) -> Loader:
    return Loader(
        serving.address, **grouped(**{"pipeline": "train", "reconnect_s": 60.0, **PLAIN, **more})
    )


def collect(batches: Iterable[Batch], found: list[str]) -> None:
    """Add the digests of batches up to an error."""
    found.extend(digest(batch) for batch in batches)


def consume(loader: Loader) -> None:
    """More epochs than can have been announced."""
    for _ in range(3):
        list(loader)


def uninterrupted(serving: Restarted, **more) -> list[str]:
    with load(serving, **more) as loader:
        return [digest(batch) for batch in loader]


@pytest.mark.parametrize("more", [{}, EVERYTHING], ids=["plain", "everything"])
def test_a_loop_notices_only_the_delay(serving, more) -> None:
    """Killed after a batch, and started again before the next one is asked for, or meanwhile."""
    expected = uninterrupted(serving, **more)
    with load(serving, prefetch=1, **more) as loader:  # no more than the next one is there
        held = []
        for batch in loader:
            held.append((batch, digest(batch)))
            assert loader.state_dict()["step"] == len(held)
            if batch.step == 1:
                serving.restart()
            elif batch.step == 4:
                serving.kill()
                for left in serving.folder.glob("stoker.sock*"):
                    left.unlink()
                serving.in_thread(serving.start)
        serving.join()
        assert [found for _, found in held] == expected
        assert [digest(batch) for batch, _ in held] == expected, "a batch that is held changed"
        found = loader.statistics()
        assert (found.reconnects, found.delivered) == (2, len(expected))


@pytest.mark.as_a_user
def test_two_ranks_and_many_kills(serving) -> None:
    """A kill between any two steps, and batches that outlive the daemons that made them."""
    whole = uninterrupted(serving)
    with contextlib.ExitStack() as stack:
        ranks = [
            stack.enter_context(
                load(
                    serving, batch_size=None, global_batch_size=BATCH, rank=rank, world_size=2,
                    prefetch=1,
                )
            )
            for rank in range(2)
        ]  # fmt: skip
        held = []
        for step, parts in enumerate(zip(*ranks, strict=True)):
            held.append(parts)
            if step in (0, 2, 4):
                serving.restart()
        joined = [{name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
                  for parts in held]  # fmt: skip
        assert [batch_digest(b, 0, step) for step, b in enumerate(joined)] == whole
        assert [rank.statistics().reconnects for rank in ranks] == [3, 3]
        assert ranks[0].state_dict() == ranks[1].state_dict()


def test_killed_while_the_client_waits_for_a_batch(folder, gates) -> None:
    serving = Restarted(folder, *flags("live_sources:Gated"))
    with contextlib.closing(serving):
        serving.start()
        expected = uninterrupted(serving)
        os.mkfifo(gates / "row")
        with load(serving) as loader:
            serving.in_thread(lambda: restart_at(serving, gates / "row"))
            assert [digest(batch) for batch in loader] == expected
            assert loader.statistics().reconnects == 1


def test_killed_while_the_stream_is_built(folder, gates) -> None:
    serving = Restarted(folder, *flags("live_sources:Gated"))
    with contextlib.closing(serving):
        serving.start()
        os.mkfifo(gates / "open")
        serving.in_thread(lambda: restart_at(serving, gates / "open"))
        with load(serving) as loader:
            found = [digest(batch) for batch in loader]
        serving.join()
        assert found == uninterrupted(serving)
        serving.restart()  # it has not built the stream yet
        os.mkfifo(gates / "open")
        serving.in_thread(lambda: restart_at(serving, gates / "open"))
        with pytest.raises(DaemonLostError, match="went away"):
            load(serving, reconnect_s=None)


def restart_at(serving: Restarted, path: Path) -> None:
    """Wait until a process is at the gate; take the gate away, and restart the daemon."""
    with open(path) as fifo:
        assert fifo.read() == "here"
        path.unlink()
    serving.restart()


@pytest.mark.parametrize("first", [True, False], ids=["constructor", "later"])
def test_killed_before_open(serving, monkeypatch, first: bool) -> None:
    """Between the greeting and OPEN, of the first session or of the one after a loss."""
    expected = uninterrupted(serving)
    original, kills = daemon_stream.open_stream, [first, True] if first else [False, True]

    def killing(*given):
        if kills and kills.pop(0):
            serving.restart()
        return original(*given)

    monkeypatch.setattr(daemon_stream, "open_stream", killing)
    with load(serving, prefetch=1) as loader:  # no more than the next one is there
        found = []
        for batch in loader:
            found.append(digest(batch))
            if len(found) == 2:
                serving.restart()
        assert found == expected
        assert not kills


def test_a_daemon_that_is_shut_down_and_comes_back(serving) -> None:
    """As an operator updates it: SIGTERM, which says goodbye, and a new start."""
    expected = uninterrupted(serving)
    with load(serving, prefetch=1) as loader:
        found = []
        for batch in loader:
            found.append(digest(batch))
            if batch.step in (1, 4):
                serving.stop()
                serving.in_thread(serving.start)
        assert found == expected
        assert loader.statistics().reconnects == 2


class Copies:
    """An accelerator whose copies are done at once."""

    def __init__(self) -> None:
        self.closed = 0

    def copy(self, arrays):
        return {name: np.array(array) for name, array in arrays.items()}, None

    def hand_over(self, tensors, event) -> None:
        pass

    def mark(self) -> None:
        pass

    def passed(self, event) -> bool:
        return True

    def wait(self, event) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


def test_batches_that_were_copied_ahead(serving, monkeypatch) -> None:
    """Those on the device are from the dead daemon; none is lost, none comes twice."""
    copies = Copies()
    monkeypatch.setattr(Target, "source", lambda self, delivery, *_: AheadSource(delivery, copies))
    expected = uninterrupted(serving)
    with load(serving, prefetch=1) as loader:
        found = []
        for batch in loader:
            found.append(digest(batch))
            if batch.step in (0, 3):
                serving.restart()
        assert found == expected
        assert loader.statistics().reconnects > 0
    assert copies.closed == 2 + loader.statistics().reconnects


def test_the_old_memory_goes_with_its_last_tensor(serving) -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count("memfd:")

    with load(serving, prefetch=1) as loader:
        batches = iter(loader)
        held = next(batches)
        expected = digest(held)
        serving.restart()
        for _ in range(3):
            next(batches)
        assert loader.statistics().reconnects == 1
        assert maps() == 2
        assert digest(held) == expected
        del held
        assert maps() == 1


def test_no_daemon_comes_back(serving) -> None:
    """The error says how long and what failed last; a daemon that comes later is found."""
    expected = uninterrupted(serving)
    with load(serving, reconnect_s=2.0, prefetch=1) as loader:
        batches = iter(loader)
        found = [digest(next(batches))]
        serving.kill()
        with pytest.raises(DaemonLostError) as caught:
            collect(batches, found)  # those that had arrived come first
        said = caught.value.message
        lost = f"the daemon at {serving.address} was lost, and gave no batch in "
        assert float(said.removeprefix(lost).partition(" s, ")[0]) >= 2.0
        assert "(reconnect_s=2)" in said
        assert "The last failure was ConnectError: no daemon listens at " in said
        assert caught.value.details["attempts"] > 1
        assert loader.state_dict()["step"] == len(found)
        assert loader.statistics().slots == 0
        with pytest.raises(DaemonLostError, match="gave no batch"):
            loader.replay(0, 0)
        serving.start()
        found += [digest(batch) for batch in batches]
        assert found == expected


def test_closed_in_an_outage(serving) -> None:
    with load(serving, reconnect_s=0.01) as loader:
        batches = iter(loader)
        serving.kill()
        with pytest.raises(DaemonLostError, match="gave no batch"):
            list(batches)
    assert loader.statistics().reconnects == 0
    assert loader.state_dict()["epoch"] == 0


def test_replay_reconnects(serving) -> None:
    with load(serving) as loader:
        batch = next(iter(loader))
        serving.restart()
        replayed = {value.name: value.array for value in loader.replay_row(batch, 1).outputs}
        assert replayed["image"].tobytes() == batch.image[1].tobytes()


def test_an_interrupt_in_an_outage_loses_nothing(serving, monkeypatch) -> None:
    expected = uninterrupted(serving)
    with load(serving) as loader:
        batches = iter(loader)
        serving.kill()

        def interrupt(seconds):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(retrying.time, "sleep", interrupt)
            with pytest.raises(KeyboardInterrupt):
                list(batches)
        done = loader.state_dict()["step"]
        serving.start()
        assert [digest(batch) for batch in batches] == expected[done:]


@pytest.mark.parametrize(
    "what", [pytest.param("dataset", marks=pytest.mark.as_a_user), "pipeline", "name"]
)
def test_another_stream_is_refused(serving, dataset, tmp_path, live, what: str) -> None:
    """Never other bytes: the error names what changed, and the right daemon is still taken."""
    expected = uninterrupted(serving)
    other = tmp_path / "other"
    write(other, live.Photos.fields, [live.Photos()[number] for number in reversed(range(ROWS))])
    changes = {
        "dataset": flags(other),
        "pipeline": flags(dataset, "train_again"),
        "name": [flag.replace("=photos=", "=pictures=") for flag in flags(dataset)],
    }
    says: tuple[type[UsageError], str] = (
        ResumeError, rf"(?s)the daemon at ipc:.* came back with another stream.*\n  {what}: was",
    )  # fmt: skip
    if what == "name":
        says = UnknownNameError, "'photos'.*pictures"
    with load(serving, dataset="photos", prefetch=1) as loader:
        batches = iter(loader)
        found = [digest(next(batches))]
        serving.kill()
        serving.start(*changes[what])
        for _ in range(2):
            with pytest.raises(says[0], match=says[1]):
                collect(batches, found)
        serving.restart()
        found += [digest(batch) for batch in batches]
        assert found == expected


def test_a_daemon_that_is_stopped_for_longer_than_the_clients_patience(
    serving, monkeypatch
) -> None:
    """It continues once the client has given it up, and drops the old session."""
    expected = uninterrupted(serving)
    begun = retrying.Outage.begin_attempt

    def attempt(self) -> bool:
        go_on = begun(self)
        if self._attempts == 2:
            os.kill(serving.pid, signal.SIGCONT)
        return go_on

    monkeypatch.setattr(retrying.Outage, "begin_attempt", attempt)
    with load(serving, timeout_s=4.0, connect_timeout_s=2.0, prefetch=1) as loader:
        found = []
        for batch in loader:
            found.append(digest(batch))
            if batch.step == 2:
                os.kill(serving.pid, signal.SIGSTOP)
        assert found == expected
        assert loader.statistics().reconnects == 1


@pytest.mark.parametrize("met", [False, True], ids=["not met", "met"])
def test_without_the_option_the_error_is_the_same_as_ever(serving, met: bool) -> None:
    """Also if ZeroMQ has met another daemon at the address, which does not know the session."""
    with load(serving, reconnect_s=None) as loader:
        next(iter(loader))
        serving.restart()
        if met:
            meet(loader)
        with pytest.raises(DaemonLostError, match="went away"):
            consume(loader)


def test_a_new_daemon_that_does_not_know_the_session(serving) -> None:
    expected = uninterrupted(serving)
    with load(serving) as loader:
        batches = iter(loader)
        found = [digest(next(batches))]
        serving.restart()
        meet(loader)
        collect(batches, found)
        assert found == expected


def meet(loader: Loader) -> None:
    """Wait for the answer of a daemon that took the place of another one."""
    session = loader._connection.daemon_stream.session
    while not any(isinstance(record, Error) for record in session.inbox):
        session.send(AskStatus())  # an earlier one may have gone to the old connection
        session._dealer.poll(100)
        session.poll()


def test_a_private_daemon_is_started_again(dataset, monkeypatch) -> None:
    """Two ranks share it before and after; it ends with the last of them."""
    monkeypatch.setenv("MASTER_ADDR", "h")
    monkeypatch.setenv("MASTER_PORT", "1")
    options = {**PLAIN, "pipeline": "client_pipelines:train", "workers": 1}
    with Loader(dataset, **grouped(**options)) as loader:
        expected = [digest(batch) for batch in loader]
    del options["batch_size"]
    with contextlib.ExitStack() as stack:
        ranks = [
            stack.enter_context(
                Loader(
                    dataset, global_batch_size=BATCH, rank=rank, world_size=2,
                    connection=Connection(reconnect_s=60), prefetch=1, **options,
                )
            )
            for rank in range(2)
        ]  # fmt: skip
        found = []
        for step, parts in enumerate(zip(*ranks, strict=True)):
            joined = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
            found.append(batch_digest(joined, 0, step))
            if step in (1, 5):
                (pid,) = daemon_pids()
                os.kill(pid, signal.SIGKILL)
        assert found == expected
        assert [rank.statistics().reconnects for rank in ranks] == [2, 2]
        assert len(daemon_pids()) == 1
    assert daemon_pids() == []


def test_a_private_daemon_that_is_stopped_is_replaced(dataset) -> None:
    """The stopped one is killed in the end, because it handles no other request to end."""
    options = {**PLAIN, "pipeline": "client_pipelines:train", "workers": 1, "reconnect_s": 60}
    with Loader(dataset, **grouped(**options)) as loader:
        expected = [digest(batch) for batch in loader]
    with Loader(
        dataset,
        **grouped(
            **options, prefetch=1, connection=Connection(timeout_s=4.0, connect_timeout_s=2.0)
        ),
    ) as loader:
        found = []
        for batch in loader:
            found.append(digest(batch))
            if batch.step == 2:
                (pid,) = daemon_pids()
                os.kill(pid, signal.SIGSTOP)
        assert found == expected
        assert len(daemon_pids()) == 2
    assert daemon_pids() == []


RANK = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[3])
from stoker.client import Connection, Loader
options = {"batch_size": None, "device": "numpy", "on_error": "mask", "views": 3}
with Loader(sys.argv[1], pipeline="client_pipelines:train", global_batch_size=2, workers=1,
            rank=int(sys.argv[2]), world_size=2, prefetch=1,
            connection=Connection(reconnect_s=60), **options) as loader:
    for batch in loader:
        print(loader._connection.daemon_stream.session.address, flush=True)
        print(np.asarray(batch.image).tobytes().hex()[:4000], flush=True)
        sys.stdin.readline()
    print(loader.statistics().reconnects, flush=True)
"""


def test_ranks_in_processes_share_the_new_private_daemon(dataset) -> None:
    """Both find the daemon dead at the same time; one of them starts another."""
    environment = {**os.environ, "MASTER_ADDR": "h", "MASTER_PORT": "2"}
    with Loader(
        dataset, **grouped(pipeline="client_pipelines:train", workers=1, **PLAIN)
    ) as loader:
        expected = [[np.asarray(batch.image)[row : row + 3] for row in (0, 3)] for batch in loader]
    ranks = [
        Script(
            *("-c", RANK, dataset, rank, HERE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            daemons=True,
        )
        for rank in range(2)
    ]
    try:
        for step in range(STEPS):
            addresses = {rank.stdout.readline().strip() for rank in ranks}
            if step not in (2, 5):  # the batch after a kill may have been announced before it
                assert len(addresses) == 1, addresses
            found = [rank.stdout.readline().strip() for rank in ranks]
            assert found == [part.tobytes().hex()[:4000] for part in expected[step]]
            if step in (1, 4):
                current = Path(addresses.pop().removeprefix("ipc://")).parent / "current"
                os.kill(json.loads(current.read_text())[1], signal.SIGKILL)
            for rank in ranks:
                rank.stdin.write("go\n")
                rank.stdin.flush()
        assert [rank.communicate(timeout=60)[0].strip() for rank in ranks] == ["2", "2"]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
