"""Users' functions that leave processes behind, or close descriptors."""

import os
import select
import signal
from itertools import chain

import pytest

from stoker.client import Loader
from stoker.dataset import open_dataset
from stoker.protocol.errors import BuildError, StreamStoppedError

pytestmark = pytest.mark.slow

CULPRIT = 7
DEADLINE_S = 30.0
HOW = ["stop", "kill", "kill with a stopped template", "kill of the template"]


def started(file) -> dict[int, list[int]]:
    """A process that started others -> the processes that it started."""
    found: dict[int, list[int]] = {}
    for line in file.read_text().splitlines():
        parent, *pids = map(int, line.split())
        found.setdefault(parent, []).extend(pids)
    return found


def gone(pid: int) -> bool:
    """Return whether a process ends in time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], DEADLINE_S)[0])
    finally:
        os.close(descriptor)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ends while it is read
        return False


def parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    "how", [pytest.param("kill", marks=pytest.mark.as_a_user), *(h for h in HOW if h != "kill")]
)
def test_processes_that_a_function_started_end_with_its_process(serve, loader, tmp_path, how):
    """Forks and programs end with the worker, and with the daemon, however that one ends."""
    pids = tmp_path / "pids"
    daemon = serve(environment={"STOKER_TEST_PIDS": str(pids), "STOKER_TEST_RUN": "yes"}, warm=True)
    with loader(daemon, "forks") as batches:
        assert sum(len(batch.label) for batch in batches) == 10
        (builder, *_), *workers = started(pids).items()
        assert not alive(builder)
        assert all(gone(pid) for pid in started(pids)[builder])
        worker, _ = workers[0]
        before = started(pids)[worker]
        assert all(alive(pid) for pid in before)
        template = parent(worker)
        os.kill(worker, signal.SIGKILL)
        assert all(gone(pid) for pid in before)
        if how == "kill of the template":
            os.kill(template, signal.SIGKILL)
            assert all(gone(pid) for pid in chain(*started(pids).values()))
    if how == "kill with a stopped template":
        os.kill(template, signal.SIGSTOP)
    daemon.stop(signal.SIGKILL if how.startswith("kill with") or how == "kill" else signal.SIGTERM)
    assert gone(template)
    assert all(gone(pid) for pid in chain(*started(pids).values()))


@pytest.mark.as_a_user
def test_a_function_that_closes_descriptors_is_reported_with_its_sample(
    serve, loader, small_dataset
):
    with open_dataset(small_dataset) as dataset:
        total = int(dataset.read("image", CULPRIT).astype(int).sum())
    daemon = serve(environment={"STOKER_TEST_SUM": str(total)}, warm=True)
    with loader(daemon, "closes") as batches, pytest.raises(StreamStoppedError) as caught:
        list(batches)
    assert caught.value.details["id"] == CULPRIT
    told = "killed or hung a worker 2 times, the last: a function closed descriptors of the worker"
    assert told in caught.value.message
    with Loader(
        daemon.address, dataset="small", pipeline="closes", batch_size=3, device="numpy",
        exclude=[CULPRIT],
    ) as batches:  # fmt: skip
        assert sum(len(batch.label) for batch in batches) == 9


@pytest.mark.as_a_user
def test_custom_ops_that_divide_by_zero_or_leave_their_memory_are_named(serve, loader):
    named = [f"--pipeline={name}=robust_pipelines:{name}" for name in ("divided", "outside")]
    daemon = serve("--debug-memory", *named, warm=True, workers=1)
    place = r"robust_pipelines\.py:\d+"
    says = {
        "divided": f"{place}: op 'divides': .* divides by zero in .*{place}, at sample 1, epoch 0",
        "outside": f"{place}: op 'leaves_its_memory': .*{place}.* wrote at offset .* of its"
        " destination, which has 1440 bytes, at sample 1, epoch 0",
    }
    for name, message in says.items():
        with loader(daemon, name) as batches, pytest.raises(BuildError, match=message):
            list(batches)
