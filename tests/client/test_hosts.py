"""A Loader with several daemons: the bytes of one daemon, whichever of them live."""

import contextlib
import itertools
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import daemons
import numpy as np
import pytest

from stoker.client import Connection, Directory, Loader
from stoker.dataset import schema, write
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import ConnectError, DaemonLostError, UsageError

HERE = Path(__file__).parent
ROWS = 96
BATCHES = ROWS // 4
OPTIONS = {"pipeline": "plain", "device": "numpy", "seed": 5, "batch_size": 4, "prefetch": 2}


def start(folder: Path, data: Path, *flags: str, pipeline: str = "tensors") -> daemons.Daemon:
    folder.mkdir(mode=0o700, exist_ok=True)
    return daemons.Daemon(
        folder, f"--dataset=data={data}", f"--python-path={HERE}",
        f"--pipeline=plain=client_pipelines:{pipeline}", "--workers=1", *flags, warm=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hosts") / "data"
    values = np.random.default_rng(3).integers(0, 255, (ROWS, 30, 30), np.uint8)
    rows = [{"pixels": value, "label": number % 3} for number, value in enumerate(values)]
    write(path, [schema.array("pixels", "uint8", (30, 30)), schema.label()], rows)
    return path


@pytest.fixture(scope="module")
def served(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Three daemons that stay, one of them also at tcp, and the digests of the stream."""
    root = tmp_path_factory.mktemp("three")
    flags = ("--tcp=tcp://127.0.0.1:0", "--insecure")
    made = [start(root / str(n), data, *(flags if n == 2 else ())) for n in range(3)]
    try:
        addresses = [daemon.address for daemon in made]
        yield SimpleNamespace(addresses=addresses, tcp=made[2].ready["tcp"], root=root)
        for daemon in made:
            assert daemon.stop() == 0, daemon.log.read_text()
            assert "Traceback" not in daemon.log.read_text(), daemon.log.read_text()
    finally:
        for daemon in made:
            daemon.close()


@pytest.fixture
def mortal(data: Path, tmp_path: Path) -> Iterator[Callable[..., daemons.Daemon]]:
    """Make daemons that a test may kill; the same number has the same address."""
    made: list[daemons.Daemon] = []

    def make(number: int, *flags: str, **more: str) -> daemons.Daemon:
        made.append(start(tmp_path / str(number), more.pop("data", data), *flags, **more))
        assert "address" in made[-1].ready, made[-1].log.read_text()
        return made[-1]

    yield make
    for daemon in made:
        with contextlib.suppress(ProcessLookupError):
            daemon.process.send_signal(signal.SIGCONT)
        daemon.close()


def digest(batch) -> tuple[int, int, str]:
    parts = digest_parts(batch)
    return batch.epoch, batch.step, batch_digest(parts, batch.epoch, batch.step)


def digests(where: object, epochs: int = 2, **options: object) -> list[tuple[int, int, str]]:
    with Loader(where, **{**OPTIONS, **options}) as loader:
        return [digest(batch) for _ in range(epochs) for batch in loader]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rank": 1, "world_size": 2, "prefetch": 1},
        {"last": "pad", "batch_size": 7, "verify": True},
        {"weights": "label", "params": True},
        {"subset": range(0, ROWS, 2), "views": 2},
        {"batch_size": ROWS},
    ],
    ids=str,
)
def test_any_number_of_daemons_gives_the_same_bytes(served, count, options) -> None:
    expected = digests(served.addresses[0], **options)
    assert digests(served.addresses[:count], **options) == expected


def test_the_chain_is_the_same_for_any_number_of_daemons_and_changes_of_them(served) -> None:
    """It covers what the caller got, not the runs of the daemons."""

    def chains(count: int, *changes: int) -> list[str]:
        with Loader(served.addresses[:count], **OPTIONS, verify=True) as loader:
            found = [batch.chain for batch in itertools.islice(loader, 5)]
            for change in changes:
                loader.set_hosts(served.addresses[:change])
            loader.load_state_dict(loader.state_dict())
            return found + [batch.chain for _ in range(2) for batch in loader]

    expected = chains(1)
    assert len(set(expected)) == 2 * BATCHES
    assert chains(2) == chains(3) == chains(3, 1) == chains(1, 2) == expected


def test_transports_mix(served) -> None:
    one = digests(served.addresses[0])
    assert digests([served.tcp, served.addresses[0]]) == one


def test_each_daemon_makes_its_share(served) -> None:
    with Loader(served.addresses, **OPTIONS) as loader:
        list(loader)
        by_host = loader.statistics().by_host
    assert by_host == dict.fromkeys(served.addresses, BATCHES // 3)
    assert loader.statistics().by_host == by_host
    assert loader.statistics().delivered == BATCHES


def test_a_cursor_fits_any_number_of_daemons(served) -> None:
    whole = digests(served.addresses[0], 1)
    for first, second in itertools.permutations([1, 2, 3], 2):
        with Loader(served.addresses[:first], **OPTIONS) as loader:
            taken = [digest(batch) for _, batch in zip(range(7), loader, strict=False)]
            state = loader.state_dict()
        with Loader(served.addresses[:second], **OPTIONS) as loader:
            loader.load_state_dict(state)
            assert taken + [digest(batch) for batch in loader] == whole


def test_jumps(served) -> None:
    whole = digests(served.addresses[0], 3)
    with Loader(served.addresses, **OPTIONS) as loader:
        loader.skip_steps(0, [2, 3, 9])
        kept = [digest(batch) for batch in loader]
        assert kept == [one for one in whole[:BATCHES] if one[1] not in (2, 3, 9)]
        loader.set_epoch(2)
        assert [digest(batch) for batch in loader] == whole[2 * BATCHES :]
        for epoch in range(3, 6):
            batch = next(iter(loader))
            assert (batch.epoch, batch.step) == (epoch, 0)


def test_replay_from_any(served) -> None:
    with Loader(served.addresses, **OPTIONS) as several, Loader(
        served.addresses[1], **OPTIONS) as one:  # fmt: skip
        found = several.replay(3, 0), one.replay(3, 0)
    for left, right in zip(found[0].outputs, found[1].outputs, strict=True):
        np.testing.assert_array_equal(left.array, right.array)


# ---------------------------------------------------------------- daemons come and go


def test_the_others_make_the_batches_of_one_that_is_killed(served, mortal, caplog) -> None:
    expected = digests(served.addresses[0], 3)
    doomed = [mortal(number) for number in range(2)]
    addresses = [served.addresses[0], *(daemon.address for daemon in doomed)]
    found = []
    with Loader(addresses, **OPTIONS) as loader:
        for epoch in range(3):
            for batch in loader:
                found.append(digest(batch))
                if (epoch, batch.step) in ((0, 5), (1, 7)):
                    doomed[epoch].stop(signal.SIGKILL)
        counts = loader.statistics().by_host
    assert found == expected
    assert sum(counts.values()) == len(expected)
    assert f"the daemon at {addresses[1]} was lost, the others make its batches (2)" in caplog.text
    assert f"the daemon at {addresses[2]} was lost, the others make its batches (1)" in caplog.text


def test_arrays_of_a_lost_daemon_stay_valid(served, mortal) -> None:
    doomed = mortal(0)
    with Loader([served.addresses[0], doomed.address], **OPTIONS) as loader:
        kept = [(digest(batch), batch) for batch in loader]
        doomed.stop(signal.SIGKILL)
        list(loader)
        assert [digest(batch) for _, batch in kept] == [before for before, _ in kept]


def test_one_that_comes_back_gets_its_share(served, mortal) -> None:
    whole = digests(served.addresses[0], 1)
    daemon = mortal(0)
    with Loader([served.addresses[0], daemon.address], **OPTIONS) as loader:
        list(loader)
        before = loader.statistics().by_host[daemon.address]
        daemon.stop(signal.SIGKILL)
        loader.set_epoch(0)
        assert [digest(batch) for batch in loader] == whole
        assert loader.statistics().by_host[daemon.address] == before
        mortal(0)
        for _ in range(100_000):
            loader.set_epoch(0)
            assert [digest(batch) for batch in loader] == whole
            if loader.statistics().by_host[daemon.address] >= before + BATCHES // 2:
                break
        statistics = loader.statistics()
    assert statistics.by_host[daemon.address] >= before + BATCHES // 2
    assert statistics.reconnects == 1


def test_hosts_are_added_and_removed(served) -> None:
    whole = digests(served.addresses[0], 1)
    with Loader(served.addresses[:1], **OPTIONS) as loader:
        batches = iter(loader)
        found = [digest(next(batches)) for _ in range(3)]
        loader.set_hosts(served.addresses)
        found += [digest(next(batches)) for _ in range(6)]
        assert loader.statistics().by_host == {
            served.addresses[0]: 5, served.addresses[1]: 2, served.addresses[2]: 2
        }  # fmt: skip
        loader.set_hosts(served.addresses[2:])
        found += [digest(batch) for batch in batches]
        assert loader.statistics().by_host[served.addresses[2]] == 2 + BATCHES - 9
    assert found == whole


def test_a_lost_one_may_stay_in_the_list_and_a_removed_one_stays_away(served, mortal) -> None:
    whole = digests(served.addresses[0], 1)
    daemon = mortal(0)
    with Loader([served.addresses[0], daemon.address], **OPTIONS) as loader:
        daemon.stop(signal.SIGKILL)
        assert [digest(batch) for batch in loader] == whole
        loader.set_hosts([*served.addresses[:2], daemon.address])
        loader.set_epoch(0)
        assert [digest(batch) for batch in loader] == whole
        loader.set_hosts(served.addresses[:2])
        mortal(0)
        for _ in range(20):
            loader.set_epoch(0)
            assert [digest(batch) for batch in loader] == whole
        assert daemon.address not in loader.statistics().by_host


def test_all_are_lost_and_one_comes_back(served, mortal) -> None:
    both = [mortal(0), mortal(1)]
    with Loader([daemon.address for daemon in both], **{**OPTIONS, "prefetch": 1}) as loader:
        batches = iter(loader)
        next(batches)
        for daemon in both:
            daemon.stop(signal.SIGKILL)
        with pytest.raises(DaemonLostError, match=r"all daemons of this loader were lost"):
            list(batches)
        assert loader.state_dict()["step"] > 0
        mortal(1)
        found, end = [], time.monotonic() + 60
        while not found and time.monotonic() < end:
            loader.set_epoch(0)
            with contextlib.suppress(DaemonLostError):
                found = [digest(batch) for batch in loader]
    assert found == digests(served.addresses[0], 1)


def test_reconnect_s_waits_when_all_are_lost(served, mortal) -> None:
    whole = digests(served.addresses[0], 1)
    daemon = mortal(0)
    with Loader([daemon.address], **OPTIONS, connection=Connection(reconnect_s=60)) as loader:
        batches = iter(loader)
        found = [digest(next(batches)) for _ in range(4)]
        daemon.stop(signal.SIGKILL)
        mortal(0)
        assert found + [digest(batch) for batch in batches] == whole


def test_a_daemon_that_is_stopped_costs_one_deadline(served, mortal) -> None:
    whole = digests(served.addresses[0], 1)
    daemon = mortal(0)
    with Loader(
        [served.addresses[0], daemon.address],
        **OPTIONS,
        connection=Connection(timeout_s=5.0),
    ) as loader:
        batches = iter(loader)
        found = [digest(next(batches)) for _ in range(4)]
        daemon.process.send_signal(signal.SIGSTOP)
        assert found + [digest(batch) for batch in batches] == whole


# ---------------------------------------------------------------- mistakes


@pytest.fixture(scope="module")
def black(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another dataset with the same fields."""
    path = tmp_path_factory.mktemp("hosts") / "other"
    rows = [{"pixels": np.zeros((30, 30), np.uint8), "label": 1}] * ROWS
    write(path, [schema.array("pixels", "uint8", (30, 30)), schema.label()], rows)
    return path


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        (lambda mortal, black: mortal(0, data=black), r"have different streams.*\n.*dataset"),
        (
            lambda mortal, _: mortal(0, pipeline="pixels_alone"),
            r"have different streams.*\n.*pipeline",
        ),
        (
            lambda mortal, _: mortal(0, "--integrity=off"),
            r"setting daemon.integrity: was auto, is off",
        ),
    ],
    ids=["dataset", "pipeline", "setting"],
)
def test_a_daemon_that_differs_is_rejected(served, mortal, black, begin, message) -> None:
    addresses = [served.addresses[0], begin(mortal, black).address]
    with pytest.raises(UsageError, match=message) as caught:
        Loader(addresses, **OPTIONS)
    assert all(address in str(caught.value) for address in addresses)


