"""Rows that are mixed with others of their group: chunks end with a group, and who is blamed."""

from stoker.server.state.served_streams import PROBE_ROWS

GROUP = 8


def chunks(rig, *workers):
    return [(w.row_lo, w.row_hi) for worker in workers for w in rig.claims(worker)]


def test_chunks_end_with_a_group(make_rig):
    rig = make_rig(workers=1, outstanding=1)
    rig.up(1)
    token = rig.open(batch_size=45, built={"rows": 50, "group_rows": GROUP})
    rig.run(token, granted=1)
    found = []
    while rig.claims(1):
        found += chunks(rig, 1)
        rig.finish(1)
    assert found[0] == (0, GROUP), f"a probe of {PROBE_ROWS} rows, and the rest of their group"
    assert [lo for lo, _ in found[1:]] == [hi for _, hi in found[:-1]]
    assert all(lo % GROUP == 0 for lo, _ in found)
    assert found[-1][1] == 45


def test_a_rank_begins_within_a_group_and_then_keeps_to_them(make_rig):
    rig = make_rig(workers=1, outstanding=1)
    rig.up(1)
    token = rig.open(batch_size=40, rank=1, world_size=3, built={"rows": 50, "group_rows": GROUP})
    rig.run(token, granted=1)
    assert chunks(rig, 1) == [(13, 24)]


def test_a_row_of_the_group_outside_of_the_claim_is_blamed(make_rig):
    """A worker dies twice at row 12, which it computes for row 13: the stream stops naming it."""
    rig = make_rig(workers=1, outstanding=1)
    rig.up(1)
    token = rig.open(batch_size=40, rank=1, world_size=3, built={"rows": 50, "group_rows": GROUP})
    rig.run(token, granted=1)

    rig.die(1, row=12, blame=True)
    rig.tick(40)
    rig.up(2)
    (again,) = rig.claims(2)
    assert (again.row_lo, again.row_hi) == (13, 24)
    said = rig.die(2, row=12, blame=True)
    errors = [str(item) for item in said if "killed or hung a worker 2 times" in str(item)]
    assert any("row 12 of epoch 0, step 0" in text for text in errors), said
