"""Loader(group=...): several loaders of one daemon read the same batches, each computed once."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from counting import counters, counters_at_rest, wait_for
from daemons import Daemon, children, serving
from loading import digest, grouped
from warm import Script

from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.protocol.errors import UsageError

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
HERE = Path(__file__).parent
ROWS, BATCH, EDGE = 48, 4, 96
STEPS = ROWS // BATCH
EPOCHS = 4
OPTIONS = {"pipeline": "train", "batch_size": BATCH, "device": "numpy", "group": "sweep-7"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 images of noise; a batch is larger than what clients copy out of its slot."""
    draw = np.random.default_rng(5)
    images = draw.integers(0, 256, (ROWS, EDGE, EDGE, 3), dtype=np.uint8)
    samples = [{"image": image, "label": row} for row, image in enumerate(images)]
    folder = tmp_path_factory.mktemp("groups") / "packed"
    write(folder, [schema.image(), schema.label(classes=[str(n) for n in range(ROWS)])], samples)
    return folder


def running(folder: Path, dataset: Path, *more: str) -> contextlib.AbstractContextManager[Daemon]:
    served = [f"--dataset=noise={dataset}"]
    served += [f"--pipeline={name}=client_pipelines:{name}" for name in ("train", "train_again")]
    return serving(folder, *served, f"--python-path={HERE}", "--workers=2", *more)


@pytest.fixture(scope="module")
def shared(session_folder: Path, dataset: Path) -> Iterator[Daemon]:
    """A daemon for all tests that leave it alive."""
    folder = session_folder / "groups"
    folder.mkdir()
    with running(folder, dataset) as daemon:
        yield daemon
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def alone(shared: Daemon) -> list[str]:
    """The digests of four epochs of a loader without a group."""
    with Loader(shared.address, **grouped(**{**OPTIONS, "group": None})) as loader:
        return [digest(batch) for _ in range(EPOCHS) for batch in loader]


def computed(before: dict, address: str) -> int:
    """Rows that were computed since; the members' iterators are at the end of an epoch."""
    return int(counters(address)["rows_total"] - before["rows_total"])


@contextlib.contextmanager
def members(address: str, count: int, **more) -> Iterator[list[Loader]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(Loader(address, **grouped(**{**OPTIONS, **more})))
            for _ in range(count)
        ]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_each_sample_is_decoded_once(shared: Daemon, alone, count: int) -> None:
    """Bytes are those of a lone loader. Batches prefetched beyond the end are counted apart."""
    name, epochs = f"once-{count}", 2
    before = counters_at_rest(shared.address)
    with members(shared.address, count, group=name, total_epochs=epochs) as loaders:
        for epoch in range(epochs):
            for batches in zip(*loaders, strict=True):
                expected = alone[epoch * STEPS + batches[0].step]
                assert [digest(batch) for batch in batches] == [expected] * count
                del batches
        ahead = loaders[0]._connection.prefetch
    rows = computed(before, shared.address)
    assert epochs * ROWS <= rows <= epochs * ROWS + ahead * BATCH
    after = counters(shared.address)
    shared_batches = after["shared_batches_total"] - before["shared_batches_total"]
    assert shared_batches >= (count - 1) * epochs * STEPS
    assert after["dropped_batches_total"] == before["dropped_batches_total"]


@pytest.mark.parametrize(
    "more",
    [
        {"verify": True, "seed": 3},
        {"params": True, "views": 2},
        {"batch_size": 5, "last": "pad", "shuffle": False},
        {"batch_size": 5, "last": "short", "subset": range(3, 40)},
        {"global_batch_size": 6, "batch_size": None, "rank": 1, "world_size": 2},
    ],
)
def test_any_stream_is_shared(shared: Daemon, more: dict) -> None:
    with members(shared.address, 1, **{"group": None, **more}) as (lone,):
        expected = [digest(batch) for _ in range(2) for batch in lone]
    before = counters_at_rest(shared.address)
    with members(shared.address, 3, group="any", **more) as loaders:
        found = [digest(batch) for _ in range(2) for batches in zip(*loaders, strict=True)
                 for batch in batches]  # fmt: skip
    assert found == [each for each in expected for _ in range(3)]
    after = counters(shared.address)
    assert after["shared_batches_total"] - before["shared_batches_total"] >= 2 * len(expected)


