"""Jobs: sessions with one key have one stream, for as long as one of them is open."""

import pytest
from decided import of

from stoker.protocol.messages import Close, Error, Opened
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev

JOB = b"j" * 16
RANKS = {"job": JOB, "world_size": 2}


def jobs(rig) -> int:
    return len(rig.core._openings._jobs)


def refused(rig, make_open, **changes) -> Error:
    """The error for a session with another stream."""
    token = rig.hello()
    rig.send(token, make_open(**RANKS, **changes))
    (error,) = of(rig.sent(token), Error)
    return error


def test_a_rank_with_another_stream_is_refused_and_may_open_again(rig, make_open) -> None:
    rig.open(**RANKS, rank=0)
    token = rig.hello()
    rig.send(token, make_open(**RANKS, rank=1, seed=8, request=2))
    (error,) = of(rig.sent(token), Error)
    assert (error.code, error.request) == ("usage", 2)
    assert error.details == {"rank": 1, "other": 0}
    assert "\n  seed: rank 0 has 7, rank 1 has 8\n" in error.message
    rig.open(token, **RANKS, rank=1)
    assert jobs(rig) == 1


def test_a_rank_that_comes_again_must_have_its_stream(rig, make_open) -> None:
    """A session that its client has lost is still open, and the client opens another one."""
    rig.open(**RANKS, rank=0)
    rig.open(**RANKS, rank=0)
    message = refused(rig, make_open, rank=0, seed=8).message
    assert "two processes are rank 0 of one job" in message
    assert "seed: the first has 7, this one has 8" in message


@pytest.mark.parametrize("way", ["close", "lifeline"])
def test_a_job_is_gone_with_its_last_session(rig, make_open, way) -> None:
    tokens = [rig.open(**RANKS, rank=rank) for rank in range(2)]
    rig.end(tokens[0], way)
    assert "rank 1 has 7, rank 0 has 8" in refused(rig, make_open, rank=0, seed=8).message
    rig.end(tokens[1], way)
    assert jobs(rig) == 0
    rig.open(**RANKS, rank=0, seed=8)


def test_one_job_does_not_see_another(rig) -> None:
    rig.open(**RANKS, rank=0)
    rig.open(job=b"k" * 16, world_size=2, rank=1, seed=8)
    for rank in range(2):
        rig.open(world_size=2, rank=rank, seed=9 + rank)
    assert jobs(rig) == 2


def test_sessions_that_wait_for_one_build_are_compared(rig, make_open, make_result) -> None:
    tokens = [rig.hello() for _ in range(2)]
    said = rig.send(tokens[0], make_open(**RANKS, rank=0))
    rig.send(tokens[1], make_open(**RANKS, rank=1, views=2))
    (build,) = of(said, ins.StartBuild)
    (slab,) = of(rig.do(ev.Built, make_result(build.request.build)), ins.ReserveSlab)
    rig.do(ev.SlabReserved, slab.slab)
    assert of(rig.sent(tokens[0]), Opened)
    (error,) = of(rig.sent(tokens[1]), Error)
    assert "views: rank 0 has 1, rank 1 has 2" in error.message


def test_a_rank_that_gets_no_memory_leaves_its_job(rig, make_open) -> None:
    rig.end(rig.open())  # the build is known
    for end in ("refused by the kernel", "over the budget", "closed"):
        token = rig.hello()
        many = {"prefetch": 4096} if end == "over the budget" else {}
        said = rig.send(token, make_open(**RANKS, rank=0, **many))
        if end == "refused by the kernel":
            assert jobs(rig) == 1, "others are compared with it from here on"
            (slab,) = of(said, ins.ReserveSlab)
            rig.do(ev.SlabRefused, slab.slab, "no")
        elif end == "closed":
            rig.send(token, Close())
        if end != "closed":
            assert of(rig.sent(token), Error)
        assert jobs(rig) == 0, end
