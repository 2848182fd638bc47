"""The errors of a daemon's addresses, folders and memory, once each."""

import contextlib
import resource
import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from stoker.protocol.errors import ConfigError, ResourceError, SetupError, UsageError
from stoker.server.daemon.daemon import Daemon
from stoker.server.daemon.metrics_address import host_and_port
from stoker.server.daemon.metrics_endpoint import Endpoint
from stoker.server.daemon.slabs import CHUNK_BYTES, SPARE_BYTES, SlabMemory
from stoker.server.daemon.socket_folder import MAX_PATH_BYTES, group_number, socket_path
from stoker.server.settings.cgroup import Room
from stoker.server.settings.config_types import MetricsSection

MIB = 2**20


@contextlib.contextmanager
def limited(kind: int, to: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (to, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def folder_below_a_file(on: SimpleNamespace) -> None:
    (on.folder / "file").touch()
    Daemon(on.make_config(daemon__address=f"ipc://{on.folder}/file/s.sock"))


def endpoint_at_a_taken_port(_: SimpleNamespace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        Endpoint(MetricsSection(address=str(taken.getsockname()[1])), lambda: None)


def slab_without_descriptors(_: SimpleNamespace) -> None:
    with limited(resource.RLIMIT_NOFILE, 0):
        SlabMemory.reserve(4096, room=lambda: Room(2**40, ""))


def slab_larger_than_a_file_may_be(_: SimpleNamespace) -> None:
    with limited(resource.RLIMIT_FSIZE, MIB):
        SlabMemory.reserve(2 * MIB)


def slab_in_room_that_shrinks(_: SimpleNamespace) -> None:
    """The room is looked at again between chunks."""
    rooms = iter([Room(2**40, "plenty"), Room(SPARE_BYTES + 4096, "squeezed")])
    SlabMemory.reserve(CHUNK_BYTES + 8192, room=lambda: next(rooms))


ERRORS = [
    (folder_below_a_file, SetupError,
     r"^address 'ipc://(.*)/file/s\.sock': \1/file/s\.sock\.lock: Not a directory; choose a "
     r"writable folder$"),
    (endpoint_at_a_taken_port, ResourceError,
     r"^metrics\.address 127\.0\.0\.1:\d+: Address already in use; choose a free port of this "
     r"host$"),
    (lambda _: group_number("no-such-group-here"), ConfigError,
     r"^daemon\.socket_group: there is no group 'no-such-group-here' on this host; create it or "
     r"choose another$"),
    (lambda _: host_and_port("localhost:99999"), ConfigError,
     r"^metrics\.address: expected host:port or a port, got 'localhost:99999'$"),
    (slab_in_room_that_shrinks, ResourceError, r"only 67112960 B may be used \(squeezed\)"),
    (slab_larger_than_a_file_may_be, ResourceError,
     r"^the kernel refused a slab of 2\.0 MiB: File too large; lower batch_size, prefetch or "),
    (slab_without_descriptors, ResourceError, "Too many open files"),
    (lambda _: socket_path("/run/s"), UsageError,
     "^address '/run/s': expected ipc:// and the absolute path of a socket, such as"),
    (lambda _: socket_path("ipc://*"), UsageError,
     r"^address 'ipc://\*': expected ipc:// and the absolute path"),
    (lambda _: socket_path("ipc:///" + "x" * (MAX_PATH_BYTES - 4) + "y"), UsageError,
     r"xy\.fd has a path of 108 bytes, but the system allows only 107"),
    (lambda _: socket_path("ipc:///run/"), UsageError,
     "^address 'ipc:///run/': expected ipc:// and the absolute path"),
    (lambda _: socket_path("ipc://run/s"), UsageError,
     "^address 'ipc://run/s': expected ipc:// and the absolute path"),
    (lambda _: socket_path("tcp://h:1"), UsageError,
     "^address 'tcp://h:1': expected ipc:///path, which every daemon has; to listen for"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:60] for *_, message in ERRORS]
)
def test_what_a_daemon_refuses(folder, make_config, call, error, message):
    with pytest.raises(error, match=message) as caught:
        call(SimpleNamespace(folder=folder, make_config=make_config))
    assert caught.type is error
