"""The daemon process of one node, started and ended by its actor.

It listens at `ipc://` in a runtime folder of its own, for loaders of the node, and at `tcp://` for
the others. Folders of daemons that were killed are removed when the next one starts. The keys are
in memory files that the daemon inherits. Its log goes where the actor's output goes: into the
files of Ray.
"""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence

from stoker.client.private.private_daemon import GRACE_S, end, folders_of_modules, read_line
from stoker.client.private.runtime_folder import RuntimeFolder
from stoker.protocol.errors import ConnectError, from_record
from stoker.protocol.importing import without_working_folder
from stoker.protocol.remote.tcp import TcpAddress
from stoker.ray.key_files import ServeKeys, clients_file, path_of, secret_file

_SOCKET = "stoker.sock"


class NodeDaemon:
    """A daemon that serves.

    Attributes:
        pid: its process id.
        local: its `ipc://` address.
        remote: its `tcp://` address.
    """

    def __init__(
        self, at: TcpAddress, flags: Sequence[str], keys: ServeKeys | None, start_s: float
    ) -> None:
        """Start it, and wait until it listens.

        Args:
            at: where it listens for other nodes; port 0 lets the system choose.
            flags: more flags of `stoker serve`.
            keys: of daemons and loaders; None: it listens without keys.
            start_s: how long it may take.

        Raises:
            StokerError: it cannot start; it sent the error.
            ConnectError: it ended without one, or took too long.
        """
        deadline = time.monotonic() + start_s
        self._folder = RuntimeFolder(os.urandom(8).hex())
        with self._folder.locked(deadline):
            self._folder.join()
        self.local = f"ipc://{os.path.join(self._folder.path, _SOCKET)}"
        self._leave = weakref.finalize(self, _remove, self._folder)
        self._leave.atexit = False  # Ray's workers end without finalizers
        atexit.register(self._leave)
        try:
            with contextlib.ExitStack() as stack:
                self._process, reader = self._begin(at, flags, keys, stack)
                self.remote = _ready(self._process, reader, deadline, start_s)
        except BaseException:
            self.remove_folder()
            raise
        self.pid = self._process.pid

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()

    def close(self) -> None:
        """End it: drain, or kill it after the grace period."""
        self._process.terminate()
        end(self._process, time.monotonic() + GRACE_S)
        self.remove_folder()

    def remove_folder(self) -> None:
        """Remove what a daemon that has ended leaves."""
        self._leave()

    def _begin(
        self,
        at: TcpAddress,
        flags: Sequence[str],
        keys: ServeKeys | None,
        stack: contextlib.ExitStack,
    ) -> tuple["subprocess.Popen[bytes]", int]:
        """Start the process; return it, and the descriptor of its ready line."""
        reader, writer = os.pipe()
        stack.callback(os.close, reader)
        with contextlib.ExitStack() as theirs:
            theirs.callback(os.close, writer)
            passed = [writer]
            command = [sys.executable, "-P", "-m", "stoker.ray.child", str(os.getpid()), "serve"]
            command += [*flags, f"--address={self.local}", f"--tcp={at}", f"--ready-fd={writer}"]
            command += [f"--python-path={folder}" for folder in folders_of_modules()]
            if keys is None:
                command.append("--insecure")
            else:
                files = secret_file(keys.daemons), clients_file(keys.loaders)
                for file in files:
                    theirs.callback(os.close, file)
                passed += files
                command += [f"--key={path_of(files[0])}", f"--clients={path_of(files[1])}"]
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                env=without_working_folder(os.environ),
                start_new_session=True,
            )
        return process, reader


def _ready(process: "subprocess.Popen[bytes]", reader: int, deadline: float, start_s: float) -> str:
    """Return the `tcp://` address of a daemon once it listens.

    Raises:
        StokerError: it does not; it has ended then.
    """
    try:
        line = read_line(reader, deadline)
    except BaseException:
        end(process, time.monotonic())
        raise
    if line is None:
        end(process, time.monotonic())
        raise ConnectError(f"the daemon was not ready in {start_s:g} s")
    try:
        answer = json.loads(line)
    except ValueError:
        end(process, time.monotonic() + GRACE_S)
        raise ConnectError(
            f"the daemon ended with exit code {process.returncode} before it was ready; the node"
            " needs Stoker's extras `server` and `ray` (pip install 'stoker[ray,server]'); Ray's"
            " log of this actor has what it printed"
        ) from None
    if "error" in answer:
        end(process, time.monotonic() + GRACE_S)
        raise from_record(*answer["error"])
    return str(answer["tcp"])


def _remove(folder: RuntimeFolder) -> None:
    with folder.left(time.monotonic() + GRACE_S):
        pass
