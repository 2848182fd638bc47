"""Other users of the host, for tests of what they can and cannot do: as root, through `setpriv`."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FIRST = 20_000 + os.getpid() * 3 % 30_000
VICTIM, ATTACKER, GROUP = _FIRST, _FIRST + 1, _FIRST + 2
"""Other numbers in each run, because some folders in /tmp are named by the user."""


@functools.cache
def why_none() -> str:
    """Return why no process of another user can be started; empty if it can."""
    if os.geteuid() != 0:
        return "needs root, to start processes of two users"
    if shutil.which("setpriv") is None:
        return "needs setpriv"
    command = [*as_user(VICTIM), sys.executable, "-c", "import stoker.jit"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1:]
    return f"another user cannot run this Python: {last}" if done.returncode else ""


def as_user(uid: int, gid: int | None = None) -> list[str]:
    """Return the command that runs another one as a user, in one group only."""
    return ["setpriv", f"--reuid={uid}", f"--regid={gid or uid}", "--clear-groups"]


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Make a folder that all users can enter, with a `tmp` in it that they all may write to."""
    with tempfile.TemporaryDirectory(prefix="users-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        yield folder
