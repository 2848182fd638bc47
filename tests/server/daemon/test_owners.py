"""Sockets and folders of other users are refused; closing removes what was bound, and no more."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from commands import call
from users import ATTACKER, VICTIM, as_user, shared_folder, why_none

from stoker.client import Connection, Loader
from stoker.client.client_session import ClientSession
from stoker.client.peer_credentials import TRUSTED, check_listener
from stoker.protocol.errors import ConfigError, ConnectError
from stoker.server.daemon.socket_folder import SocketFolder, make_folder, open_to_others

two_users = pytest.mark.skipif(bool(why_none()), reason=why_none() or "two users")
LISTENER = """
import os, signal, socket, sys
kinds = {"": socket.SOCK_STREAM, ".fd": socket.SOCK_SEQPACKET}
kept = []
for suffix in sys.argv[2:]:
    sock = socket.socket(socket.AF_UNIX, kinds[suffix])
    sock.bind(sys.argv[1] + suffix)
    os.chmod(sys.argv[1] + suffix, 0o666)
    sock.listen()
    kept.append(sock)
print("listening", flush=True)
signal.pause()
"""


@contextlib.contextmanager
def listening(path, *suffixes, user=ATTACKER):
    command = [*as_user(user), sys.executable, "-c", LISTENER, str(path), *suffixes]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"listening\n"
        try:
            yield
        finally:
            process.kill()


@two_users
@pytest.mark.parametrize("suffixes", [["", ".fd"], [""], [".fd"]])
def test_a_client_refuses_a_socket_of_another_user(suffixes, monkeypatch):
    own = [suffix for suffix in ("", ".fd") if suffix not in suffixes]
    with shared_folder() as base:
        path = base / "tmp" / "s.sock"
        with listening(path, *suffixes), listening(path, *own, user=0):
            with pytest.raises(ConnectError) as caught:
                ClientSession(f"ipc://{path}", 0.3)
            assert caught.value.message.startswith(
                f"the process that listens at ipc://{path} is of user {ATTACKER}; expected user 0"
            )
            assert f"set {TRUSTED}={ATTACKER} in the environment" in caught.value.message
            monkeypatch.setenv(TRUSTED, str(ATTACKER))
            with pytest.raises(ConnectError, match=r"did not answer within 0\.3 s"):
                ClientSession(f"ipc://{path}", 0.3)


@two_users
@pytest.mark.as_a_user
def test_a_loader_refuses_a_socket_of_another_user():
    with shared_folder() as base:
        path = base / "tmp" / "s.sock"
        limits = Connection(connect_timeout_s=0.3)
        options = {"pipeline": "any", "batch_size": 1, "connection": limits}
        with listening(path, "", ".fd"), pytest.raises(ConnectError) as caught:
            Loader(f"ipc://{path}", **options)
    assert f"is of user {ATTACKER}; expected user 0" in caught.value.message


def test_the_users_own_sockets_pass(folder):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(folder / "s"))
        sock.listen()
        check_listener(str(folder / "s"), "ipc://s", 0.0)
    check_listener(str(folder / "none"), "ipc://none", 0.0)
    (folder / "f").touch()
    with pytest.raises(ConnectError, match="no daemon listens at ipc://f: Not a directory"):
        check_listener(str(folder / "f" / "s"), "ipc://f", 0.0)


@two_users
def test_the_trusted_user_is_a_name_or_a_number(monkeypatch):
    with shared_folder() as base:
        path = base / "tmp" / "s.sock"
        with listening(path, ""):
            monkeypatch.setenv(TRUSTED, "no-such-user")
            with pytest.raises(ConfigError, match="STOKER_TRUSTED_USER: there is no user 'no-suc"):
                check_listener(str(path), "ipc://x", 0.0)
            monkeypatch.setenv(TRUSTED, "root")
            with pytest.raises(ConnectError, match=f"is of user {ATTACKER}"):
                check_listener(str(path), "ipc://x", 0.0)


@two_users
@pytest.mark.as_a_user
@pytest.mark.parametrize("made", ["folder", "link"])
def test_a_daemon_refuses_a_default_folder_of_another_user(made, tmp_path):
    (tmp_path / "served.tar").touch()
    place = Path(f"/tmp/stoker-{VICTIM}")
    if place.exists() or place.is_symlink():
        pytest.skip(f"{place} exists")
    with shared_folder() as base:
        shutil.copy(tmp_path / "served.tar", base)
        make = f"mkdir -m 777 {place}" if made == "folder" else f"ln -s {base}/tmp {place}"
        subprocess.run([*as_user(ATTACKER), "sh", "-c", make], check=True)
        try:
            done = subprocess.run(
                [*as_user(VICTIM), sys.executable, "-P", "-m", "stoker.server", "serve",
                 f"--dataset=photos={base}/served.tar"],
                env={"PATH": os.environ["PATH"], "HOME": "/none", "TMPDIR": str(base / "tmp")},
                capture_output=True, text=True, timeout=60, check=False, cwd="/",
            )  # fmt: skip
            assert done.returncode != 0
            assert f"default folder of the daemon's socket, {place}: expected" in done.stderr
            assert f"got owner {ATTACKER}, mode " in done.stderr
            assert list(place.iterdir()) == []
        finally:
            place.unlink() if place.is_symlink() else shutil.rmtree(place)


@pytest.mark.parametrize(
    ("above", "mode", "at"),
    [
        (0o700, 0o770, "run/stoker"),
        (0o700, 0o702, "run/stoker"),
        (0o700, 0o777, "run/stoker"),
        (0o777, 0o700, "run"),
        (0o700, None, "run/stoker"),
    ],
)
def test_a_default_folder_that_others_can_write_is_refused(folder, above, mode, at):
    run = folder / "run"
    (run / "stoker").mkdir(parents=True)
    if mode is None:
        (run / "stoker").rename(run / "elsewhere")
        (run / "stoker").symlink_to("elsewhere")
    else:
        (run / "stoker").chmod(mode)
    run.chmod(above)
    (folder / "served.tar").touch()
    code, _, error = call("serve", f"--dataset=d={folder}/served.tar", XDG_RUNTIME_DIR=str(run))
    assert code == 2
    assert f"the default folder of the daemon's socket, {folder}/{at}: expected a folder" in error
    assert "that others cannot write" in error
    assert "remove it, or choose another place with --address" in error


def test_a_default_folder_that_others_cannot_write(folder):
    make_folder(f"{folder}/run", None, default=True)
    (folder / "run").chmod(0o750)
    make_folder(f"{folder}/run", None, default=True)
    (folder / "run").chmod(0o1777)
    make_folder(f"{folder}/run/stoker", None, default=True)


@pytest.mark.parametrize(
    ("mode", "is_open"), [(0o700, False), (0o755, False), (0o1777, False), (0o777, True)]
)
def test_a_configured_folder_where_others_can_swap_the_socket_is_noticed(folder, mode, is_open):
    (folder / "run").mkdir()
    (folder / "run").chmod(mode)
    why = open_to_others(f"{folder}/run")
    assert why == (f"owner {os.geteuid()}, mode drwxrwxrwx" if is_open else None)


@pytest.fixture
def place(folder):
    made = SocketFolder(f"ipc://{folder}/s.sock", None)
    made.listen("", socket.SOCK_STREAM).close()
    made.listen(".fd", socket.SOCK_SEQPACKET).close()
    return made


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("hidden", [False, True])
def test_closing_removes_what_was_bound(place, folder, hidden):
    if hidden:
        place.hide()
        assert "s.sock.off" in names(folder)
    place.close()
    assert names(folder) == []


@pytest.mark.parametrize("hidden", [False, True])
def test_closing_leaves_what_replaced_it(place, folder, hidden):
    if hidden:
        place.hide()
    for name in ("s.sock", "s.sock.fd", "s.sock.lock"):
        (folder / "new").write_text(json.dumps(name))
        os.replace(folder / "new", folder / name)
    place.show()
    place.hide()
    place.close()
    assert names(folder) == ["s.sock", "s.sock.fd", "s.sock.lock"]
    assert json.loads((folder / "s.sock").read_text()) == "s.sock"


def test_a_file_with_the_name_of_the_hidden_socket_is_left_alone():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "s.sock.off").write_text("dear")
        SocketFolder(f"ipc://{folder}/s.sock", None).close()
        assert (folder / "s.sock.off").read_text() == "dear"


@two_users
@pytest.mark.as_a_user
@pytest.mark.parametrize(
    ("owner", "mode", "taken"),
    [
        (0, 0o440, True), (0, 0o640, True), (VICTIM, 0o400, True),
        (0, 0o660, False), (0, 0o444, False), (VICTIM, 0o440, False), (ATTACKER, 0o440, False),
    ],
    ids=["root-440", "root-640", "own-400", "root-660", "root-444", "own-440", "other-440"],
)  # fmt: skip
def test_a_daemon_takes_a_key_that_root_gave_to_its_group(owner, mode, taken):
    with shared_folder() as base:
        call("keygen", base / "d.key")
        shutil.copy(base / "d.key.pub", base / "clients")
        os.chown(base / "d.key", owner, VICTIM)
        os.chmod(base / "d.key", mode)
        done = subprocess.run(
            [*as_user(VICTIM), sys.executable, "-P", "-m", "stoker.server", "serve",
             f"--address=ipc://{base}/tmp/s.sock", "--tcp=tcp://127.0.0.1:0",
             f"--key={base}/d.key", f"--clients={base}/clients", "--dataset=photos=/missing"],
            env={"PATH": os.environ["PATH"], "HOME": "/none", "TMPDIR": str(base / "tmp")},
            capture_output=True, text=True, timeout=60, check=False, cwd="/",
        )  # fmt: skip
    after_the_key = "/missing" in done.stderr
    refused = f"{base}/d.key: expected a file of user {VICTIM} or root" in done.stderr
    assert (after_the_key, refused) == ((True, False) if taken else (False, True)), done.stderr