def test_64_members(shared: Daemon, alone) -> None:
    """Each sample is decoded once for all of them."""
    before = counters_at_rest(shared.address)
    with members(shared.address, 64, group="64", group_size=64, prefetch=2) as loaders:
        loops = [iter(loader) for loader in loaders]
        begun = [threading.Thread(target=next, args=(loop,)) for loop in loops]
        for thread in begun:  # the first batch waits for all
            thread.start()
        for thread in begun:
            thread.join()
        for step in range(1, STEPS):
            assert {digest(next(loop)) for loop in loops} == {alone[step]}
    assert ROWS <= computed(before, shared.address) <= ROWS + 10 * BATCH


def take(loader: Loader, count: int, alone: list[str]) -> None:
    """Take that many batches of an epoch from its start, and compare them."""
    batches = iter(loader)
    for step in range(count):
        assert digest(next(batches)) == alone[step]


@pytest.mark.parametrize("at", [2, STEPS - 1])
def test_a_late_member_gets_its_whole_epoch(shared: Daemon, alone, at: int) -> None:
    with members(shared.address, 1, group=f"late-{at}") as (first,):
        running_loop = iter(first)
        for step in range(at):
            assert digest(next(running_loop)) == alone[step]
        with members(shared.address, 1, group=f"late-{at}") as (late,):
            assert [digest(batch) for batch in late] == alone[:STEPS]
        assert [digest(batch) for batch in running_loop] == alone[at:STEPS]


def test_a_member_that_stops_reading_holds_up_nobody(shared: Daemon, alone) -> None:
    """It holds a batch and credits; the other one finishes an epoch, and it then goes on."""
    before = counters_at_rest(shared.address)
    with members(shared.address, 2, group="stops") as (stopped, other):
        loop = iter(stopped)
        held = next(loop)
        assert [digest(batch) for _ in range(EPOCHS) for batch in other] == alone
        assert counters(shared.address)["members"] == 2
        assert digest(held) == alone[0]
        del held
        assert [digest(batch) for batch in loop] == alone[1:STEPS]
    after = counters(shared.address)
    assert after["dropped_batches_total"] > before["dropped_batches_total"]
    assert after["members"] == before["members"]


def test_a_member_that_keeps_all_tensors_costs_the_others_nothing(shared: Daemon, alone) -> None:
    with members(shared.address, 2, group="keeps") as (hoarder, other):
        kept = [batch for _ in range(EPOCHS) for batch in hoarder]
        assert hoarder.statistics().copied > 0
        assert [digest(batch) for _ in range(EPOCHS) for batch in other] == alone
        assert [digest(batch) for batch in kept] == alone
        assert other.statistics().copied == 0


def test_arrays_of_a_closed_member_stay_as_they_were(shared: Daemon, alone) -> None:
    """The others get its slots and fill them again."""
    with members(shared.address, 2, group="closed") as (leaver, stays):
        loop = iter(leaver)
        kept = [next(loop) for _ in range(3)]
        assert leaver.statistics().leased == 3
        leaver.close()
        for _ in range(3):
            for _ in stays:
                pass
        assert [digest(batch) for batch in kept] == alone[:3]


def test_writing_in_place_reaches_no_other_member(shared: Daemon, alone) -> None:
    with members(shared.address, 2, group="in-place") as loaders:
        for epoch in range(2):
            for first, second in zip(*loaders, strict=True):
                first.image[:] = 7
                assert digest(second) == alone[epoch * STEPS + second.step]
                second.image[:] = 9


def test_resume_of_one_member(shared: Daemon, alone) -> None:
    with members(shared.address, 1, group="resume") as (stays,):
        take(stays, 4, alone)
        with members(shared.address, 1, group="resume") as (first,):
            take(first, 5, alone)
            state = json.loads(json.dumps(first.state_dict()))
        with members(shared.address, 1, group="resume") as (again,):
            again.load_state_dict(state)
            assert [digest(batch) for batch in again] == alone[5:STEPS]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"pipeline": "train_again"}, "pipeline: was"),
        ({"seed": 1}, "seed: was 0, is 1"),
        ({"batch_size": 8}, "batch_size: was 4, is 8"),
        ({"world_size": 2, "rank": 0}, "batch_size: was 4, is 8"),
        ({"global_batch_size": 4, "batch_size": None, "world_size": 2, "rank": 1}, "world_size: "),
        ({"params": True}, "params: was False, is True"),
        ({"verify": True}, "verify: was False, is True"),
        ({"exclude": [3]}, "exclude: was None"),
    ],
)
def test_a_member_that_differs_is_refused_by_name(shared: Daemon, changes, named: str) -> None:
    with members(shared.address, 1, group="differs"):
        with pytest.raises(UsageError, match="group 'differs': all its members") as refused:
            Loader(shared.address, **grouped(**{**OPTIONS, "group": "differs", **changes}))
        assert named in refused.value.message