def test_one_that_comes_back_with_another_dataset_is_left_out(
    served, mortal, black, caplog
) -> None:
    whole = digests(served.addresses[0], 1)
    daemon = mortal(0)
    with Loader([served.addresses[0], daemon.address], **OPTIONS) as loader:
        next(iter(loader))
        daemon.stop(signal.SIGKILL)
        mortal(0, data=black)
        for _ in range(100_000):
            loader.set_epoch(0)
            assert [digest(batch) for batch in loader] == whole
            if "is left out" in caplog.text:
                break
    assert f"the daemon at {daemon.address} is left out: the daemons at" in caplog.text


def test_set_hosts_changes_nothing_if_one_fails(served, tmp_path) -> None:
    whole = digests(served.addresses[0], 1)
    with Loader(served.addresses[:2], **OPTIONS) as loader:
        with pytest.raises(ConnectError):
            loader.set_hosts([served.addresses[2], f"ipc://{tmp_path}/none"])
        assert [digest(batch) for batch in loader] == whole
        assert set(loader.statistics().by_host) == set(served.addresses[:2])


# ---------------------------------------------------------------- a directory


class Listed(Directory):
    """The addresses that a scheduler would give; a test changes the list."""

    pause_s = 0.01

    def __init__(self, *listed: str) -> None:
        self.listed: object = list(listed)
        self.asked = 0

    def addresses(self):
        self.asked += 1
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed


