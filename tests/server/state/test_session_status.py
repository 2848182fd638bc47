"""What STATUS says about sessions: counts, places, and the clock of a client that waits."""

import msgspec

from stoker.protocol.codec import MAX_MESSAGE_BYTES, encode
from stoker.protocol.messages import MAX_LISTED, AskStatus, Credit, Hello, Seek, Status
from stoker.server.state import events as ev
from stoker.server.state.clients import Client


def sessions(rig, asker):
    told = [one for one in rig.sent(asker) if isinstance(one, Status)]
    rig.send(asker, AskStatus(sessions=True))
    news = [one for one in rig.sent(asker) if isinstance(one, Status)][len(told) :]
    assert len(news) == 1
    return news[0].sessions


def one(rig, asker):
    (only,) = sessions(rig, asker)
    return only


def test_sessions_are_listed_only_if_they_are_asked_for(rig):
    asker, other = rig.hello(), rig.hello()
    rig.send(asker, AskStatus())
    assert rig.sent(asker)[-1] == Status(rig.counters())
    rig.send(asker, AskStatus(sessions=True))
    told = rig.sent(asker)[-1]
    assert len(told.sessions) == 1, "without the one that asks"
    assert (told.datasets, told.pipelines) == (["photos"], ["train", "plain"])
    rig.end(other)
    assert sessions(rig, asker) == []


def test_the_states_of_a_session(rig, make_open, make_result):
    asker, other = rig.hello(), rig.hello(attach=False)
    assert (one(rig, asker).state, one(rig, asker).name) == ("greeted", "run-17")
    rig.do(ev.LifelineUp, other)
    assert one(rig, asker).state == "attached"
    rig.send(other, make_open(total_epochs=90))
    opening = one(rig, asker)
    assert (opening.state, opening.dataset, opening.pipeline) == ("opening", "photos", "train")
    assert (opening.slots, opening.steps, opening.stream) == (0, 0, "")
    rig.do(ev.Built, make_result(1))
    rig.do(ev.SlabReserved, 1)
    is_open = one(rig, asker)
    assert (is_open.state, is_open.epochs, is_open.steps) == ("open", 90, 3)
    assert (is_open.slots, is_open.rank, is_open.world_size) == (5, 0, 1)
    assert len(is_open.stream) == 32


def test_the_place_and_the_counts_of_batches(rig):
    asker, token = rig.hello(), rig.open()
    rig.run(token, epoch=4, step=2, granted=2)
    before = one(rig, asker)
    assert (before.epoch, before.step, before.announced, before.untaken) == (4, 2, 0, 0)
    rig.work()
    first, second = rig.ready(token)
    now = one(rig, asker)
    assert (now.epoch, now.step, now.steps) == (5, 1, 3)
    assert (now.announced, now.returned, now.untaken) == (2, 0, 2)
    rig.send(token, Credit(1, 1))
    assert one(rig, asker).untaken == 1
    rig.release(token, first)
    rig.release(token, first)
    assert one(rig, asker).returned == 1, "a stale release is none"
    rig.release(token, second)
    assert one(rig, asker).returned == 2


def test_the_clock_runs_while_all_credits_are_granted_and_nothing_is_announced(rig):
    asker, token = rig.hello(), rig.open()

    def waited():
        return round(one(rig, asker).waited_s, 6)

    rig.tick(5.0)
    assert waited() == 0.0, "it has not asked yet"
    rig.run(token, granted=2)
    rig.tick(0.5)
    assert waited() == 0.5
    rig.work()
    rig.tick(3.0)
    assert waited() == 0.5, "two batches are there"
    rig.send(token, Credit(1, 1))
    rig.tick(3.0)
    assert waited() == 0.5, "one batch is still there"
    rig.send(token, Credit(1, 1))
    rig.tick(0.25)
    rig.send(token, Credit(1, 1))
    rig.tick(0.25)
    assert waited() == 1.0, "it began with the first credit that left none"


def test_a_new_run_and_an_error_stop_the_clock(rig):
    asker, token = rig.hello(), rig.open()
    rig.run(token, granted=1)
    rig.tick(1.0)
    rig.send(token, Seek(2, 1, 0))
    rig.tick(1.0)
    assert round(one(rig, asker).waited_s, 6) == 1.0
    rig.send(token, Credit(2, 1))
    rig.tick(1.0)
    rig.fail(1)
    while rig.claims(1) or rig.claims(2):
        for worker in (1, 2):
            if rig.claims(worker):
                rig.fail(worker)
    assert len(rig.errors(token)) == 1
    rig.tick(1.0)
    rig.send(token, Credit(2, 1))
    rig.tick(1.0)
    assert round(one(rig, asker).waited_s, 6) == 2.0


def test_at_most_so_many_sessions_are_listed_and_they_fit_into_a_message(make_rig):
    names = {f"{n:04}" + "\N{OLD ITALIC LETTER A}" * 252: "a:b" for n in range(MAX_LISTED + 9)}
    rig = make_rig(datasets=names, pipelines=names, max_sessions=MAX_LISTED + 9)
    asker = rig.hello()
    long = "\N{OLD ITALIC LETTER A}" * 64
    client = Client(long, long, 2**48, long, long)
    for number in range(MAX_LISTED + 5):
        token = number.to_bytes(16, "little")
        rig.do(ev.Greeted, b"peer", token, Hello(1, 1, "test"), "", client)
        session = rig.core._sessions.by_token[token]
        session.dataset = session.pipeline = long
    rig.send(asker, AskStatus(sessions=True))
    told = rig.sent(asker)[-1]
    assert [len(told.sessions), len(told.datasets), len(told.pipelines)] == [MAX_LISTED] * 3
    whole = msgspec.structs.replace(
        told,
        sessions=[msgspec.structs.replace(s, group=long, stream="0" * 32) for s in told.sessions],
    )
    assert len(encode(asker, [whole])) < MAX_MESSAGE_BYTES
