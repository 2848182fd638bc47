"""Addresses, modes, locks, stale sockets: one daemon an address, nothing in the way of the next."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from stoker.protocol.errors import ResourceError, UsageError
from stoker.server.daemon.daemon import Daemon
from stoker.server.daemon.socket_folder import (
    MAX_PATH_BYTES,
    SocketFolder,
    group_number,
    socket_path,
)

HOLDER = """
import socket, sys, time
from stoker.server.daemon.socket_folder import SocketFolder
place = SocketFolder(sys.argv[1], None)
sockets = [place.listen("", socket.SOCK_STREAM), place.listen(".fd", socket.SOCK_SEQPACKET)]
print("listening", flush=True)
time.sleep(1000)
"""


def test_the_path_of_an_address():
    assert socket_path("ipc:///run/stoker/s.sock") == "/run/stoker/s.sock"
    longest = "/" + "x" * (MAX_PATH_BYTES - 4)
    assert socket_path("ipc://" + longest) == longest


def test_modes_do_not_depend_on_the_umask(folder):
    before = os.umask(0)
    try:
        place = SocketFolder(f"ipc://{folder}/a/b/s.sock", None)
        with place.listen("", socket.SOCK_STREAM):
            os.umask(0o777)
            with place.listen(".fd", socket.SOCK_SEQPACKET):
                for name, mode in [("s.sock", 0o600), ("s.sock.fd", 0o600), ("s.sock.lock", 0o600)]:
                    assert os.stat(folder / "a/b" / name).st_mode & 0o777 == mode
                assert os.stat(folder / "a/b").st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
        place.close()
    assert os.listdir(folder / "a/b") == []


def test_the_second_daemon_on_an_address_is_told(daemon, make_config, connect):
    with pytest.raises(ResourceError) as caught:
        Daemon(make_config())
    assert caught.value.message == (
        f"address {daemon.address}: another daemon serves it; stop that one or choose another"
        " address"
    )
    connect().hello().attach().open()  # the first did not notice


def test_what_a_killed_daemon_left_is_replaced(folder, start, connect, make_config):
    address = make_config().daemon.address
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, address], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "listening\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert sorted(os.listdir(folder / "run")) == ["s.sock", "s.sock.fd", "s.sock.lock"]
    start()
    client = connect(address)
    client.hello().attach().open()


def test_a_file_in_the_way_is_left_alone(folder, make_config):
    (folder / "run").mkdir()
    (folder / "run" / "s.sock").write_text("precious")
    with pytest.raises(UsageError) as caught:
        Daemon(make_config())
    assert caught.value.message == (
        f"{folder}/run/s.sock exists and is not a socket; remove it or choose another address"
    )
    assert (folder / "run" / "s.sock").read_text() == "precious"
    assert os.listdir(folder / "run") == ["s.sock"]


def test_an_empty_lock_file_of_another_program_stays(folder, start, make_config):
    """Others may wait for it; if it were removed, two could hold it."""
    lock = folder / "run" / "s.sock.lock"
    lock.parent.mkdir()
    lock.touch()
    before = lock.stat().st_ino
    running = start()
    with pytest.raises(ResourceError, match="another daemon serves it"):
        Daemon(make_config())
    running.daemon.stop()
    assert running.join() == 0
    assert (lock.stat().st_ino, lock.read_bytes()) == (before, b"")


def test_the_lock_of_a_newer_daemon_stays(folder):
    first = SocketFolder(f"ipc://{folder}/s.sock", None)
    (folder / "s.sock.lock").unlink()  # a cleaning script runs
    second = SocketFolder(f"ipc://{folder}/s.sock", None)
    first.close()
    with pytest.raises(ResourceError, match="another daemon serves it"):
        SocketFolder(f"ipc://{folder}/s.sock", None)
    second.close()
    assert os.listdir(folder) == []


def test_another_programs_socket_is_left_alone(folder, make_config):
    (folder / "run").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(f"{folder}/run/s.sock")
        other.listen()
        with pytest.raises(ResourceError) as caught:
            Daemon(make_config())
    assert caught.value.message == (
        f"{folder}/run/s.sock: another program listens there; stop it or choose another address"
    )


def test_groups():
    assert group_number(None) is None
    assert group_number("17") == 17
    assert group_number("root") == 0


def test_a_lock_file_that_its_last_owner_removes_is_taken_anew(folder):
    address = f"ipc://{folder}/s.sock"
    first = SocketFolder(address, None)
    late = os.open(f"{folder}/s.sock.lock", os.O_RDWR)
    first.close()
    try:
        second = SocketFolder(
            address, None
        )  # the file under `late` is no longer the one at the path
        try:
            with pytest.raises(ResourceError, match="another daemon serves it"):
                SocketFolder(address, None)
        finally:
            second.close()
    finally:
        os.close(late)
    assert os.listdir(folder) == []