def epochs_until(loader: Loader, whole: list, done: Callable[[], bool]) -> None:
    """Read epoch 0 again and again, which gives the same bytes, until something has happened."""
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        loader.set_epoch(0)
        assert [digest(batch) for batch in loader] == whole


def test_a_directory_is_followed(served) -> None:
    whole = digests(served.addresses[0], 1)
    directory = Listed(served.addresses[0])
    with Loader(directory, **OPTIONS) as loader:
        list(loader)
        directory.listed = served.addresses
        epochs_until(loader, whole, lambda: len(loader.statistics().by_host) == 3)
        directory.listed = served.addresses[1:]
        removed = served.addresses[0]

        def left_alone() -> bool:
            before = loader.statistics().by_host[removed]
            loader.set_epoch(0)
            list(loader)
            return loader.statistics().by_host[removed] == before

        epochs_until(loader, whole, left_alone)
        with pytest.raises(UsageError, match="set_hosts: this loader follows a directory"):
            loader.set_hosts(served.addresses)


def test_a_directory_moves_a_loader_whose_daemons_are_all_lost(served, mortal) -> None:
    """The daemon that comes back has another address, as one that a scheduler starts again."""
    whole = digests(served.addresses[0], 1)
    first = mortal(0)
    directory = Listed(first.address)
    with Loader(directory, **OPTIONS, connection=Connection(reconnect_s=60)) as loader:
        batches = iter(loader)
        found = [digest(next(batches)) for _ in range(4)]
        first.stop(signal.SIGKILL)
        directory.listed = [mortal(1).address]
        assert found + [digest(batch) for batch in batches] == whole


