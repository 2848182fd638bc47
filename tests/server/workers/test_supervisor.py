"""The supervisor with real processes: births, work, deaths of every kind, and nothing left."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from asking import changed, to_build

from stoker.dataset import schema
from stoker.order.compose import dataset_order
from stoker.server.daemon.launch import PINNED
from stoker.server.state.events import (
    BuildFailed,
    BuildProgress,
    Built,
    ChunkDone,
    ChunkFailed,
    Recalled,
    WorkerDown,
    WorkerUp,
)
from stoker.server.work.work_records import AddSlab, CloseStream, Done, DropSlab
from stoker.server.workers import builder, channel, template

pytestmark = pytest.mark.slow
SLAB_BYTES = 65536


@pytest.fixture
def slab():
    memory = os.memfd_create("slab")
    os.ftruncate(memory, SLAB_BYTES)
    yield memory
    os.close(memory)


def start(rig, worker=0):
    rig.supervisor.start_worker(worker)
    return rig.wait(WorkerUp, lambda up: up.worker == worker).pid


def give(rig, opened, slab, worker=0):
    rig.supervisor.send(worker, AddSlab(1, SLAB_BYTES), slab)
    rig.supervisor.send(worker, opened)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def alive(pid: int) -> bool:
    try:
        return state(pid) != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ends while it is read
        return False


def stop(pid: int) -> None:
    """Stop a process, and wait until it reads nothing more."""
    os.kill(pid, signal.SIGSTOP)
    pause, deadline = threading.Event(), time.monotonic() + 30
    while state(pid) != "T":
        assert time.monotonic() < deadline
        pause.wait(0.001)


def test_a_worker_fills_a_slot_and_ends_with_the_supervisor(rig, stream_of, work_of, slab):
    one, opened = rig(executed=True), stream_of()
    pid = start(one)
    give(one, opened, slab)
    one.supervisor.send(0, work_of(opened))
    done = one.wait(ChunkDone)
    assert done.worker == 0
    assert done.done.claim == 1
    assert done.done.home_rows == 4
    placed = {output.name: output for output in opened.layout.outputs}
    memory = np.frombuffer(os.pread(slab, SLAB_BYTES, 0), np.uint8)
    image = memory[placed["image"].offset :][: placed["image"].size_bytes]
    labels = memory[placed["label"].offset :][: placed["label"].size_bytes].view(np.int64)
    index = memory[placed["index"].offset :][: placed["index"].size_bytes].view(np.int64)
    assert image.any()
    assert labels.tolist() == index.tolist()
    assert len(set(index.tolist())) == 4
    one.supervisor.send(0, CloseStream(1))
    one.supervisor.send(0, DropSlab(1))
    one.supervisor.close()
    assert not alive(pid)


def test_all_that_a_worker_has_said_is_heard_in_one_turn(rig):
    one = rig()
    start(one)
    (child,) = one.supervisor._children.values()
    for claim in (7, 8, 9):
        channel.send(child.far, Done(claim, 0.1, 0))
    one.supervisor.descriptors()[child.sock.fileno()]()
    assert [event.done.claim for event in one.events] == [7, 8, 9]


def test_work_is_recalled_until_it_is_begun(rig, stream_of, work_of, slab):
    one, opened = rig(), stream_of()
    pid = start(one)
    give(one, opened, slab)
    one.supervisor.send(0, work_of(opened, claim=1))
    assert one.wait(ChunkDone).done.claim == 1
    stop(pid)
    one.supervisor.recall(0, 1)  # done
    one.supervisor.send(0, work_of(opened, claim=2))
    one.supervisor.recall(0, 1)
    one.supervisor.recall(0, 2)
    assert [event for event in one.events if isinstance(event, Recalled)] == one.events[-1:]
    assert one.wait(Recalled).claim == 2
    one.supervisor.recall(0, 2)  # again
    one.supervisor.send(0, work_of(opened, claim=3))
    one.supervisor.send(0, work_of(opened, claim=4))
    one.supervisor.recall(0, 4)  # behind what is unread
    os.kill(pid, signal.SIGCONT)
    assert [one.wait(ChunkDone).done.claim for _ in range(2)] == [3, 4]
    assert not any(isinstance(event, Recalled) for event in one.events)


def test_guard_bytes_change_no_byte_of_a_slot(rig, stream_of, work_of, slab):
    filled = []
    for debug_memory in (False, True):
        one, opened = rig(debug_memory=debug_memory), stream_of()
        start(one)
        give(one, opened, slab)
        one.supervisor.send(0, work_of(opened))
        one.wait(ChunkDone)
        one.supervisor.close()
        filled.append(os.pread(slab, SLAB_BYTES, 0))
        os.pwrite(slab, bytes(SLAB_BYTES), 0)
    assert any(filled[0])
    assert filled[0] == filled[1]


def test_what_the_template_imports_has_its_kernels_where_the_daemon_says(
    rig, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    start(rig(executed=True))
    assert list(tmp_path.iterdir()) == []


def test_a_worker_holds_nothing_of_anybody_else(rig):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        pid = start(rig(executed=True))
        held = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        kinds = ("socket:", "anon_inode:", "pipe:", "/memfd")
        ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)}
        found = sorted(target for target in held - ours if target.startswith(kinds))
        assert [target.split("[")[0] for target in found] == [
            "/memfd:stoker-progress (deleted)",
            "/memfd:stoker-stacks (deleted)",
            "socket:",
        ]
        status = Path(f"/proc/{pid}/status").read_text()
        assert "Threads:\t1\n" in status
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert "libtorch" not in maps
        assert "libarrow" not in maps
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "SIGTERM")]
)
def test_a_death_from_outside_blames_nobody(rig, number, reason):
    one = rig()
    os.kill(start(one), number)
    down = one.wait(WorkerDown)
    assert (down.worker, down.blame, down.claim, down.row) == (0, False, None, None)
    assert reason in down.reason


@pytest.mark.parametrize(
    ("action", "reason", "blame"),
    [
        ("segv", "SIGSEGV", True),
        ("exit", "exit code 3", True),
        ("error", "exit code 1", True),
        ("kill", "SIGKILL", False),
    ],
)
def test_a_death_in_mid_row_names_the_row(rig, stream_of, work_of, slab, action, reason, blame):
    one, opened = rig(f"worker.row:{action}:3"), stream_of()
    start(one)
    give(one, opened, slab)
    one.supervisor.send(0, work_of(opened, claim=77))
    down = one.wait(WorkerDown)
    assert (down.claim, down.row, down.blame) == (77, 2, blame)
    assert down.sample is None, "it had not begun to read it"
    assert reason in down.reason


def test_a_death_at_a_sample_names_it(rig, stream_of, work_of, slab):
    """The page still says which sample the last row read, until the next one begins."""
    one, opened = rig("worker.row_done:segv:2"), stream_of()
    start(one)
    give(one, opened, slab)
    one.supervisor.send(0, work_of(opened))
    down = one.wait(WorkerDown)
    sample = dataset_order(opened.served.spec).rows(0, 0, 1, 2).ids[0]
    assert (down.row, down.sample, down.blame) == (1, sample, True)


def test_work_done_before_a_death_counts(rig, stream_of, work_of, slab):
    one, opened = rig("worker.chunk:kill:2"), stream_of()
    start(one)
    give(one, opened, slab)
    one.supervisor.send(0, work_of(opened, claim=1, rows=range(2)))
    one.supervisor.send(0, work_of(opened, claim=2, rows=range(2, 4)))
    one.wait(WorkerDown)
    assert one.wait(ChunkDone).done.claim == 1


def test_a_stopped_worker_can_be_killed(rig):
    one = rig()
    os.kill(start(one), signal.SIGSTOP)
    one.supervisor.kill_worker(0, "it hung")
    assert one.wait(WorkerDown).reason == "it hung"


def test_a_worker_killed_before_it_is_up(rig):
    one = rig()
    one.supervisor.start_worker(5)
    one.supervisor.kill_worker(5)
    assert one.wait(WorkerDown).worker == 5


def test_death_is_seen_as_soon_as_it_is_reported(rig):
    """Without a tick of a clock: by the template's report, and nothing else has to happen."""
    one = rig()
    pids = [start(one, worker) for worker in range(5)]
    one.hear_of_forks()
    for pid in pids:
        before = one.woken
        os.kill(pid, signal.SIGKILL)
        one.wait(WorkerDown)
        assert one.woken - before == 1


