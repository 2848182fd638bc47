"""The loop never waits: for memory, for workers, for anybody; and it stops in bounded steps."""

import itertools
import os
import threading

import pytest

from stoker.protocol import codec, messages
from stoker.server.daemon.daemon import BUDGET_S, LEAST_REST_S
from stoker.server.daemon.poller import Poller
from stoker.server.settings.cgroup import Room


@pytest.fixture
def stuck(monkeypatch, fake_supervisor):
    """Workers that begin their chunks and never end them."""
    begun = threading.Event()
    monkeypatch.setattr(fake_supervisor, "_work", lambda *_: begun.set())
    return begun


def test_others_are_served_while_memory_is_reserved(daemon, connect, open_record):
    asked, go_on = threading.Event(), threading.Event()

    def slow_room():
        asked.set()
        assert go_on.wait(20)
        return Room(2**40, "")

    other = connect().hello().attach()
    other.open()
    daemon.daemon._reserver._room = slow_room
    waiting = connect().hello().attach()
    waiting.send(open_record())
    assert asked.wait(20)
    other.send(messages.Seek(1, 0, 0), messages.Credit(1, 1))
    other.receive(messages.Ready)
    connect().hello().attach()
    go_on.set()
    waiting.receive(messages.Opened)


def test_a_burst_of_messages_is_spread_over_turns(daemon, connect, monkeypatch):
    """A turn ends when its budget is spent; here each event takes a quarter of it."""
    client = connect().hello().attach()
    running, sent, handled = daemon.daemon, threading.Event(), [0]
    begin, handle = running._turns.begin, running._core.handle

    def begin_turn():
        handled.append(0)
        begin()

    def handle_slowly(event):
        assert sent.wait(20)
        handled[-1] += 1
        return handle(event)

    monkeypatch.setattr(running._turns, "elapsed_s", lambda: handled[-1] * BUDGET_S / 4)
    monkeypatch.setattr(running._turns, "begin", begin_turn)
    monkeypatch.setattr(running._core, "handle", handle_slowly)
    for _ in range(50):
        client.send(messages.AskStatus())
    sent.set()
    for _ in range(50):
        client.receive(messages.Status)
    assert sum(handled) >= 50
    assert max(handled) <= 4


def test_an_idle_daemon_turns_only_for_its_ticks(daemon, connect):
    client = connect().hello().attach()
    client.send(messages.AskStatus())
    before = client.receive(messages.Status).counters["loop_turns_total"]
    assert not client.dealer.poll(1000)
    client.send(messages.AskStatus())
    after = client.receive(messages.Status).counters["loop_turns_total"]
    assert 2 <= after - before <= 12


def test_a_stop_says_bye_before_the_lifeline_ends(start, connect):
    running = start()
    client = connect(running.address).hello().attach()
    client.open()
    running.daemon.stop()
    assert client.receive(messages.Bye).reason == "the daemon shuts down"
    assert client.closed_by_daemon()
    assert running.join() == 0


def test_the_first_stop_waits_for_chunks_the_second_does_not(start, connect, stuck):
    running = start(daemon__grace_s=1000)
    client = connect(running.address).hello().attach()
    client.open()
    client.send(messages.Seek(1, 0, 0), messages.Credit(1, 1))
    assert stuck.wait(20)
    running.daemon.stop()
    client.receive(messages.Bye)
    late = connect(running.address)
    late.send(messages.Hello(1, 1, "late"))
    assert "shutting down" in late.receive(messages.Error).message
    assert running.daemon._take_snapshot().unready == "shutting down"
    running.daemon.stop()
    assert running.join() == 0


def test_the_first_stop_waits_no_longer_than_the_grace(start, connect, stuck):
    running = start(daemon__grace_s=0.3)
    client = connect(running.address).hello().attach()
    client.open()
    client.send(messages.Seek(1, 0, 0), messages.Credit(1, 1))
    assert stuck.wait(20)
    running.daemon.stop()
    assert running.join() == 0


def test_the_daemon_ends_with_its_last_client(start, connect):
    running = start(daemon__exit_with_last_client=True)
    first = connect(running.address).hello().attach()
    second = connect(running.address).hello().attach()
    first.side.close()
    second.open()
    second.side.close()
    assert running.join() == 0


def test_a_reused_descriptor_number_is_waited_for():
    """The reason for poll: epoll would have forgotten the number when its first file closed."""
    poller = Poller()
    reading, writing = os.pipe()
    assert poller.wait({reading}, 0) == []
    os.close(writing)
    os.close(reading)
    again, other = os.pipe()
    try:
        assert again == reading
        os.write(other, b"x")
        assert poller.wait({again}, 10) == [again]
        assert poller.wait(set(), 0) == []
    finally:
        os.close(again)
        os.close(other)


def test_what_a_session_is_told_in_a_turn_is_one_message(connect):
    client = connect().hello().attach()
    client.send(messages.AskStatus(), messages.Credit(1, 1), messages.AskReplay(2, 0, 0, 0, 0))
    _, told = codec.decode_from_daemon(client.dealer.recv())
    assert [type(record) for record in told] == [messages.Status, messages.Error, messages.Error]


def test_the_loop_rests_before_a_turn_while_nobody_needs_an_answer(daemon, connect):
    client = connect().hello().attach()
    rests = []
    daemon.daemon._rest = rests.append
    daemon.daemon._core.rest_s = itertools.chain(
        [0.0015, LEAST_REST_S / 2], itertools.repeat(0.0)
    ).__next__
    for _ in range(3):
        client.send(messages.AskStatus())
        client.receive(messages.Status)
        if rests:
            break
    daemon.daemon._core.rest_s = lambda: 0.0
    assert rests == [0.0015]
