"""Attacks on a shared daemon by a pipeline, a client, a scraper and another user of the host.

An honest client loads from the same daemon meanwhile; it must get all its batches, unchanged.
"""

import contextlib
import importlib
import itertools
import json
import os
import random
import re
import select
import socket
import tempfile
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from daemons import Daemon, descendants
from warm import Script

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError, SampleError
from stoker.protocol.messages import AskReplay, AskStatus

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

HERE = Path(__file__).parent
ROWS, CULPRIT, NAMES, GROUP = 12, 7, 10_000, 47114
DATA_BYTES = 640 * 2**20
"""RLIMIT_DATA of the daemon and its children: what a small container would leave to each."""


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    photo = skimage.data.astronaut()
    rows = [
        {"image": np.ascontiguousarray(photo[9 * n : 9 * n + 20, 100:124]), "label": n}
        for n in range(ROWS)
    ]
    dest = tmp_path_factory.mktemp("hostile") / "data"
    write(dest, [schema.image(encoding="raw"), schema.label()], rows)
    return dest


@pytest.fixture(scope="module")
def total(packed):
    """The sum of the culprit's pixels."""
    with open_dataset(packed) as dataset:
        return int(dataset.read("image", CULPRIT).astype(int).sum())


@pytest.fixture(scope="module")
def daemon(packed, total, kernel_cache):
    """One with little memory, ten thousand op modules, a group's socket, and metrics."""
    modules = [f"hostile_{number}" for number in range(NAMES)]
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="st-") as text:
        folder = Path(text)
        folder.chmod(0o711)
        (folder / "modules").mkdir()
        for name in modules:
            (folder / "modules" / f"{name}.py").touch()
        (folder / "stoker.toml").write_text(
            f"""
            [daemon]
            op_modules = {json.dumps([*modules, "hostile_pipelines"])}
            python_path = ["{HERE}", "{folder}/modules"]
            cache_root = "{kernel_cache}"
            {f'socket_group = "{GROUP}"' if os.geteuid() == 0 else ""}
            [workers]
            count = 2
            [memory]
            limit = "64 MiB"
            [metrics]
            address = "127.0.0.1:0"
            [datasets]
            data = "{packed}"
            [pipelines]
            honest = "hostile_pipelines:honest"
            takes_all = "hostile_pipelines:takes_all"
            """
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("STOKER_TEST_SUM", str(total))
            prefix = ["prlimit", f"--data={DATA_BYTES}"]
            running = Daemon(
                folder, f"--config={folder}/stoker.toml", socket="d/stoker.sock", prefix=prefix
            )
        with contextlib.closing(running):
            assert running.ready == {"address": running.address}, running.log.read_text()
            yield running
            assert running.stop() == 0
            assert "Traceback" not in running.log.read_text()


def load(daemon, **more):
    options = {"dataset": "data", "pipeline": "honest", "batch_size": 4, "device": "numpy"}
    return Loader(daemon.address, **{**options, **more})


@pytest.fixture
def honest(daemon, packed):
    """Loads during the test; afterwards it must have had each row of its epochs, unchanged."""
    with load(daemon, seed=4) as loader:
        endless = itertools.chain.from_iterable(iter(lambda: loader, None))
        taken = []
        yield lambda count=1: taken.extend(itertools.islice(endless, count))
        taken.extend(itertools.islice(endless, 2 * ROWS // 4))
    assert [(batch.epoch, batch.step) for batch in taken] == [
        divmod(number, ROWS // 4) for number in range(len(taken))
    ]
    with open_dataset(packed) as dataset:
        for batch in taken:
            for row, number in enumerate(batch.index.tolist()):
                assert np.array_equal(batch.image[row], dataset.read("image", number))


@pytest.mark.as_a_user
def test_a_function_that_takes_all_memory_is_an_error_with_its_sample(daemon, honest):
    with load(daemon, pipeline="takes_all") as loader:
        honest(3)
        with pytest.raises(SampleError, match=r"greedy raised (_Array)?MemoryError") as caught:
            list(loader)
    assert caught.value.details["id"] == CULPRIT
    with load(daemon, pipeline="takes_all", on_error="mask") as loader:
        assert sum(int(batch.valid.sum()) for batch in loader) == ROWS - 1


def test_the_kernel_takes_memory_from_workers_before_daemon_and_clients(daemon):
    def score(pid):
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    own = score(daemon.pid)
    assert own == score(os.getpid())
    assert {score(pid) for pid in descendants(daemon.pid)} == {max(own, 500)}


def test_ten_thousand_op_modules_allow_what_they_name_and_nothing_else(daemon, honest, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    hostile_pipelines = importlib.import_module("hostile_pipelines")

    @pipeline
    def named(sample):
        return {"image": ops.python(hostile_pipelines.greedy, sample.image, randomness="none")}

    with load(daemon, pipeline=named, on_error="mask") as loader:
        assert next(iter(loader)).image.shape == (4, 20, 24, 3)

    @pipeline
    def other(sample):
        return {"image": ops.python(np.flipud, sample.image, randomness="none")}

    with pytest.raises(BuildError, match=r"op_modules"):
        load(daemon, pipeline=other)


@pytest.mark.as_a_user
def test_a_flood_of_replays_and_questions_delays_nobody(daemon, honest, rounds):
    """It may end with the session of the client that floods and does not read."""
    with load(daemon) as loader:
        next(iter(loader))
        session = loader._connection.delivery._session
        for number in range(rounds(30)):
            asked = [AskReplay(100 + 20 * number + n, n % ROWS, 0, 0, 0) for n in range(20)]
            session.send(*asked, *[AskStatus()] * 20)
            session.poll()
            session.inbox.clear()
            if number % 10 == 0:
                honest()
    with load(daemon) as other:
        assert other.replay(3, 0).id == 3


def requests(count, rng):
    """HTTP requests that are none, or too large, or cut."""
    good = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    fixed = [
        b"", b"\r\n" * 50, b"GET", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/" * 2**17,
        good[:-4] + b"X: " + b"y" * 2**17, good[:-2] + b"A: b\r\n" * 500 + b"\r\n",
        b"POST /metrics HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n", b"\x16\x03\x01" * 99,
        b"GET /../../etc/passwd HTTP/1.0\r\n\r\n", good * 50,
    ]  # fmt: skip
    yield from fixed
    for _ in range(count):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        yield bytes(data[: rng.randrange(1, len(data) + 1)])


@pytest.mark.as_a_user
def test_the_metrics_endpoint_withstands_garbage(daemon, honest, rounds):
    port = int(re.search(r"metrics_listening.*port=(\d+)", daemon.log.read_text())[1])
    with contextlib.ExitStack() as idle:
        for data in requests(rounds(40), random.Random(3)):
            sock = socket.create_connection(("127.0.0.1", port), 10)
            with contextlib.suppress(OSError):
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while (answer := sock.recv(2**16)) and b"passwd" not in answer:
                    pass
            sock.close()
        honest()
        for _ in range(40):  # as many as it serves at a time, and more
            idle.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        honest(2)
    for _ in range(300):  # until it has seen that they are gone
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=30) as answer:
                assert answer.read() == b"live\n"
            return
        select.select([], [], [], 0.1)
    raise AssertionError("the endpoint does not answer any more")


ACTS = """
import os, socket, sys
act, path, pid, *groups = sys.argv[1:]
os.setgroups([int(group) for group in groups])
os.setgid(4242)
os.setuid(4242)
try:
    if act == "connect":
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(10)
            sock.connect(f"{path}.fd")
    elif act == "ask":
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(10)
            sock.connect(f"{path}.fd")
            sys.exit(b"user 4242 may not use this daemon" not in sock.recv(65536))
    elif act == "replace":
        os.unlink(path)
    elif act == "plant":
        os.symlink("/etc/passwd", f"{path}.new")
    else:
        os.kill(int(pid), 9)
except OSError as error:
    sys.exit(error.errno or 254)
"""


@pytest.mark.as_a_user
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as other users")
def test_other_users_reach_the_sockets_only_by_the_group(daemon, honest):
    path = daemon.address.removeprefix("ipc://")

    def act(name: str, groups: list[int]) -> int:
        """Do something as another user; return 0, or the number of its error."""
        with Script("-c", ACTS, name, path, daemon.pid, *groups) as other:
            return other.wait(30)

    assert act("connect", [GROUP]) == 0
    assert act("connect", []) == 13
    for name in ("replace", "plant"):
        assert act(name, [GROUP]) == 13
        assert act(name, []) == 13
    assert act("kill", [GROUP]) == 1
    for place, mode in ((os.path.dirname(path), 0o755), (f"{path}.fd", 0o666)):
        os.chmod(place, mode)  # as an operator might who knows no better
    assert act("ask", []) == 0
    honest(3)
