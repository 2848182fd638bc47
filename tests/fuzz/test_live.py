"""A live daemon gets stored inputs and changes of them on every socket; a client loads meanwhile.

Three peers send: one that never says hello, on all four sockets (messages and packets, over `ipc://`
and `tcp://`); one whose session is valid, with its own token in every message; and one that ends
in the middle of what it sends. Afterwards the daemon serves as before, and has logged no traceback.
"""

import contextlib
import itertools
import random
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import daemons
import numpy as np
import pytest
import zmq
from test_targets import changed, inputs

from stoker.client import Batch, Loader
from stoker.client.client_session import ClientSession
from stoker.dataset import schema, write
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import StokerError
from stoker.protocol.remote.tcp import tcp_address

pytestmark = pytest.mark.as_a_user

HERE = Path(__file__).parent
ROWS, CHANGES = 24, 150
OPTIONS = {"pipeline": "plain", "device": "numpy", "batch_size": 4, "seed": 5}
TOKEN_AT, TOKEN_BYTES = 4, 16
"""Offset of a message's token: after an array of three, the version and the token's length."""


@contextlib.contextmanager
def served_daemon(root: Path, *flags: str) -> Iterator[SimpleNamespace]:
    """A daemon that listens on all its sockets, and the digests of an epoch."""
    values = np.random.default_rng(3).integers(0, 255, (ROWS, 30, 30), np.uint8)
    rows = [{"pixels": value, "label": number % 3} for number, value in enumerate(values)]
    write(root / "data", [schema.array("pixels", "uint8", (30, 30)), schema.label()], rows)
    folder = root / "d"
    folder.mkdir(mode=0o700)
    daemon = daemons.Daemon(
        folder, "--tcp=tcp://127.0.0.1:0", f"--dataset=data={root}/data",
        f"--python-path={HERE.parent / 'client'}", "--pipeline=plain=client_pipelines:tensors",
        "--workers=1", *flags, warm=True,
    )  # fmt: skip
    try:
        assert "tcp" in (daemon.ready or {}), daemon.log.read_text()
        with Loader(daemon.address, **OPTIONS) as loader:
            expected = digests(loader)
        yield SimpleNamespace(
            ipc=daemon.address, tcp=daemon.ready["tcp"], daemon=daemon, expected=expected
        )
        assert daemon.stop() == 0, daemon.log.read_text()
        assert "Traceback" not in daemon.log.read_text(), daemon.log.read_text()
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A daemon without keys."""
    with served_daemon(tmp_path_factory.mktemp("live"), "--insecure") as found:
        yield found


@pytest.fixture
def honest(served: SimpleNamespace) -> Iterator[None]:
    """Load during the test, and afterwards from a new session."""
    with Loader(served.ipc, **OPTIONS) as loader:
        batches = iter(loader)
        first = list(itertools.islice(batches, 2))
        yield
        assert digests([*first, *batches]) == served.expected
    for address in (served.ipc, served.tcp):
        with Loader(address, **OPTIONS) as loader:
            assert digests(loader) == served.expected


def digests(batches: Iterable[Batch]) -> list[str]:
    return [batch_digest(digest_parts(b), b.epoch, b.step) for b in batches]


def bad_bytes(*names: str) -> Iterator[bytes]:
    """Yield all stored inputs of some targets, and changes of them."""
    stored = [data for name in names for data in inputs(name)]
    yield from stored
    rng = random.Random("/".join(names))
    for _ in range(CHANGES):
        yield changed(rng.choice(stored), rng, stored)


def side_path(address: str) -> str:
    return address.removeprefix("ipc://") + ".fd"


@contextlib.contextmanager
def dealer(address: str) -> Iterator[zmq.Socket]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as made:
        made.linger = 0
        made.connect(address)
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["ipc", "tcp"])
def test_messages_of_strangers(served, honest, scheme) -> None:
    with dealer(getattr(served, scheme)) as sock:
        for number, data in enumerate(bad_bytes("message_of_a_client", "spec", "graph")):
            parts = [data, b"", data[:5]] if number % 7 == 0 else [data]
            sock.send_multipart(parts)
        sock.send_multipart(inputs("message_of_a_client")[:1])
        assert sock.poll(10_000)  # it answers: nothing above has stopped it


@pytest.mark.slow
def test_packets_of_strangers(served, honest) -> None:
    for data in bad_bytes("packet"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.connect(side_path(served.ipc))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.send(data)
                sock.send(data)


@pytest.mark.slow
def test_carriers_of_strangers(served, honest) -> None:
    address = tcp_address(served.tcp)
    for data in bad_bytes("carrier_of_a_daemon"):
        with (
            socket.create_connection((address.host, address.carrier_port), 10) as sock,
            contextlib.suppress(BrokenPipeError, ConnectionResetError),
        ):
            sock.sendall(data)


@pytest.mark.slow
def test_messages_with_a_valid_token(served, honest) -> None:
    """Each session sends until the daemon ends it; then another one begins."""
    messages = [m for m in bad_bytes("message_of_a_client") if len(m) > TOKEN_AT + TOKEN_BYTES]
    assert len(messages) > CHANGES // 2
    refused = 0
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(contextlib.closing(ClientSession(served.ipc, 10.0)))
        for data in messages:
            told = data[:TOKEN_AT] + session._token + data[TOKEN_AT + TOKEN_BYTES :]
            try:
                session._dealer.send(told, zmq.NOBLOCK)
                session.poll()
                session.inbox.clear()
            except (StokerError, zmq.Again):
                refused += 1
                session.close()
                session = stack.enter_context(contextlib.closing(ClientSession(served.ipc, 10.0)))
    assert refused < len(messages)
