"""Leases of slots: copies, hoarding, death of tensors, in-place writes, forks."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import torch

from stoker.client import Loader
from stoker.client.lease import COPY_BYTES
from stoker.protocol.errors import UsageError
from stoker.protocol.messages import Release
from stoker.protocol.slot_layout import Output

ROWS = 16


@pytest.fixture(params=[False, True], ids=["torch", "numpy"])
def loader(request: pytest.FixtureRequest, daemon):
    with Loader(
        daemon.address, pipeline="train", batch_size=ROWS, device="numpy", prefetch=4
    ) as made:
        yield made


def released(daemon) -> list[tuple[int, int]]:
    return [pair for record in daemon.of(Release) for pair in record.slots]


def test_large_outputs_lie_in_the_slot_and_small_ones_are_copies(loader) -> None:
    slab = loader._connection.stream.slab
    batch = next(iter(loader))

    def lies_in_slab(array) -> bool:
        address = np.asarray(array).__array_interface__["data"][0]
        return slab.address <= address < slab.address + slab.size_bytes

    assert np.asarray(batch.image).nbytes > COPY_BYTES
    assert lies_in_slab(batch.image)
    assert not any(lies_in_slab(batch[name]) for name in ("label", "index", "requested", "valid"))
    assert np.asarray(batch.image).__array_interface__["data"][0] % 64 == 0


def test_a_slot_goes_back_with_the_next_call_after_its_last_array_died(daemon, loader) -> None:
    batches = iter(loader)
    batch = next(batches)
    view = batch.image[3:5]
    del batch
    next(batches)
    assert released(daemon) == []
    assert loader.statistics().leased == 1, "a view of a view keeps the slot"
    del view
    gc.collect()
    assert released(daemon) == []
    assert loader.statistics().leased == 0
    for _ in range(2):  # where batches are ready, every second call speaks to the daemon
        next(batches)
    daemon.wait_for(lambda: len(released(daemon)) >= 2)
    assert len(set(released(daemon))) == len(released(daemon)), "each once"


def test_hoarding_copies_and_never_overwrites(daemon, loader) -> None:
    """Keep everything of two epochs: no hang, every byte stays, the daemon's slots suffice."""
    kept = [batch for _ in range(2) for batch in loader]
    statistics = loader.statistics()
    assert statistics.delivered == 10
    assert statistics.leased == statistics.slots - 2 == 5
    assert statistics.copied == 5
    for batch in kept:
        for name, expected in daemon.batch(batch.epoch, batch.step).items():
            np.testing.assert_array_equal(np.asarray(batch[name]), expected)
    del kept[:5], batch
    gc.collect()
    assert loader.statistics().leased == 0
    next(iter(loader))
    assert loader.statistics().copied == 5, "once slots are free nothing is copied"


def test_a_full_house_and_a_new_run(make_daemon, same) -> None:
    """All slots but one leased, the last announced to a run that was left: it must come back."""
    daemon = make_daemon(steps=20)
    with Loader(daemon.address, pipeline="train", batch_size=ROWS, prefetch=3) as loader:
        kept = []
        batches = iter(loader)
        while loader.statistics().leased < loader.statistics().slots - 2:
            kept.append(next(batches))
        for epoch in range(5, 30):
            daemon.wait_for(lambda: not daemon.free)  # the last slot is announced, and unread
            loader.set_epoch(epoch)
            same(daemon, next(iter(loader)), epoch, 0)
        for step, batch in enumerate(kept):
            same(daemon, batch, 0, step)


def test_a_batch_of_small_outputs_holds_no_slot(make_daemon) -> None:
    daemon = make_daemon()
    daemon.outputs = (Output("image", "uint8", (8, 8, 3)),)
    with Loader(daemon.address, pipeline="train", batch_size=ROWS) as loader:
        kept = list(loader)
        assert loader.statistics().leased == 0
        assert loader.statistics().copied == 0
        daemon.wait_for(lambda: len(released(daemon)) == 5)
        for step, batch in enumerate(kept):
            assert np.array_equal(batch.image, daemon.batch(0, step)["image"])


def test_writing_in_place_is_legal_and_dies_with_the_slot(daemon, loader, same) -> None:
    for epoch in range(2):
        for step, batch in enumerate(loader):
            same(daemon, batch, epoch, step)
            batch.image[:] = 1
            batch.label[:] = 1


