"""Shares of several daemons: each batch has one owner, each round has each daemon once."""

import struct

import xxhash
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.remote.shares import HostShare, host_key

KEYS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=64, unique=True)


@given(KEYS, st.integers(0, 2**48), st.integers(0, 2**40))
def test_each_round_has_each_daemon_once(keys, epoch, number) -> None:
    first = number * len(keys)
    owners = [HostShare(keys, 0).owner(epoch, first + n) for n in range(len(keys))]
    assert sorted(owners) == list(range(len(keys)))


@given(KEYS, st.integers(0, 2**48), st.integers(0, 2**48))
def test_the_owner_as_the_page_says(keys, epoch, step) -> None:
    number, position = divmod(step, len(keys))
    weights = {
        host: xxhash.xxh64(struct.pack("<QQQ", key, epoch, number)).intdigest()
        for host, key in enumerate(keys)
    }
    order = sorted(weights, key=weights.__getitem__)
    for host in range(len(keys)):
        assert HostShare(keys, host).owner(epoch, step) == order[position]


def test_the_example_of_the_page() -> None:
    share = HostShare([1, 2, 3], 0)
    assert [share.owner(0, step) for step in range(9)] == [1, 2, 0, 1, 0, 2, 0, 1, 2]


@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9, unique=True),
    st.data(),
)
def test_the_first_place_is_that_of_a_search(keys, data) -> None:
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    host = data.draw(st.integers(0, len(keys) - 1))
    share = HostShare(keys, host)

    def steps(epoch: int) -> int:
        return lengths[epoch % len(lengths)]

    epoch = data.draw(st.integers(0, 20))
    step = data.draw(st.integers(0, steps(epoch)))
    places = [(e, s) for e in range(epoch, epoch + 200) for s in range(steps(e))]
    later = [place for place in places if place >= (epoch, step)]
    owned = next(place for place in later if share.owner(*place) == host)
    assert share.first(epoch, step, steps) == owned


def test_keys_differ_by_address_stream_and_rank() -> None:
    asked = [("ipc:///a", "s", 0), ("ipc:///b", "s", 0), ("ipc:///a", "t", 0), ("ipc:///a", "s", 1)]
    assert len({host_key(*one) for one in asked}) == 4
    assert all(0 <= host_key(*one) < 2**64 for one in asked)
