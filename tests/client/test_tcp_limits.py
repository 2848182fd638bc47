"""Limits of threads, maps and connections at `tcp://`: what meets one ends alone, with an error."""

import contextlib
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from keyed import OPTIONS, ROWS, keyed_daemon

from stoker.client import Loader
from stoker.pipeline import pipeline
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import ResourceError
from stoker.protocol.remote.tcp import MAX_FRAME_BYTES, tcp_address

MIB = 2**20
STACK_BYTES = 8 * MIB
LARGE = {**OPTIONS, "batch_size": ROWS, "prefetch": 8}
"""Its batches need 3.4 MiB each."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    with keyed_daemon(tmp_path_factory.mktemp("limits")) as found:
        with Loader(found.ipc, **OPTIONS) as loader:
            found.expected = digests(loader)
        yield found
        assert "unexpected_error" not in found.daemon.log.read_text()


def digests(loader: Loader) -> list[str]:
    return [batch_digest(digest_parts(batch), batch.epoch, batch.step) for batch in loader]


def status_bytes(pid: int | str, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


@contextlib.contextmanager
def address_space(pid: int | str, more_bytes: int) -> Iterator[None]:
    """Let a process map only `more_bytes` more than it has mapped."""
    number = 0 if pid == "self" else int(pid)
    before = resource.prlimit(number, resource.RLIMIT_AS)
    limit = status_bytes(pid, "VmSize") + more_bytes
    resource.prlimit(number, resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(number, resource.RLIMIT_AS, before)


# ---------------------------------------------------------------- threads and maps

NO_THREAD_OR_MAP = r"the daemon cannot (start a thread.*pids\.max|map the \d+ bytes.*ulimit -v)"
"""A stack that an earlier thread left is used again; then the memory of the batches is refused."""


def test_a_daemon_that_can_start_no_thread_refuses_that_session_alone(served) -> None:
    with Loader(served.ipc, **OPTIONS) as neighbor:
        with (
            address_space(served.daemon.pid, STACK_BYTES - 2 * MIB),
            pytest.raises(ResourceError, match=NO_THREAD_OR_MAP),
        ):
            Loader(served.tcp, **OPTIONS, **served.keys)
        assert digests(neighbor) == served.expected
    with Loader(served.tcp, **OPTIONS, **served.keys) as loader:
        assert digests(loader) == served.expected


def test_a_daemon_that_can_map_no_slab_refuses_that_session_alone(served) -> None:
    with Loader(served.tcp, **OPTIONS, **served.keys) as neighbor:
        with (
            address_space(served.daemon.pid, 2 * STACK_BYTES),
            pytest.raises(ResourceError, match=r"the daemon cannot map the \d+ bytes.*ulimit -v"),
        ):
            Loader(served.tcp, **LARGE, **served.keys)
        assert digests(neighbor) == served.expected
    with Loader(served.tcp, **LARGE, **served.keys) as loader:
        assert len(digests(loader)) == 1
    assert "carrier_failed" in served.daemon.log.read_text()


def test_a_client_that_can_start_no_thread(served, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading, "_start_new_thread", refuse)
        with pytest.raises(ResourceError, match="the system starts no more threads; raise the"):
            Loader(served.tcp, **OPTIONS, **served.keys)
    with Loader(served.tcp, **OPTIONS, **served.keys) as loader:
        assert digests(loader) == served.expected


def test_a_client_that_can_map_no_ring(served) -> None:
    """The threads of ZeroMQ and of the carrier have room; the ring has not."""
    with (
        address_space("self", 8 * STACK_BYTES),
        pytest.raises(ResourceError, match=r"cannot (reserve|map the) \d+ bytes"),
    ):
        Loader(served.tcp, **{**LARGE, "prefetch": 16}, **served.keys)
    with Loader(served.tcp, **OPTIONS, **served.keys) as loader:
        assert digests(loader) == served.expected


# ---------------------------------------------------------------- before authentication

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15 + 32)
"""The first 64 bytes of ZMTP 3.1, with the mechanism CURVE."""


def command(size_bytes: int) -> bytes:
    """The begin of a ZMTP command, and all of its bytes but the last one."""
    return GREETING + b"\x06" + size_bytes.to_bytes(8, "big") + bytes(size_bytes - 1)


def client_hello(size_bytes: int) -> bytes:
    """The begin of a record of TLS that is never complete."""
    return b"\x16\x03\x01" + size_bytes.to_bytes(2, "big") + bytes(size_bytes - 1)


def test_a_thousand_connections_without_a_key_cost_little_memory(served) -> None:
    """They fill all that the daemon lets them; a client with a key opens and reads meanwhile."""
    address = tcp_address(served.tcp)
    floods = [
        (address.port, b""),
        (address.port, command(MAX_FRAME_BYTES - 1)),
        (address.port, command(3 * 2**19)),
        (address.carrier_port, b""),
        (address.carrier_port, client_hello(2**14)),
    ]
    with contextlib.ExitStack() as stack:
        with Loader(served.tcp, **OPTIONS, **served.keys) as loader:
            assert digests(loader) == served.expected
        before = status_bytes(served.daemon.pid, "VmRSS")
        for number in range(1000):
            port, data = floods[number % len(floods)]
            host = f"127.0.0.{2 + number % 3}"
            sock = socket.create_connection((address.host, port), 20, (host, 0))
            stack.enter_context(sock)
            sock.setblocking(False)
            with contextlib.suppress(OSError):  # it is full, or the daemon has ended it
                while data:
                    data = data[sock.send(data) :]
            if number % 200 == 100:
                with Loader(served.tcp, **OPTIONS, **served.keys) as loader:
                    assert digests(loader) == served.expected
        grown = status_bytes(served.daemon.pid, "VmRSS") - before
    assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB"


def test_a_request_that_is_longer_than_a_frame_crosses(served) -> None:
    names = [f"label_{number}_{'x' * 90}" for number in range(200)]

    @pipeline
    def long(sample):
        return dict.fromkeys(names, sample.label)

    assert sum(map(len, names)) > MAX_FRAME_BYTES
    options = {**OPTIONS, "pipeline": long}
    with (
        Loader(served.tcp, **options, **served.keys) as far,
        Loader(served.ipc, **options) as near,
    ):
        assert digests(far) == digests(near)
