"""The main job through real sockets and real memory, with workers in process."""

import numpy as np
import pytest

from stoker.protocol import messages
from stoker.server.settings.cgroup import Room


def rows_of(client, opened, ready) -> np.ndarray:
    """Return the rows of a batch, as they are in the slab now."""
    [placed] = [placed for placed in ready.outputs if placed.name == "x"]
    begin = ready.slot * opened.slot_bytes + placed.offset
    return np.frombuffer(client.slab[begin : begin + placed.size_bytes], np.uint8).reshape(
        placed.shape
    )


def take(client, opened, run, epoch, step):
    """Take the next batch, check it, return its READY."""
    ready = client.receive(messages.Ready)
    assert (ready.run, ready.epoch, ready.step) == (run, epoch, step)
    return ready, rows_of(client, opened, ready)


@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (1, 3)])
def test_batches_arrive_in_order_across_epochs(connect, expected_value, rank, world_size):
    client = connect().hello().attach()
    opened = client.open(rank=rank, world_size=world_size, batch_size=5 * world_size)
    steps = opened.steps
    client.send(messages.Seek(1, 2, steps - 2), messages.Credit(1, 3))
    place = (2, steps - 2)
    for _ in range(30):
        ready, rows = take(client, opened, 1, *place)
        for row in range(opened.rows):
            assert set(rows[row]) == {expected_value(*place, opened.first_row + row)}
        client.send(messages.Release([(ready.slot, ready.generation)]), messages.Credit(1, 1))
        place = (place[0], place[1] + 1) if place[1] + 1 < steps else (place[0] + 1, 0)


def test_a_new_run_voids_the_old_one(connect):
    client = connect().hello().attach()
    opened = client.open()
    client.send(messages.Seek(1, 0, 0), messages.Credit(1, 3))
    for step in range(3):
        take(client, opened, 1, 0, step)
    client.send(messages.Seek(2, 5, 1), messages.Credit(2, 1))
    take(client, opened, 2, 5, 1)


def test_many_clients_at_a_time_do_not_disturb_each_other(connect, expected_value):
    clients = [connect().hello().attach() for _ in range(8)]
    opened = [client.open(seed=number) for number, client in enumerate(clients)]
    for number, client in enumerate(clients):
        client.send(messages.Seek(1, number, 0), messages.Credit(1, 3))
    for step in range(9):
        for number, client in enumerate(clients):
            ready, rows = take(client, opened[number], 1, number, step)
            assert rows[0, 0] == expected_value(number, step, 0)
            client.send(messages.Release([(ready.slot, ready.generation)]), messages.Credit(1, 1))


def test_a_client_that_dies_gives_its_memory_back_and_others_go_on(daemon, connect, eventually):
    other = connect().hello().attach()
    opened = other.open()
    dying = connect().hello().attach()
    dying.open()
    dying.send(messages.Seek(1, 0, 0), messages.Credit(1, 3))
    dying.receive(messages.Ready)
    assert daemon.counter("memory_granted_bytes") == 2 * opened.slots * opened.slot_bytes
    dying.side.close()
    eventually(lambda: daemon.counter("memory_granted_bytes") == opened.slots * opened.slot_bytes)
    other.send(messages.Seek(1, 0, 0), messages.Credit(1, 1))
    take(other, opened, 1, 0, 0)


def test_close_ends_the_session(daemon, connect, eventually):
    client = connect().hello().attach()
    client.open()
    client.send(messages.Close())
    assert client.closed_by_daemon()
    eventually(lambda: daemon.counter("memory_granted_bytes") == 0)
    client.send(messages.AskStatus())
    assert client.receive(messages.Error).code == "protocol"


def test_memory_beyond_the_limit_is_refused_with_the_numbers(connect, open_record):
    client = connect().hello().attach()
    client.send(open_record(batch_size=2**21, tail="pad", request=7))
    error = client.receive(messages.Error)
    assert (error.request, error.code) == (7, "resource")
    assert "64.0 MiB" in error.message or str(64 * 2**20) in error.message
    client.open()  # the session may try again


def test_memory_that_the_host_does_not_have_is_refused_with_the_numbers(
    daemon, connect, open_record
):
    daemon.daemon._reserver._room = lambda: Room(2**26 + 4096, "a full host")
    client = connect().hello().attach()
    client.send(open_record())
    error = client.receive(messages.Error)
    assert error.code == "resource"
    assert "the slab needs 56.0 KiB, but only 4.0 KiB may be used (a full host)" in error.message


def test_a_session_reads_on_in_slots_that_get_their_memory_later(start, connect, expected_value):
    daemon = start(testing__at_once_bytes="0")
    client = connect(daemon.address).hello().attach()
    opened = client.open(prefetch=9, batch_size=10)
    slots = set()
    client.send(messages.Seek(1, 0, 0), messages.Credit(1, 9))
    held = []
    for number in range(60):
        ready, rows = take(client, opened, 1, *divmod(number, opened.steps))
        assert rows[0, 0] == expected_value(*divmod(number, opened.steps), 0)
        slots.add(ready.slot)
        held.append((ready.slot, ready.generation))
        back = [held.pop(0)] if len(held) > 2 else []
        client.send(messages.Release(back), messages.Credit(1, 1))
    assert max(slots) > 5, "those that followed are used"


def test_memory_that_is_gone_before_the_rest_is_reserved_ends_the_session(start, connect):
    daemon = start(testing__at_once_bytes="0")
    rooms = iter([Room(2**40, "")])
    daemon.daemon._reserver._room = lambda: next(rooms, Room(0, "a full host"))
    client = connect(daemon.address).hello().attach()
    opened = client.open(prefetch=9)
    error = client.receive(messages.Error)
    assert (error.code, error.request, error.run) == ("resource", 0, None)
    assert "the slab needs" in error.message
    assert "(a full host)" in error.message
    assert opened.slots == 20
    assert client.closed_by_daemon()


def test_status_has_the_counters_of_core_and_loop(connect):
    client = connect().hello().attach()
    client.send(messages.AskStatus())
    counters = client.receive(messages.Status).counters
    assert counters["sessions"] == 1
    assert counters["loop_turns_total"] > 0
    assert counters["loop_turn_max_seconds"] > 0
    assert counters["refused_messages_total"] == 0
