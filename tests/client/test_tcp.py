"""A Loader at `tcp://`: the same bytes as over `ipc://`, and typed errors where the link breaks."""

import contextlib
import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import daemons
import numpy as np
import pytest

from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import DaemonLostError
from stoker.protocol.messages import Attach
from stoker.protocol.remote.tcp import HEAD, frame, tcp_address

HERE = Path(__file__).parent
ROWS = 40


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A daemon that listens on both transports."""
    root = tmp_path_factory.mktemp("tcp")
    values = np.random.default_rng(3).integers(0, 255, (ROWS, 300, 300), np.uint8)
    rows = [{"pixels": value, "label": number % 3} for number, value in enumerate(values)]
    write(root / "data", [schema.array("pixels", "uint8", (300, 300)), schema.label()], rows)
    folder = root / "d"
    folder.mkdir(mode=0o700)
    daemon = daemons.Daemon(
        folder, "--tcp=tcp://127.0.0.1:0", "--insecure", f"--dataset=data={root}/data",
        f"--python-path={HERE}", "--pipeline=plain=client_pipelines:tensors", "--workers=2",
        warm=True,
    )  # fmt: skip
    try:
        assert "tcp" in (daemon.ready or {}), daemon.log.read_text()
        yield SimpleNamespace(ipc=daemon.address, tcp=daemon.ready["tcp"], daemon=daemon)
        assert daemon.stop() == 0, daemon.log.read_text()
        assert "Traceback" not in daemon.log.read_text(), daemon.log.read_text()
    finally:
        daemon.close()


OPTIONS = {"dataset": "data", "pipeline": "plain", "device": "numpy", "seed": 5}


def digests(address: str, epochs: int = 2, **options: object) -> list[str]:
    with Loader(address, **{"batch_size": 4, **OPTIONS, **options}) as loader:
        return [
            batch_digest(digest_parts(batch), batch.epoch, batch.step)
            for _ in range(epochs)
            for batch in loader
        ]


@contextlib.contextmanager
def carrier(tcp: str, *data: bytes) -> Iterator[socket.socket]:
    """A connection to the carrier's port that sends some bytes."""
    address = tcp_address(tcp)
    with socket.create_connection((address.host, address.carrier_port), 10) as sock:
        for part in data:
            sock.sendall(part)
        yield sock


def read_to_end(sock: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prefetch": 1, "batch_size": 7, "last": "pad"},
        {"rank": 1, "world_size": 3},
        {"verify": True},
        {"group": "sweep"},
    ],
    ids=str,
)
def test_tcp_delivers_the_bytes_of_ipc(served, options) -> None:
    assert digests(served.tcp, **options) == digests(served.ipc, **options)


def test_a_cursor_moves_between_transports(served) -> None:
    whole = digests(served.ipc, 1)
    with Loader(served.tcp, batch_size=4, **OPTIONS) as loader:
        for _, batch in zip(range(3), loader, strict=False):
            assert batch.epoch == 0
        state = loader.state_dict()
    with Loader(served.tcp, batch_size=4, **OPTIONS) as loader:
        loader.load_state_dict(json.loads(json.dumps(state)))
        rest = [batch_digest(digest_parts(b), b.epoch, b.step) for b in loader]
    assert rest == whole[3:]


def test_batches_that_are_kept_are_never_overwritten(served) -> None:
    with Loader(served.ipc, batch_size=4, **OPTIONS) as loader:
        expected = [np.array(batch.pixels) for batch in loader]
    with Loader(served.tcp, batch_size=4, prefetch=4, **OPTIONS) as loader:
        kept = [batch.pixels for batch in loader]
        kept += [batch.pixels for batch in loader]
        assert loader.statistics().copied > 0
    for array, values in zip(kept, expected, strict=False):
        np.testing.assert_array_equal(array, values)


def test_loops_that_are_left_early_cost_nothing(served) -> None:
    with Loader(served.tcp, batch_size=4, **OPTIONS) as loader:
        for epoch in range(20):
            batch = next(iter(loader))
            assert (batch.epoch, batch.step) == (epoch, 0)


