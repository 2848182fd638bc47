"""Few descriptors: the daemon keeps a reserve, and clients that are connected lose nothing."""

import collections
import contextlib
import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from daemons import children
from warm import Script

from stoker.client.client_session import ClientSession
from stoker.protocol.errors import ConnectError, TryAgainError

pytestmark = pytest.mark.slow
LIMIT = 256
RESERVE = 32
HERE = Path(__file__).parent
FEW = ["prlimit", f"--nofile={LIMIT}:{LIMIT}"]


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def batches_of(loader):
    while True:
        yield from loader


@pytest.mark.parametrize("limit", [5, 6, 7, 64])
def test_a_limit_that_is_too_low_is_one_line(folder, small_dataset, limit):
    """Below eight the daemon could not even start its template process."""
    ended = subprocess.run(
        ["prlimit", f"--nofile={limit}:{limit}", sys.executable, "-m", "stoker.server", "serve",
         f"--address=ipc://{folder}/s.sock", f"--dataset=a={small_dataset}", "--workers=2"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    needed = "a daemon with 2 workers needs at least 184; raise it (ulimit -n, LimitNOFILE"
    assert line.startswith(f"stoker: the limit on open files is {limit}, but {needed}")


@pytest.mark.as_a_user
def test_sessions_that_come_and_go_cost_an_honest_client_nothing(serve, loader):
    daemon = serve(prefix=FEW)
    with loader(daemon) as honest:
        batches, seen = batches_of(honest), []
        open_sessions: collections.deque[ClientSession] = collections.deque()
        most = 0
        for _ in range(2 * LIMIT):  # one that is left by each would use all
            open_sessions.append(ClientSession(daemon.address, 20.0))
            if len(open_sessions) > 12:
                open_sessions.popleft().close()
            if len(open_sessions) % 4 == 0:
                seen.append(next(batches))
                most = max(most, descriptors(daemon.pid))
        seen += [next(batches) for _ in range(4)]
        for session in open_sessions:
            session.close()
        assert [(b.epoch, b.step) for b in seen] == [(n // 2, n % 2) for n in range(len(seen))]
        assert most <= LIMIT - RESERVE
    assert daemon.stop() == 0


@pytest.mark.as_a_user
def test_the_door_closes_before_the_reserve_is_used_and_opens_again(serve, loader):
    daemon = serve(prefix=FEW)
    path = daemon.address.removeprefix("ipc://")
    with loader(daemon) as honest, contextlib.ExitStack() as flood:
        batches = batches_of(honest)
        first = next(batches)
        answer = 0
        while answer in (0, errno.EAGAIN):
            sock = flood.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            sock.setblocking(False)
            answer = sock.connect_ex(path)
            if answer:
                sock.close()
            next(batches)  # the daemon's loop runs, as it does between connections of clients
        assert answer == errno.ENOENT
        assert LIMIT // 4 < descriptors(daemon.pid) <= LIMIT - RESERVE
        with pytest.raises(ConnectError, match="did not answer within 1 s"):
            ClientSession(daemon.address, 1.0)
        assert (first.epoch, first.step) == (0, 0)
        steps = [next(batches).step for _ in range(4)]
        assert steps in ([0, 1, 0, 1], [1, 0, 1, 0])
        flood.close()
        with loader(daemon, connect_timeout_s=30.0) as later:
            assert next(iter(later)).step == 0
        assert next(batches).step == steps[0]
    log = daemon.log.read_text()
    assert "accept_paused" in log
    assert "accept_resumed" in log
    assert daemon.stop() == 0
    assert [p.name for p in Path(path).parent.iterdir()] == [daemon.log.name]


def test_the_limit_on_sessions_names_what_to_raise(serve):
    daemon = serve(prefix=FEW)
    told = (
        r"its limit; try again later, close some, or raise the limit on open files \(256: ulimit -n"
    )
    with contextlib.ExitStack() as sessions:

        def connect() -> None:
            sessions.enter_context(contextlib.closing(ClientSession(daemon.address, 20.0)))

        with pytest.raises(TryAgainError, match=told):
            collections.deque(iter(connect, sessions), 0)
        assert descriptors(daemon.pid) <= LIMIT - RESERVE
    daemon.logged("sessions_limited")


def test_a_limit_too_small_to_serve_is_refused(serve):
    daemon = serve(prefix=["prlimit", "--nofile=100:100"])
    code, message, details = daemon.ready["error"]
    assert code == "setup"
    assert "the limit on open files is 100, but a daemon with 2 workers needs at least" in message
    assert details["limit"] == 100
    assert daemon.wait() == 1


def test_the_soft_limit_is_raised_to_the_hard_limit(serve):
    daemon = serve(prefix=["prlimit", "--nofile=64:4096"])
    limits = Path(f"/proc/{daemon.pid}/limits").read_text().splitlines()
    (files,) = [line.split() for line in limits if line.startswith("Max open files")]
    assert files[3:5] == ["4096", "4096"]
    assert children(daemon.pid)


TRAINING = """
import os, resource, sys
from stoker.client import Loader
from stoker.protocol.errors import ResourceError
sys.path.insert(0, sys.argv[3])
address, dataset = sys.argv[1:3]
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
held = []
try:
    while True:
        held.append(os.dup(0))
except OSError:
    os.close(held.pop())
def is_opened(where, **named):
    try:
        Loader(where, batch_size=5, device="numpy", **named).close()
    except ResourceError as error:
        print(error.message)
        return False
    return True
assert not is_opened(dataset, pipeline="robust_pipelines:labels")
while not is_opened(address, dataset="small", pipeline="labels"):
    os.close(held.pop())
"""


def test_a_training_without_descriptors_gets_an_error_and_lives(serve, small_dataset) -> None:
    """ZeroMQ alone would end it with abort()."""
    daemon = serve(warm=True)
    arguments = map(str, (daemon.address, small_dataset, HERE))
    with Script("-c", TRAINING, *arguments, stdout=subprocess.PIPE) as script:
        lines = set(script.communicate(timeout=120)[0].splitlines())
    assert script.returncode == 0
    assert lines == {
        f"{what}: process {script.pid} has too many open files, of at most 512; raise the limit"
        " (ulimit -n, LimitNOFILE of systemd, --ulimit nofile of docker), or close files"
        for what in ("a connection to the daemon", "a private daemon")
    }
