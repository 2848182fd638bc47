"""Commands that ask a running daemon, as another local user: one line, a status, nothing left.

As root: each command runs in a process that has become that user. Its daemon is root's, in a
private folder, or in one of a group of that user.
"""

import os
import subprocess
from types import SimpleNamespace

import pytest
from daemons import Daemon
from warm import Script

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user"),
]
NOBODY = GROUP = 65534
FAILED, AWAY = 1, 75
AS_NOBODY = f"""
import os, sys
os.setgroups([])
os.setresgid({GROUP}, {GROUP}, {GROUP})
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
sys.argv[0] = "stoker"
from stoker.server.__main__ import main
main()
"""
REMEDIES = {"stacks": "; run the command as the daemon's user or as root\n"}
COMMANDS = {"status": (), "top": ("--once",), "stacks": (), "resize": ("--workers=1",)}
IMPORTS = ["stoker.client.daemon_status", "typer._adapters"] + [
    f"stoker.server.commands.{name}_command" for name in COMMANDS
]


def run(*words: object) -> SimpleNamespace:
    """Run a command as another user."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Script("-c", AS_NOBODY, *words, imports=IMPORTS, cwd="/", **pipes) as done:
        out, err = done.communicate(timeout=60)
    return SimpleNamespace(code=done.returncode, out=out, err=err)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Two daemons of root: one for its own user, one for a group."""
    folder = tmp_path_factory.mktemp("users")
    (folder / "served.tar").touch()
    for above in (folder, *folder.parents):
        if above.stat().st_uid == 0 and not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)  # so that only the daemon's folder refuses
    usual = (f"--dataset=photos={folder}/served.tar", "--workers=2", "--memory-limit=64MiB")
    private = Daemon(folder, *usual, socket="private/s.sock", warm=True)
    shared = Daemon(folder, *usual, f"--socket-group={GROUP}", socket="group/s.sock", warm=True)
    try:
        assert private.ready == {"address": private.address}, private.log.read_text()
        assert shared.ready == {"address": shared.address}, shared.log.read_text()
        yield SimpleNamespace(private=private, shared=shared, folder=folder)
        for daemon in (private, shared):
            assert daemon.stop() == 0, daemon.log.read_text()
            assert "Traceback" not in daemon.log.read_text()
    finally:
        private.close()
        shared.close()


def of_nobody(folder) -> list[str]:
    """Files of the other user below a folder."""
    return [str(path) for path in folder.rglob("*") if path.lstat().st_uid == NOBODY]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_private_folder_of_a_daemon_refuses_another_user(served, command):
    done = run(command, served.private.address, *COMMANDS[command])
    assert (done.code, done.out) == (AWAY, "")
    assert done.err.startswith(f"stoker: no daemon listens at {served.private.address}: Permission")
    assert REMEDIES.get(command, "lets a group use its sockets with socket_group\n") in done.err
    assert done.err.count("\n") == 1, done.err
    assert of_nobody(served.folder) == []


@pytest.mark.parametrize("command", ["status", "top"])
def test_a_member_of_the_group_may_look(served, command):
    done = run(command, served.shared.address, *COMMANDS[command])
    assert (done.code, done.err) == (0, "")
    assert f"pid={served.shared.pid}" in done.out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("resize", "only the daemon's own user, or root, on its host may change the number of wo"),
        (
            "stacks",
            "belongs to another user, who alone may see its stacks: run the command as that",
        ),
    ],
)
def test_a_member_of_the_group_may_not_change_or_look_inside(served, command, message):
    done = run(command, served.shared.address, *COMMANDS[command])
    assert (done.code, done.out) == (FAILED, "")
    assert message in done.err
    assert done.err.count("\n") == 1, done.err
    assert of_nobody(served.folder) == []
