"""SEEK with several daemons: the core announces the batches of its share, in order."""

import pytest
from decided import places

from stoker.protocol.messages import Credit, Opened, Seek
from stoker.protocol.remote.shares import HostShare

KEYS = [11, 22, 33]


def take(rig, token, count, run=1):
    """Take so many batches, one credit at a time; return their places."""
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


def test_a_named_group_has_no_shares(rig):
    token = rig.open(batch_size=16, prefetch=3, group="sweep")
    rig.send(token, Seek(1, 0, 0, [], KEYS, 0))
    (error,) = rig.errors(token)
    assert error.code == "usage"
    assert "a named group shares each batch among its members" in error.message
