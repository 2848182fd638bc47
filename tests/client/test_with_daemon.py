"""The client against the real daemon: same bytes, leases, death, resume, ranks, private daemons."""

import gc
import importlib
import json
import os
import pwd
import re
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from commands import pack_folder
from daemons import Daemon, serving
from loading import grouped
from PIL import Image
from user_folders import importing_from
from warm import Script

from stoker.client import Loader
from stoker.client.private.runtime_folder import is_running
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import (
    BuildError,
    DaemonLostError,
    DatasetError,
    ResourceError,
    UnknownNameError,
)

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
HERE = Path(__file__).parent
ROWS, BATCH = 41, 8
STEPS = ROWS // BATCH


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """41 noisy images of different sizes in two classes, packed as by the command line."""
    root = tmp_path_factory.mktemp("client")
    rng = np.random.default_rng(3)
    for number in range(ROWS):
        folder = root / "source" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        height, width = rng.integers(100, 140, 2)
        pixels = rng.integers(0, 256, (height // 10, width // 10, 3), dtype=np.uint8)
        image = Image.fromarray(pixels).resize((int(width), int(height)), Image.Resampling.BICUBIC)
        image.save(folder / f"{number:02}.jpg", quality=90)
    return pack_folder(root / "source", root / "packed")


@pytest.fixture(scope="module", autouse=True)
def pipelines_module() -> Iterator[None]:
    """Every process can import the pipelines' module."""
    with importing_from(HERE):
        yield


def running(folder: Path, dataset: Path, *more: str) -> AbstractContextManager[Daemon]:
    """A daemon at folder/stoker.sock."""
    served = [f"--dataset=photos={dataset}", "--pipeline=train=client_pipelines:train"]
    return serving(folder, *served, f"--python-path={HERE}", "--workers=2", *more)


@pytest.fixture
def serve(folder: Path, dataset: Path) -> Callable[..., object]:
    return lambda *more: running(folder, dataset, *more)


@pytest.fixture(scope="module")
def shared(session_folder: Path, dataset: Path) -> Iterator[Path]:
    """The folder of a daemon for all tests that leave it alive."""
    folder = session_folder / "shared"
    folder.mkdir()
    with running(folder, dataset):
        yield folder
    shutil.rmtree(folder)


def load(folder: Path, **more) -> Loader:
    arguments = {"dataset": "photos", "pipeline": "train", "batch_size": BATCH, "device": "numpy"}
    return Loader(f"ipc://{folder}/stoker.sock", **grouped(**{**arguments, **more}))


def digests(loader: Loader, epochs: int = 1) -> list[str]:
    return [batch_digest(b, b.epoch, b.step) for _ in range(epochs) for b in loader]


def consume(loader: Loader) -> None:
    """More epochs than can have been announced."""
    for _ in range(3):
        list(iter(loader))


@pytest.fixture(scope="module")
def reference(dataset: Path) -> list[str]:
    """Two epochs, through a private daemon: every other way must give the same."""
    with Loader(
        dataset, pipeline="client_pipelines:train", batch_size=BATCH, device="numpy", workers=1
    ) as loader:
        assert len(loader) == STEPS
        found = digests(loader, 2)
    assert len(set(found)) == 2 * STEPS
    return found


def test_named_object_and_private_pipelines_are_one_stream(shared, dataset, reference) -> None:
    client_pipelines = importlib.import_module("client_pipelines")
    with load(shared) as loader:
        assert digests(loader, 2) == reference
    with load(shared, pipeline=client_pipelines.train, dataset=None, prefetch=1) as loader:
        assert digests(loader, 2) == reference
    with Loader(
        dataset, pipeline=client_pipelines.train, global_batch_size=BATCH, device="numpy", workers=2
    ) as loader:
        assert digests(loader, 2) == reference


def test_the_log_says_whose_stream_it_is_and_the_name_changes_no_byte(
    folder, dataset, reference
) -> None:
    with running(folder, dataset) as daemon:
        with load(folder, name="run 17") as loader:
            assert digests(loader, 2) == reference
            stream = loader.spec.stream_id
        assert daemon.stop() == 0
        lines = daemon.log.read_text().splitlines()
    user = pwd.getpwuid(os.geteuid()).pw_name
    who = (
        f'client="run 17" host={socket.gethostname()} pid={os.getpid()} user={user}'
        f" known_from=kernel dataset=photos stream={stream[:8]} "
    )
    for event in ("opened", "session_ended"):
        (line,) = [line for line in lines if f" info {event} " in line]
        assert f" {event} {who}" in line


def test_tensors_and_arrays_are_the_same_bytes(shared, reference) -> None:
    with load(shared, device="cpu") as loader:
        assert digests(loader) == reference[:STEPS]


def test_hoarding_over_seeks_copies_and_never_overwrites(shared) -> None:
    """Batches kept over early leaves, seeks and whole epochs keep their bytes."""
    with load(shared, batch_size=4, prefetch=3) as loader:
        kept = []
        for epoch in (0, 1, 0, 5, 0, 1):
            loader.set_epoch(epoch)
            for batch in loader:
                kept.append((batch, batch_digest(batch, batch.epoch, batch.step)))
                if batch.step == epoch % 4 + 2:
                    break
        assert loader.statistics().copied > 0
        for batch, digest in kept:
            assert batch_digest(batch, batch.epoch, batch.step) == digest
        by_place = {}
        for batch, digest in kept:
            assert by_place.setdefault((batch.epoch, batch.step), digest) == digest


def test_no_slot_is_lost_over_many_seeks(shared) -> None:
    """Hundreds of early leaves; if announced slots were not given back, delivery would stop."""
    with load(shared, prefetch=4, timeout_s=30) as loader:
        for epoch in range(200):
            batch = next(iter(loader))
            assert (batch.epoch, batch.step) == (epoch, 0)
        del batch
        assert loader.statistics().leased == 0


def test_killed_in_mid_epoch_and_resumed_elsewhere(serve, folder, reference) -> None:
    with serve() as served, load(folder) as loader:
        found = []
        for batch in loader:
            found.append(batch_digest(batch, batch.epoch, batch.step))
            state = loader.state_dict()
            if batch.step == 1:
                break
        served.stop(signal.SIGKILL)
        rest = iter(loader)
        with pytest.raises(DaemonLostError, match="went away"):
            list(rest)
    state = json.loads(json.dumps(state))
    with serve(), load(folder, prefetch=7) as loader:
        loader.load_state_dict(state)
        found += digests(loader, 2)
    assert found == reference


def test_shut_down_says_so(serve, folder) -> None:
    with serve() as served, load(folder) as loader:
        batches = iter(loader)
        next(batches)
        served.stop()
        with pytest.raises(DaemonLostError, match="it shut down: the daemon shuts down"):
            consume(loader)


def test_ranks_share_a_batch(shared) -> None:
    with load(shared) as whole:
        loaders = [
            load(shared, batch_size=None, global_batch_size=BATCH, rank=rank, world_size=3)
            for rank in range(3)
        ]
        for batch, *parts in zip(whole, *loaders, strict=True):
            assert [len(part.index) for part in parts] == [2, 3, 3]
            for name in batch:
                joined = np.concatenate([part[name] for part in parts])
                np.testing.assert_array_equal(joined, batch[name])
        states = [loader.state_dict() for loader in loaders]
        assert states == [whole.state_dict()] * 3
        for loader in loaders:
            loader.close()


def test_the_daemons_refusals(serve, folder) -> None:
    with serve("--memory-limit", "1MiB"):
        with pytest.raises(UnknownNameError, match="photo"):
            load(folder, dataset="photo")
        with pytest.raises(UnknownNameError, match="trian"):
            load(folder, pipeline="trian")
        with pytest.raises(ResourceError) as caught:
            load(folder, batch_size=32)
        assert re.search(r"needed \d+ .*allowed 1048576", caught.value.message)


# ---------------------------------------------------------------- private daemons


def private_processes() -> list[int]:
    """Daemons that were executed with our runtime folder."""
    found = []
    mark = os.environ["XDG_RUNTIME_DIR"].encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"stoker.server\0serve" in command and mark in command:
            found.append(int(pid))
    return found


def private_daemon() -> int:
    """The daemon of the only private Loader, by what its folder says."""
    (file,) = Path(os.environ["XDG_RUNTIME_DIR"]).glob("stoker-*/current")
    _, pid = json.loads(file.read_text())
    assert is_running(pid)
    return pid


def test_a_private_daemon_ends_with_its_loader(dataset, reference) -> None:
    with Loader(dataset, pipeline="client_pipelines:train", batch_size=BATCH, workers=1) as loader:
        (pid,) = private_processes()
        assert pid == private_daemon()
        assert os.getsid(pid) != os.getsid(0), "Ctrl-C is not for it"
        (folder,) = os.listdir(os.environ["XDG_RUNTIME_DIR"])
        assert next(iter(loader)).step == 0
    assert not is_running(pid)
    assert os.listdir(os.environ["XDG_RUNTIME_DIR"]) == []
    assert folder.startswith(f"stoker-{os.getuid()}-")


def test_a_forgotten_private_loader_takes_its_daemon_along(dataset) -> None:
    loader = Loader(dataset, pipeline="client_pipelines:train", batch_size=BATCH, workers=1)
    pid = private_daemon()
    del loader
    gc.collect()
    assert not is_running(pid)


def test_the_private_daemon_is_killed(dataset) -> None:
    with Loader(dataset, pipeline="client_pipelines:train", batch_size=BATCH, workers=1) as loader:
        batches = iter(loader)
        next(batches)
        pid = private_daemon()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(DaemonLostError, match="the end of its log:\n"):
            consume(loader)


def test_no_dataset_and_no_pipeline(dataset, tmp_path) -> None:
    with pytest.raises(DatasetError):
        Loader(tmp_path, pipeline="client_pipelines:train", batch_size=4)
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(DatasetError, match=r"has no manifest.json: .* `stoker pack .* DEST`"):
        Loader(tmp_path, pipeline="client_pipelines:train", batch_size=4)
    with pytest.raises(
        BuildError, match=r"^pipeline='client_pipelines:nothing_there': .*has no 'nothing_there'"
    ):
        Loader(dataset, pipeline="client_pipelines:nothing_there", batch_size=4)
    assert private_processes() == []


def ended(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 20)[0], "the daemon outlives its last client"
    finally:
        os.close(handle)


RANK = """
import os, sys
from stoker.client import Loader
from stoker.protocol.digest import batch_digest
rank, kill = int(sys.argv[2]), sys.argv[3:]
loader = Loader(sys.argv[1], pipeline="client_pipelines:train", global_batch_size=8, rank=rank,
                world_size=2, device="numpy", workers=1)
print(loader._connection.delivery._session.address, flush=True)
rows = 0
for batch in loader:
    rows += len(batch.index)
print(rows, flush=True)
sys.stdin.readline()
if kill:
    os.kill(os.getpid(), 9)
loader.close()
"""


def start_rank(dataset: Path, rank: int, *more: str) -> Script:
    return Script(
        *("-c", RANK, dataset, rank, *more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(HERE), "MASTER_ADDR": "h", "MASTER_PORT": "1"},
    )


@pytest.mark.parametrize("ending", ["orderly", "first is killed", "both are killed"])
def test_local_ranks_share_one_private_daemon(dataset, ending: str) -> None:
    kill = {"orderly": [[], []], "first is killed": [["kill"], []]}.get(ending, [["kill"]] * 2)
    ranks = [start_rank(dataset, rank, *kill[rank]) for rank in range(2)]
    addresses = {rank.stdout.readline() for rank in ranks}
    assert len(addresses) == 1, addresses
    assert addresses != {""}
    assert [int(rank.stdout.readline()) for rank in ranks] == [4 * STEPS, 4 * STEPS]
    (pid,) = private_processes()
    ranks[0].communicate("go\n", timeout=30)
    assert is_running(pid), "the other rank still uses it"
    ranks[1].communicate("go\n", timeout=30)
    ended(pid)
    if ending == "both are killed":  # no process was left to tidy up: the next start does
        assert len(os.listdir(os.environ["XDG_RUNTIME_DIR"])) == 1
        with Loader(dataset, pipeline="client_pipelines:train", batch_size=8, workers=1):
            assert len(os.listdir(os.environ["XDG_RUNTIME_DIR"])) == 1
    assert os.listdir(os.environ["XDG_RUNTIME_DIR"]) == []


DISTRIBUTED = """
import sys
import torch.distributed as dist
from stoker.client import Loader
dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=int(sys.argv[2]),
                        world_size=2)
with Loader(sys.argv[1], dataset="photos", pipeline="train", batch_size=4) as loader:
    print(loader.spec.batch_size, sorted(i for b in loader for i in b.index.tolist()))
dist.destroy_process_group()
"""


def test_ranks_come_from_torch_distributed(shared, tmp_path) -> None:
    address = f"ipc://{shared}/stoker.sock"
    ranks = [
        Script(
            *("-c", DISTRIBUTED, address, rank, tmp_path / "rdv"),
            stdout=subprocess.PIPE,
            imports=["torch.distributed"],
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=120)[0].split(maxsplit=1) for rank in ranks]
    with load(shared) as loader:
        expected = sorted(i for batch in loader for i in batch.index.tolist())
    assert [batch_size for batch_size, _ in said] == ["8", "8"]
    parts = [json.loads(ids) for _, ids in said]
    assert not set(parts[0]) & set(parts[1])
    assert sorted(parts[0] + parts[1]) == expected
