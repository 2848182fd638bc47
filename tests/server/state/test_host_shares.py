"""SEEK with several daemons: the core announces the batches of its share, in order."""

import pytest
from decided import places

from stoker.protocol.messages import Credit, Opened, Seek
from stoker.protocol.remote.shares import HostShare

KEYS = [11, 22, 33]


def take(rig, token, count, run=1):
    """Take that number of batches, one credit at a time; return their places."""
    found = []
    while len(found) < count:
        rig.work()
        ready = rig.ready(token)[len(found) :]
        found += [(one.epoch, one.step) for one in ready]
        rig.release(token, *ready)
        rig.send(token, Credit(run, len(ready)))
    return found


@pytest.mark.parametrize("host", range(3))
def test_a_daemon_makes_its_share_across_epochs(rig, host):
    token = rig.open(batch_size=16, prefetch=3)
    steps = next(one.steps for one in rig.sent(token) if isinstance(one, Opened))
    rig.send(token, Seek(1, 0, 1, [], KEYS, host), Credit(1, 3))
    found = take(rig, token, 12)
    share = HostShare(KEYS, host)
    every = [(e, s) for e in range(40) for s in range(steps)]
    expected = [place for place in every if place >= (0, 1) and share.owner(*place) == host]
    assert found[:12] == expected[:12]


def test_wrong_shares_are_refused_and_change_nothing(rig):
    token = rig.open(batch_size=16, prefetch=3)
    rig.run(token)
    rig.work()
    before = places(rig, token)
    assert before
    for hosts, host in (([1, 1], 0), ([1, 2], 2)):
        rig.send(token, Seek(2, 0, 0, [], hosts, host), Credit(2, 3))
    assert [error.code for error in rig.errors(token)] == ["usage", "usage"]
    assert places(rig, token) == before


@pytest.mark.parametrize("mode", ["mirror", "fork"])
def test_members_of_a_group_have_one_share(rig, mode):
    """One that is behind gets what was computed for the other, or has it computed in step."""
    built = {"decoded_bytes": 1000, "usual_bytes": 100}
    wanted = {"batch_size": 16, "prefetch": 3, "group": "sweep", "mode": mode, "group_size": 2}
    quick, slow = (rig.open(built=built, **wanted) for _ in range(2))
    for token, granted in ((quick, 3), (slow, 1)):
        rig.send(token, Seek(1, 0, 0, [], KEYS, 1), Credit(1, granted))
    rig.work()
    assert places(rig, slow) == places(rig, quick)[:1]
    rig.send(slow, Credit(1, 2))
    assert places(rig, slow) == places(rig, quick), "at once: they are there"
    assert rig.counters()["rows_total"] == 3 * 16 * (2 if mode == "fork" else 1)


def test_a_batch_is_not_kept_for_a_member_that_another_daemon_gives_it_to(rig):
    """Members may differ in their daemons for a moment, when one is lost."""
    wanted = {"batch_size": 16, "prefetch": 3, "group": "sweep"}
    whole, part = rig.open(**wanted), rig.open(**wanted)
    rig.send(part, Seek(1, 0, 0, [], KEYS, 1), Credit(1, 1))
    rig.run(whole)
    rig.work()
    ready = rig.ready(whole)
    rig.release(whole, *ready)
    share = HostShare(KEYS, 1)
    later = [one for one in ready if share.owner(one.epoch, one.step) == 1]
    got = len(rig.ready(part))
    assert rig.counters()["kept_slots"] == len(later) - got