MEMBER = """
import sys
from stoker.client import Connection, Group, Loader
from stoker.protocol.digest import batch_digest

loader = Loader(
    sys.argv[1], pipeline="train", batch_size=4, device="numpy",
    group=Group(sys.argv[2], size=int(sys.argv[4]) or None), connection=Connection(reconnect_s=60),
)
kept = []
for epoch in range(int(sys.argv[3])):
    for batch in loader:
        kept = [*kept[-2:], batch]
        print(batch_digest(batch, batch.epoch, batch.step), flush=True)
"""


@contextlib.contextmanager
def process(address: str, group: str, epochs: int, size: int = 0) -> Iterator[Script]:
    """A member in its own process, which prints the digest of each batch."""
    command = ("-c", MEMBER, address, group, epochs, size)
    with Script(*command, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def lines(child: Script, count: int) -> list[str]:
    assert child.stdout is not None
    return [child.stdout.readline().strip() for _ in range(count)]


def test_trainings_that_start_one_after_the_other_begin_together(shared: Daemon, alone) -> None:
    """Three processes; each is started when the one before it is a member."""
    before = counters_at_rest(shared.address)
    with contextlib.ExitStack() as stack:
        found = []
        for count in range(1, 4):
            found.append(stack.enter_context(process(shared.address, "together", EPOCHS, 3)))
            if count < 3:
                wait_for(lambda n=count: counters(shared.address)["members"] == n)
                assert computed(before, shared.address) == 0
        assert [lines(child, EPOCHS * STEPS) for child in found] == [alone] * 3
    wait_for(lambda: counters(shared.address)["members"] == 0)
    after = counters(shared.address)
    assert after["shared_batches_total"] > before["shared_batches_total"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_member_that_is_killed_or_stopped(shared: Daemon, alone, number: int) -> None:
    """Two others go on; the slots of a killed one, and the memory that it brought, are free."""
    counters_at_rest(shared.address)
    name = f"signal-{number}"
    with members(shared.address, 2, group=name) as loaders:
        used = counters(shared.address)["memory_used_bytes"]
        with process(shared.address, name, 10**6) as child:
            assert lines(child, 3) == alone[:3]
            child.send_signal(number)
            for batches in zip(*loaders, strict=True):
                assert {digest(batch) for batch in batches} == {alone[batches[0].step]}
            if number == signal.SIGSTOP:
                assert counters(shared.address)["members"] == 3
                child.send_signal(signal.SIGCONT)
                assert lines(child, STEPS) == alone[3 : STEPS + 3]
        wait_for(lambda: counters(shared.address)["members"] == 2)
        wait_for(lambda: counters(shared.address)["memory_used_bytes"] == used)


def test_workers_are_killed(folder: Path, dataset: Path, alone) -> None:
    with running(folder, dataset) as daemon, members(daemon.address, 2) as loaders:
        for epoch in range(2):
            for batches in zip(*loaders, strict=True):
                if batches[0].step % 4 == 1:
                    template = children(daemon.pid)[0]
                    os.kill(children(template)[0], signal.SIGKILL)
                expected = alone[epoch * STEPS + batches[0].step]
                assert {digest(batch) for batch in batches} == {expected}


def test_the_daemon_is_killed_and_the_members_meet_again(
    folder: Path, dataset: Path, alone
) -> None:
    with running(folder, dataset) as daemon, contextlib.ExitStack() as stack:
        loaders = stack.enter_context(members(daemon.address, 2, prefetch=1, reconnect_s=60))
        loops = [iter(loader) for loader in loaders]
        for step in range(4):
            assert {digest(next(loop)) for loop in loops} == {alone[step]}
        daemon.stop(signal.SIGKILL)
        stack.enter_context(running(folder, dataset))
        before = counters(daemon.address)
        for step in range(4, STEPS):
            assert {digest(next(loop)) for loop in loops} == {alone[step]}
        assert [loader.statistics().reconnects for loader in loaders] == [1, 1]
        after = counters(daemon.address)
        assert after["shared_batches_total"] - before["shared_batches_total"] > 0
        for loader in loaders:
            loader.close()
