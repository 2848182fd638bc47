"""Groups at several daemons: members share at each of them, and no byte changes.

Two daemons serve the same pictures. Members of a mirror share batches, those of a fork decoded
samples, wherever a batch is made.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Sequence

import pytest
from counting import counters, counters_at_rest, wait_for
from daemons import Daemon, Restarted
from law_damage import ROWS, write_pictures
from law_rig import flags, serving
from loading import digest, grouped, in_step

from stoker.client import Directory, Loader
from stoker.protocol.errors import UsageError

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
B, EPOCHS, FIELDS = 8, 4, 2
GROUP_WAIT_S = 60.0
"""For how long the first member of a group waits for the others."""
STEPS = ROWS // B
SAME = {"pipeline": "crops", "seed": 1}
GROUPS = {
    "mirror": (SAME, SAME, SAME),
    "fork": (
        SAME,
        {"pipeline": "evaluation", "seed": 2, "on_error": "mask"},
        {"pipeline": "mixed", "seed": 3, "verify": True},
    ),
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory, photographs):
    path = tmp_path_factory.mktemp("group-hosts") / "whole"
    write_pictures(path, photographs)
    return {"whole": path}


@pytest.fixture(scope="module")
def served(tmp_path_factory, pictures) -> Iterator[list[Daemon]]:
    with contextlib.ExitStack() as stack:
        folders = [tmp_path_factory.mktemp("host") for _ in range(2)]
        yield [stack.enter_context(serving(f, pictures, workers=1)) for f in folders]


@pytest.fixture(scope="module")
def lone(served) -> dict[str, list[list[str]]]:
    """The digests of each member's stream without a group, from one daemon."""

    def alone(options: dict) -> list[str]:
        with Loader(served[0].address, **grouped(**OPTIONS, **options)) as loader:
            return [digest(batch) for _ in range(EPOCHS) for batch in loader]

    return {mode: [alone(one) for one in wanted] for mode, wanted in GROUPS.items()}


OPTIONS = {"batch_size": B, "shuffle_seed": 5, "device": "numpy"}


@contextlib.contextmanager
def members(hosts: Sequence[object], mode: str, **more: object) -> Iterator[list[Loader]]:
    """Members of a group of all daemons; each names them in an order of its own."""
    wanted = GROUPS[mode]
    options = {**OPTIONS, "group": mode, "mode": mode, "group_size": len(wanted), **more}
    with contextlib.ExitStack() as stack:
        turned = [hosts if n % 2 else hosts[::-1] for n in range(len(wanted))]
        yield [
            stack.enter_context(Loader(named, **grouped(**options, **one)))
            for named, one in zip(turned, wanted, strict=True)
        ]


def addresses(daemons: Sequence[Daemon]) -> list[str]:
    return [daemon.address for daemon in daemons]


def totals(hosts: Sequence[str], name: str) -> list[float]:
    return [counters_at_rest(host)[name] for host in hosts]


@pytest.mark.parametrize(("mode", "name"), [("mirror", "rows_total"), ("fork", "decodes_total")])
def test_each_daemon_computes_or_decodes_once_for_all(served, lone, mode, name) -> None:
    """As much as one training needs, and a few batches that are prefetched beyond the end."""
    hosts = addresses(served)
    before = totals(hosts, name)
    with members(hosts, mode, prefetch=2) as made:
        assert in_step(made, EPOCHS) == lone[mode]
        shares = [one.statistics().by_host for one in made]
    grown = [now - then for now, then in zip(totals(hosts, name), before, strict=True)]
    assert shares == [shares[0]] * len(made)
    assert sum(shares[0].values()) == EPOCHS * STEPS
    one_training = EPOCHS * STEPS * B * (FIELDS if mode == "fork" else 1)
    assert min(grown) > one_training * 0.3
    assert sum(grown) < one_training * len(made) * 0.8


@pytest.mark.parametrize("mode", GROUPS)
def test_a_daemon_is_killed_and_comes_back(served, tmp_path, pictures, lone, mode) -> None:
    tmp_path.chmod(0o700)
    doomed = Restarted(tmp_path, *flags(tmp_path, pictures, 1))
    doomed.start()
    hosts = [served[0].address, doomed.address]
    before: list[int] = []

    def act(turn: int) -> None:
        if turn == 2:
            doomed.kill()
        if turn == 2 * STEPS:  # each has asked for a batch that the lost one would have made
            doomed.start()
            wait_for(lambda: counters(doomed.address)["members"] == len(made))
            before.extend(one.statistics().by_host.get(doomed.address, 0) for one in made)

    since = time.monotonic()
    with contextlib.closing(doomed), members(hosts, mode, prefetch=1) as made:
        assert in_step(made, EPOCHS, act) == lone[mode]
        after = [one.statistics().by_host[doomed.address] for one in made]
    assert all(now > then for now, then in zip(after, before, strict=True))
    assert time.monotonic() - since < GROUP_WAIT_S, "no member waited for the others there"


@pytest.mark.parametrize("mode", GROUPS)
def test_ranks_resume_at_other_daemons(served, lone, mode) -> None:
    """A cursor that was taken with one daemon."""
    ranks = {"batch_size": B // 2, "rank": 1, "world_size": 2}
    given = {**OPTIONS, **ranks}
    states, rest = [], []
    for options in GROUPS[mode]:
        with Loader(served[0].address, **grouped(**{**given, **options})) as loader:
            loop = iter(loader)
            next(loop)
            states.append(loader.state_dict())
            rest.append([digest(batch) for batch in loop])
    with members(addresses(served), mode, **ranks) as made:
        for one, state in zip(made, states, strict=True):
            one.load_state_dict(state)
        assert in_step(made, 1) == rest


class Listed(Directory):
    pause_s = 0.01

    def __init__(self, listed: list[str]) -> None:
        self.listed = listed

    def addresses(self) -> list[str]:
        return self.listed


@pytest.mark.parametrize("mode", GROUPS)
def test_members_follow_a_directory(served, lone, mode) -> None:
    hosts = addresses(served)
    directory = Listed(hosts)

    def act(turn: int) -> None:
        if turn in (2, STEPS + 2):
            directory.listed = hosts[1:] if turn == 2 else hosts

    wanted = GROUPS[mode]
    options = {**OPTIONS, "group": "moved", "mode": mode, "group_size": len(wanted)}
    with contextlib.ExitStack() as stack:
        made = [
            stack.enter_context(Loader(directory, **grouped(**options, **one))) for one in wanted
        ]
        assert in_step(made, EPOCHS, act) == lone[mode]


def test_members_that_name_other_daemons(served) -> None:
    first, second = addresses(served)
    twin = second.replace("/stoker.sock", "/./stoker.sock")
    options = {**OPTIONS, **SAME, "group": "named"}
    with Loader([first, second], **grouped(**options)) as member:
        for where, named in (
            (first, f"daemons: was {', '.join(sorted([first, second]))}, is this one alone"),
            ([second], ", is this one alone"),
            ([first, twin], f", is {', '.join(sorted([first, twin]))}"),
            (Listed([first, second]), ", is those of a directory"),
        ):
            with pytest.raises(UsageError, match=re.escape(named)):
                Loader(where, **grouped(**options))
        with pytest.raises(UsageError, match="set_hosts: this loader is a member of group 'named'"):
            member.set_hosts([first])
        assert counters(first)["members"] == 1