def test_a_dead_template_is_replaced_and_its_workers_reported(rig):
    one = rig()
    pid = start(one)
    parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    worker = os.pidfd_open(pid)
    os.kill(parent, signal.SIGKILL)
    down = one.wait(WorkerDown)
    assert "template" in down.reason
    assert not down.blame
    assert select.select([worker], [], [], 10)[0], "the worker outlives its template"
    os.close(worker)
    assert start(one, 1) != pid


def test_many_records_never_block(rig, stream_of, work_of, slab):
    """Far more packets than a socket holds, to a worker that is stopped; then all are worked on."""
    one, opened, count = rig(), stream_of(), 3000
    pid = start(one)
    give(one, opened, slab)
    stop(pid)
    for claim in range(count):
        one.supervisor.send(0, work_of(opened, claim=claim, rows=range(1)))
    os.kill(pid, signal.SIGCONT)
    assert [one.wait(ChunkDone).done.claim for _ in range(count)] == list(range(count))


def test_a_stream_that_cannot_be_opened(rig, stream_of, work_of, slab, tmp_path):
    one = rig()
    opened = changed(stream_of(), dataset=str(tmp_path / "gone"))
    start(one)
    give(one, opened, slab)
    failed = one.wait(ChunkFailed)
    assert (failed.claim, failed.stream, failed.code) == (0, 1, "dataset")
    one.supervisor.send(0, work_of(opened, claim=9))
    again = one.wait(ChunkFailed)
    assert (again.claim, again.message) == (9, failed.message)