def test_what_a_directory_names_may_not_be_up_yet(served, mortal, tmp_path) -> None:
    whole = digests(served.addresses[0], 1)
    directory = Listed(served.addresses[0])
    late = f"ipc://{tmp_path}/0/stoker.sock"
    with Loader(directory, **OPTIONS) as loader:
        directory.listed = [served.addresses[0], late]
        asked = directory.asked
        epochs_until(loader, whole, lambda: directory.asked > asked + 5)
        assert late not in loader.statistics().by_host
        assert mortal(0).address == late
        epochs_until(loader, whole, lambda: late in loader.statistics().by_host)


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (RuntimeError("no scheduler"), "RuntimeError: no scheduler"),
        (["/data/packed"], "the path of a dataset works only alone"),
        ("ipc:///a", "expected a list of addresses of daemons, or a Directory, got 'ipc:///a'"),
        (None, "expected a list of addresses of daemons, or a Directory, got None"),
    ],
    ids=str,
)
def test_a_directory_that_fails_is_reported_once(served, caplog, listed, message) -> None:
    whole = digests(served.addresses[0], 1)
    directory = Listed(served.addresses[0])
    with Loader(directory, **OPTIONS) as loader:
        directory.listed = listed
        asked = directory.asked
        epochs_until(loader, whole, lambda: directory.asked > asked + 5)
        directory.listed = []
        asked = directory.asked
        epochs_until(loader, whole, lambda: directory.asked > asked + 5)
    assert caplog.text.count("the directory of the daemons failed, and is asked again") == 1
    assert message in caplog.text


def test_a_directory_that_names_nothing_usable_at_the_beginning() -> None:
    for listed, message in [
        (Listed(), "expected 1 to 64 addresses of daemons, got 0"),
        (Listed("ipc:///a", "ipc:///a"), "expected each address once, got ipc:///a 2 times"),
        (Listed, "a list of addresses of daemons, or a Directory.*make an object of it"),
        (
            7,
            "expected the address of a daemon, the path of a dataset, a list of addresses of"
            " daemons, or a Directory, got 7",
        ),
    ]:
        with pytest.raises(UsageError, match=message):
            Loader(listed, **OPTIONS)
    failing = Listed()
    failing.listed = RuntimeError("no scheduler")
    with pytest.raises(RuntimeError, match="no scheduler"):
        Loader(failing, **OPTIONS)