def test_replay(served) -> None:
    found = []
    for address in (served.ipc, served.tcp):
        with Loader(address, batch_size=4, **OPTIONS) as loader:
            found.append(loader.replay(3, 0))
    for local, remote in zip(found[0].outputs, found[1].outputs, strict=True):
        np.testing.assert_array_equal(local.array, remote.array)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (frame(Attach(b"w" * 16)), b"this token belongs to no session"),
        (HEAD.pack(2**32 - 1), b"expected a packet of 1 to 65536 bytes"),
        (HEAD.pack(60000) + b"x" * 10, b"expected Attach alone"),
        (HEAD.pack(5) + b"\xc1garb", b"protocol"),
        (b"GET / HTTP/1.1\r\n\r\n", b"expected a packet"),
    ],
    ids=["token", "length", "large", "garbage", "http"],
)
def test_a_lying_peer_gets_an_error_and_others_notice_nothing(served, data, answer) -> None:
    with Loader(served.tcp, batch_size=4, **OPTIONS) as loader:
        batches = iter(loader)
        next(batches)
        with carrier(served.tcp, data) as sock:
            assert answer in read_to_end(sock)
        assert len(list(batches)) == len(loader) - 1


def test_garbage_on_the_port_of_records(served) -> None:
    address = tcp_address(served.tcp)
    with socket.create_connection((address.host, address.port), 10) as sock:
        sock.sendall(b"\x00" * 5000)
        read_to_end(sock)
    assert len(digests(served.tcp, 1)) == ROWS // 4


def test_a_byte_after_attach_ends_only_that_session(served) -> None:
    with (
        Loader(served.tcp, batch_size=4, **OPTIONS) as loader,
        Loader(served.tcp, batch_size=4, **OPTIONS) as other,
    ):
        next(iter(loader))
        session = loader._connection.daemon_stream.session
        session._side._sock.sendall(b"x")
        with pytest.raises(DaemonLostError, match="went away"):
            session.receive(time.monotonic() + 60) or [list(loader) for _ in range(10)]
        assert len(list(other)) == len(other)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--tcp=tcp://0.0.0.0:7470"],
            "all networks of this host reach.*add --key FILE.*--insecure",
        ),
        (["--tcp=tcp://127.0.0.1:7470"], "loopback address.*add --key FILE.*--insecure"),
        (["--tcp=0.0.0.0:7470"], "expected tcp://HOST:PORT"),
        (["--insecure"], "expected an address for other hosts with it, got none; add --tcp"),
        (["--tcp=tcp://127.0.0.1:1x", "--insecure"], "expected tcp://HOST:PORT"),
    ],
    ids=str,
)
def test_a_daemon_refuses_an_unprotected_or_wrong_address(served, tmp_path, flags, message) -> None:
    daemon = daemons.Daemon(tmp_path, f"--dataset=d={tmp_path}", *flags, warm=True)
    try:
        assert daemon.wait() != 0
        assert daemon.ready is not None
        text = daemon.ready["error"][1]
    finally:
        daemon.close()
    assert daemon.ready["error"][0] in ("config", "usage")
    assert re.search(message, text), text


def test_a_port_that_is_taken_is_named(served, tmp_path) -> None:
    (tmp_path / "d").mkdir(mode=0o700)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "data").symlink_to(Path(served.daemon.log).parent.parent / "data")
        daemon = daemons.Daemon(
            tmp_path / "d", f"--dataset=d={tmp_path}/data", f"--tcp=tcp://127.0.0.1:{port}",
            "--insecure", warm=True,
        )  # fmt: skip
        try:
            assert daemon.wait() != 0
            assert f"port {port} of 127.0.0.1: Address already in use" in daemon.ready["error"][1]
        finally:
            daemon.close()


def test_a_killed_daemon_is_lost_at_once(served, tmp_path) -> None:
    folder = tmp_path / "d"
    folder.mkdir(mode=0o700)
    data = Path(served.daemon.log).parent.parent / "data"
    daemon = daemons.Daemon(
        folder, "--tcp=tcp://127.0.0.1:0", "--insecure", f"--dataset=data={data}",
        f"--python-path={HERE}", "--pipeline=plain=client_pipelines:tensors", "--workers=1",
        warm=True,
    )  # fmt: skip
    try:
        with Loader(daemon.ready["tcp"], batch_size=4, **OPTIONS) as loader:
            next(iter(loader))
            daemon.stop(signal.SIGKILL)
            with pytest.raises(DaemonLostError, match=f"the daemon at {daemon.ready['tcp']} went"):
                [list(loader) for _ in range(10)]
    finally:
        daemon.close()