def test_a_builder_reports_what_it_built(rig, small_dataset, stream_of):
    one, opened = rig(), stream_of()
    one.supervisor.start_build(to_build(4, str(small_dataset), "", opened.served.sources[0].graph))
    built = one.wait(Built).result
    assert built.build == 4
    assert built.pipeline_id == opened.served.spec.pipeline
    assert built.fingerprint == opened.served.spec.dataset
    assert [output.name for output in built.outputs] == ["image", "label"]
    assert built.sources[0].graph == opened.served.sources[0].graph


NEW_OP = """
from stoker.ops import define
from stoker.pipeline import pipeline


@define()
def never_compiled(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        dst[y] = src[y]
    dst[0, 0, 0] = {once} & 1


@pipeline
def train(sample):
    return {{"image": never_compiled()(sample.image), "label": sample.label}}
"""


def test_a_builder_that_compiles_says_how_many_functions_it_has(rig, small_dataset, tmp_path):
    (tmp_path / "counted_op.py").write_text(NEW_OP.format(once=time.time_ns()))
    one = rig(python_path=[str(tmp_path)])
    one.supervisor.start_build(to_build(4, str(small_dataset), "counted_op:train"))
    progress = one.wait(BuildProgress, lambda progress: progress.total)
    assert progress.build == 4
    assert 0 < progress.done < progress.total
    assert one.wait(Built).result.build == 4


def test_names_of_classes_are_sent_as_far_as_there_is_room(monkeypatch):
    fields = [
        schema.label("label", ("cat", "dog")),
        schema.label("kind", ("x" * 90, "y" * 90)),
        schema.label("plain"),
        schema.label("last", ("a", "b")),
    ]
    dataset = SimpleNamespace(schema=schema.Schema(tuple(fields)))
    assert list(builder._classes(dataset)) == ["label", "kind", "last"]
    monkeypatch.setattr(builder, "MAX_CLASS_BYTES", 100)
    assert builder._classes(dataset) == {"label": ("cat", "dog"), "last": ("a", "b")}


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("nomodule", "expected `module:attribute`"),
        ("no_such_module:train", "no_such_module"),
        ("json:dumps", "'json' has no pipeline 'dumps'"),
    ],
)
def test_a_build_that_fails(rig, small_dataset, pipeline, message):
    one = rig()
    one.supervisor.start_build(to_build(1, str(small_dataset), pipeline))
    failed = one.wait(BuildFailed)
    assert failed.code == "build"
    assert message in failed.message


def test_a_builder_that_dies(rig, small_dataset, stream_of):
    one = rig("builder.start:segv:1")
    one.supervisor.start_build(
        to_build(1, str(small_dataset), "", stream_of().served.sources[0].graph)
    )
    assert "died (killed by SIGSEGV)" in one.wait(BuildFailed).message


def test_bytes_that_are_no_graph(rig, small_dataset):
    one = rig()
    one.supervisor.start_build(to_build(1, str(small_dataset), "", b"{}"))
    assert "graph" in one.wait(BuildFailed).message


PARENT = """
import sys, time, select
from stoker.server.daemon.supervisor import Supervisor
events = []
supervisor = Supervisor(cache_root=sys.argv[1], python_path=[], fail_points="", shares=2,
                        on_event=events.append, now=time.monotonic)
supervisor.start()
for worker in range(2):
    supervisor.start_worker(worker)
while len(events) < 2:
    callbacks = supervisor.descriptors()
    for fd in select.select(list(callbacks), [], [])[0]:
        callbacks[fd]()
print(*(event.pid for event in events), flush=True)
sys.stdin.read()
"""


def test_kill_9_of_the_daemon_leaves_no_process(tmp_path):
    daemon = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with daemon:
        workers = [int(pid) for pid in daemon.stdout.readline().split()]
        stat = Path(f"/proc/{workers[0]}/stat").read_text()
        processes = [*workers, int(stat.rsplit(")", 1)[1].split()[1])]
        assert all(alive(pid) for pid in processes)
        daemon.kill()
    pause, deadline = threading.Event(), time.monotonic() + 20
    while any(alive(pid) for pid in processes):
        assert time.monotonic() < deadline, "processes outlived the daemon"
        pause.wait(0.002)


def test_the_template_refuses_to_fork_with_a_second_thread():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match=r"fork with one thread .* it has \d+ threads"):
            template.assert_clean()
    finally:
        stop.set()
        thread.join()


def test_the_template_refuses_to_fork_with_torch_loaded():
    program = (
        "import sys, types; sys.modules['torch'] = types.ModuleType('torch');"
        "from stoker.server.workers import template; template.assert_clean()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, **PINNED},
    )  # fmt: skip
    assert "it has 1 threads and loaded torch" in done.stderr
