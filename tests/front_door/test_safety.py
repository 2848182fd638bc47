"""Promises of guarantees.md about what others send, by an executed daemon; one serves all tests."""

import importlib
import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq
from daemons import Daemon, serving
from user_folders import importing_from

from stoker.client import Connection, Loader
from stoker.dataset import schema, write
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError, ResourceError

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
MARK = "an_operator_never_allowed_this"
IDLE = """
import sys, zmq
from stoker.protocol import codec, messages
context = zmq.Context()
peers = [context.socket(zmq.DEALER) for _ in range(6)]
for peer in peers:
    peer.connect(sys.argv[1])
    peer.send(codec.encode(b"", [messages.Hello(1, 1, "idle")]))
    peer.recv()
print("greeted", flush=True)
sys.stdin.read()
context.destroy(linger=0)
"""
CODE = """
import os
from pathlib import Path

from stoker import ops
from stoker.pipeline import pipeline

Path(__file__).with_name(str(os.getpid())).touch()


def negative(values):
    return 255 - values


@pipeline
def made(sample):
    return {"array": ops.python(negative, sample.values, randomness='none')}
"""


@pipeline
def labels(sample):
    return {"label": sample.label}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with room for four sessions; the working folder of the tests is its own."""
    folder = tmp_path_factory.mktemp("safety")
    fields = [schema.label(), schema.array("values", "uint8", (4,))]
    values = np.arange(4, dtype=np.uint8)
    write(folder / "d", fields, [{"label": n % 3, "values": values} for n in range(40)])
    flags = [f"--dataset=d={folder / 'd'}", "--workers=1", f"--python-path={folder}"]
    (folder / f"{MARK}.py").write_text(CODE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("STOKER_DAEMON_MAX_SESSIONS", "4")
        with serving(folder, *flags) as daemon:
            yield daemon


def load(daemon: Daemon, made: object = labels, **more: object) -> Loader:
    return Loader(daemon.address, pipeline=made, batch_size=8, device="numpy", **more)


class Planted:
    """Makes a folder where it is unpickled."""

    def __reduce__(self) -> tuple:
        return os.mkdir, ("unpickled",)


def test_what_is_received_never_becomes_code(served, tmp_path):
    """Pickles on both sockets, and in an array of a source."""
    path = served.address.removeprefix("ipc://")
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.connect(served.address)
        for protocol in range(6):
            peer.send(pickle.dumps(Planted(), protocol))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.connect(f"{path}.fd")
        peer.send(pickle.dumps(Planted()))
    with load(served) as loader:
        assert sum(len(batch.label) for batch in loader) == 40
    np.savez(tmp_path / "a.npz", a=np.array([Planted(), None], object))
    command = [sys.executable, "-m", "stoker.server", "pack", tmp_path / "a.npz", tmp_path / "p"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "got one of object" in done.stderr) == (2, True), done.stderr
    assert not Path("unpickled").exists()
    assert not (Path(path).parent / "unpickled").exists()


def test_a_module_that_was_not_allowed_is_not_imported(served):
    folder = Path.cwd()
    with importing_from(folder):
        made = importlib.import_module(MARK).made
    with pytest.raises(BuildError, match="is not allowed here; the operator of the daemon allows"):
        load(served, made)
    assert [path.name for path in folder.iterdir() if path.name.isdigit()] == [str(os.getpid())]


def test_a_client_without_room_asks_again_until_its_time_is_over(served):
    loaders = [load(served) for _ in range(4)]
    with pytest.raises(ResourceError):
        load(served, connection=Connection(connect_timeout_s=3))
    code = (
        "import sys\nfrom stoker.client import Connection, Loader\n"
        "from stoker.pipeline import pipeline\n"
        "@pipeline\ndef labels(sample):\n    return {'label': sample.label}\n"
        "print('asking', flush=True)\n"
        "with Loader(sys.argv[1], pipeline=labels, batch_size=8, device='numpy',\n"
        "            connection=Connection(connect_timeout_s=60)) as loader:\n"
        "    print(len(list(loader)), flush=True)\n"
    )
    command = [sys.executable, "-c", code, served.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as late:
        assert late.stdout.readline() == "asking\n"
        for loader in loaders:
            loader.close()
        assert late.stdout.readline() == "5\n"


def test_idle_greetings_and_idle_connections_lock_out_nobody(served):
    command = [sys.executable, "-c", IDLE, served.address]
    with load(served) as loader, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as idle:  # fmt: skip
        assert idle.stdout.readline() == b"greeted\n"
        path = served.address.removeprefix("ipc://")
        mute = [socket.socket(socket.AF_UNIX) for _ in range(100)]
        for sock in mute:
            sock.connect(path)
        with load(served) as newcomer:
            assert len(list(newcomer)) == len(list(loader)) == 5
        for sock in mute:
            sock.close()
        idle.stdin.close()


def test_a_daemon_that_stops_removes_nothing_but_what_it_bound(served, tmp_path):
    with serving(tmp_path, f"--dataset=d={served.log.parent / 'd'}", "--workers=1") as daemon:
        path = daemon.address.removeprefix("ipc://")
        for suffix in ("", ".fd", ".lock"):
            (tmp_path / "new").write_text(json.dumps(suffix))
            os.replace(tmp_path / "new", path + suffix)
        assert daemon.stop() == 0
    left = {suffix: json.loads(Path(path + suffix).read_text()) for suffix in ("", ".fd", ".lock")}
    assert all(suffix == text for suffix, text in left.items())
