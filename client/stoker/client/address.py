"""The daemon's address, or the path of a dataset for a private daemon.

`ipc:///dir/stoker.sock` is the ZeroMQ endpoint. Its side socket is at the same path + `.fd`. Both
sides know this rule, so neither ever sends a path to the other.
"""

import os

from stoker.protocol.datasets import is_live, is_pattern, may_exist, why_unreadable
from stoker.protocol.errors import DatasetError, UsageError
from stoker.protocol.files.absent import why_absent
from stoker.protocol.remote.tcp import SCHEME, tcp_address

SIDE_SUFFIX = ".fd"
MAX_PATH_BYTES = 107  # sockaddr_un.sun_path without its terminating zero
_IPC = "ipc://"


def is_address(address_or_path: str | os.PathLike[str]) -> bool:
    """Return whether it is an address (`scheme://...`), and not the path of a dataset."""
    return isinstance(address_or_path, str) and "://" in address_or_path


def check_address(address: str) -> str:
    """Check an address and return it.

    Raises:
        UsageError: it is not `ipc://` and an absolute path short enough for a Unix socket, nor
            `tcp://` with a host and a port.
    """
    if address.startswith(SCHEME):
        tcp_address(address)
        return address
    path = address.removeprefix(_IPC)
    if path == address:
        raise UsageError(
            f"address {address!r}: expected ipc:///absolute/path, tcp://HOST:PORT of a daemon "
            "on another host, or the path of a packed dataset"
        )
    if not os.path.isabs(path):
        raise UsageError(
            f"address {address!r}: expected an absolute path after ipc://, as in "
            "ipc:///run/stoker/stoker.sock"
        )
    if (size := len(os.fsencode(path + SIDE_SUFFIX))) > MAX_PATH_BYTES:
        raise UsageError(
            f"address {address!r}: with {SIDE_SUFFIX!r} the path has {size} bytes, but a Unix "
            f"socket takes at most {MAX_PATH_BYTES}; choose a shorter directory"
        )
    return address


def socket_path(address: str) -> str:
    """Return the path of the ZeroMQ socket of an `ipc://` address."""
    return address.removeprefix(_IPC)


def side_path(address: str) -> str:
    """Return the path of the side socket that belongs to an `ipc://` address."""
    return address.removeprefix(_IPC) + SIDE_SUFFIX


def check_dataset(path: str | os.PathLike[str]) -> str:
    """Return a dataset's name for a private daemon: an absolute path or pattern.

    The `module:Class` of a live source stays as it is.

    Raises:
        DatasetError: nothing has that name, or it is not a dataset.
    """
    name = os.fspath(path)
    if not may_exist(name):
        raise DatasetError(
            f"there is no dataset at {name!r}; expected a folder made by `stoker pack`, tar or "
            "Arrow files to read in place, `module:Class`, or the address of a daemon "
            f"(ipc:///...){why_absent(name)}",
            path=name,
        )
    if is_live(name):
        return name
    if reason := why_unreadable(name):
        raise DatasetError(reason, path=name)
    return os.path.abspath(name) if is_pattern(name) else os.path.realpath(name)
