"""A Loader with several fake daemons: what they may say, and what this process may lack."""

import _thread
import errno
import threading
import time
from collections.abc import Callable

import msgspec
import pytest
from fake_daemons import DEADLINE_S, FakeDaemon
from loading import grouped

from stoker.client import Loader
from stoker.client.hosts.fleet import Fleet
from stoker.client.hosts.returns import Returns
from stoker.protocol import messages as m
from stoker.protocol.errors import AccessError, UsageError

REMOVED = AccessError("the daemon removed this client's key from its list of clients")


@pytest.fixture
def two(make_daemon: Callable[..., FakeDaemon]) -> list[FakeDaemon]:
    return [make_daemon(), make_daemon()]


def load(fakes: list[FakeDaemon], **more: object) -> Loader:
    given = {"pipeline": "train", "batch_size": 16, "device": "numpy", "prefetch": 2}
    return Loader([fake.address for fake in fakes], **grouped(**{**given, **more}))


def places(loader: Loader) -> list[tuple[int, int]]:
    return [(batch.epoch, batch.step) for batch in loader]


def test_a_fault_of_this_process_is_logged_once_and_the_daemon_is_tried_again(caplog) -> None:
    """Without this the thread would die of it, and no lost daemon would ever come back."""
    tried = threading.Semaphore(0)
    full = threading.Event()
    opened = object()

    def connect(address: str) -> object:
        tried.release()
        if not full.is_set():
            raise OSError(errno.EMFILE, "Too many open files")
        return opened

    returns = Returns(connect)  # type: ignore[arg-type]
    try:
        returns.expect("ipc:///a")
        assert tried.acquire(timeout=DEADLINE_S)
        assert tried.acquire(timeout=DEADLINE_S)
        full.set()
        assert returns.take(DEADLINE_S) == ("ipc:///a", opened)
        assert returns.lost == set()
    finally:
        returns.close()
    assert caplog.text.count("ipc:///a cannot be reached, and is tried again: OSError") == 1


def test_one_that_removes_the_key_is_left_out_and_the_other_makes_its_batches(
    two, same, caplog
) -> None:
    code, message, details = REMOVED.to_record()
    with load(two) as loader:
        batches = iter(loader)
        same(two[0], next(batches), 0, 0)
        two[1].answer_open = lambda record: [m.Error(record.request, code, message, details)]
        two[1].say(m.Error(0, code, message, details))
        assert places(batches) == [(0, 1), (0, 2), (0, 3), (0, 4)]
        assert places(loader) == [(1, step) for step in range(5)]
        # The other may have sent its three of the first six batches before it removed the key.
        assert loader.statistics().by_host[two[0].address] >= 7
        two[1].wait_for(lambda: len(two[1].of(m.Open)) > 1)
        two[0].say(m.Error(0, code, message, details))
        with pytest.raises(AccessError, match="removed this client's key"):
            list(loader)
    assert f"the daemon at {two[1].address} was lost, the others make its batches" in caplog.text


def test_a_crash_in_batches_that_nobody_got_is_forgotten_with_their_daemon(two) -> None:
    """The other daemon makes these batches again, and may not have the crash."""
    for fake in two:
        fake.alter_ready = lambda ready: [
            msgspec.structs.replace(ready, crashed=[7] if ready.step >= 2 else [])
        ]
    with load(two) as loader:
        batches = iter(loader)
        next(batches), next(batches)
        fleet = loader._connection
        gone, left = two if fleet._owner(0, 2) == two[0].address else two[::-1]
        member = fleet._members[gone.address].daemon_stream
        while not member.delivery.is_there(0, 2):
            member.session.receive(time.monotonic() + DEADLINE_S)
        assert fleet.crashed == {7: (0, 2)}
        left.alter_ready = lambda ready: [ready]
        loader.set_hosts([left.address])
        assert places(batches) == [(0, 2), (0, 3), (0, 4)]
        assert "crashed" not in loader.state_dict()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("crash_policy", "replace", "setting bad_samples.crash_policy: was raise, is replace"),
        ("integrity", "off", "setting daemon.integrity: was auto, is off"),
        ("integrity", "", "setting daemon.integrity: was auto, is not sent"),
    ],
)
def test_settings_that_change_bytes_must_agree(two, name, value, message) -> None:
    two[1].traits[name] = value
    with pytest.raises(UsageError, match=rf"have different streams.*\n *{message}\n") as caught:
        load(two)
    assert all(fake.address in str(caught.value) for fake in two)


class Opened:
    """A connection that says when it was closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def test_an_interrupt_while_daemons_are_opened_leaves_no_connection() -> None:
    """One is open, and the other opens after the interrupt."""
    made = {"ipc:///a": Opened(), "ipc:///b": Opened()}
    first = threading.Event()

    def connect(address: str, *_: object) -> Opened:
        if address == "ipc:///a":
            first.set()
        else:
            assert first.wait(DEADLINE_S)
            _thread.interrupt_main()
        return made[address]

    with pytest.raises(KeyboardInterrupt):
        Fleet(list(made), connect, rank=0, reconnect_s=None)  # type: ignore[arg-type]
    assert all(opened.closed.wait(DEADLINE_S) for opened in made.values())