def test_read_only_slab_is_written_privately(make_daemon, same) -> None:
    """A group's further member: its in-place writes stay its own and never hide a later batch."""
    daemon = make_daemon()
    daemon.writable = False
    with Loader(daemon.address, pipeline="train", batch_size=ROWS, prefetch=1) as loader:
        for epoch in range(4):  # every slot is used several times
            for step, batch in enumerate(loader):
                same(daemon, batch, epoch, step)
                batch.image[:] = 1
                slot = os.pread(daemon._slab, 64, 0)
                assert slot != b"\1" * 64
                del batch
        assert loader.statistics().copied == 0


def test_arrays_outlive_loader_and_daemon(make_daemon) -> None:
    daemon = make_daemon()
    loader = Loader(daemon.address, pipeline="train", batch_size=ROWS)
    batch = next(iter(loader))
    slab = weakref.ref(loader._connection.stream.slab)
    expected = daemon.batch(0, 0)["image"]
    loader.close()
    daemon.die()
    del loader
    gc.collect()
    assert np.array_equal(batch.image, expected)
    tensor = batch.image
    del batch
    assert slab() is not None
    del tensor
    assert slab() is None, "the map goes with the last array"


def test_finalizers_run_in_any_thread(daemon, loader) -> None:
    kept = []
    for batch in loader:
        kept.append(batch)
        thread = threading.Thread(target=kept.clear)
        del batch
        thread.start()
        thread.join()
    assert loader.statistics().leased == 0


def test_a_forked_child_touches_nothing(daemon, loader, same) -> None:
    batches = iter(loader)
    batch = next(batches)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            answers = []
            for use in (lambda: next(batches), lambda: iter(loader)):
                try:
                    use()
                    answers.append("nothing")
                except UsageError as error:
                    answers.append(str(error))
            slab = loader._connection.stream.slab
            with open("/proc/self/maps") as maps:
                mapped = f"{slab.address:x}-" in maps.read()
            answers.append(f"mapped {mapped}")
            answers.append(f"side {loader._connection.delivery._session._side.fileno()}")
            del batch, batches
            loader.close()
            gc.collect()
            answers.append(f"queued {len(loader._connection.book._queue)}")
            os.write(writer, "\n".join(answers).encode())
        finally:
            os._exit(0)
    os.close(writer)
    answer = b""
    while part := os.read(reader, 65536):
        answer += part
    os.close(reader)
    os.waitpid(child, 0)
    lines = answer.decode().split("\n")
    assert lines[0] == lines[1]
    assert f"made in process {os.getpid()} and is used in process {child}" in lines[0]
    assert "make a Loader in each process that loads, after the fork" in lines[0]
    assert lines[2:] == ["mapped False", "side -1", "queued 0"]
    same(daemon, batch, 0, 0)
    same(daemon, next(batches), 0, 1)
    assert daemon.ended == 0


def test_close_ends_the_session_although_a_child_has_copies(daemon) -> None:
    """A child that was forked before keeps no lifeline open."""
    loader = Loader(daemon.address, pipeline="train", batch_size=ROWS)
    go_reader, go_writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(go_writer)
        os.read(go_reader, 1)
        os._exit(0)
    os.close(go_reader)
    loader.close()
    daemon.wait_for(lambda: daemon.ended == 1)
    os.close(go_writer)
    os.waitpid(child, 0)


def test_exit_without_close_is_silent(daemon) -> None:
    code = (
        "import sys; from stoker.client import Loader\n"
        "loader = Loader(sys.argv[1], pipeline='train', batch_size=16)\n"
        "kept = next(iter(loader)); kept.image[0] = 1"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code, daemon.address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    daemon.wait_for(lambda: daemon.ended == 1)


def test_tensor_keeps_the_memory_after_everything_else(daemon) -> None:
    with Loader(daemon.address, pipeline="train", batch_size=ROWS) as loader:
        flat = next(iter(loader)).image.reshape(-1)
        expected = torch.from_numpy(daemon.batch(0, 0)["image"].reshape(-1))
        for _ in range(3):
            for batch in loader:
                del batch
        assert torch.equal(flat, expected)
