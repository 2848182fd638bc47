"""Daemons and scripts forked from warm processes (`zygote.py`), which cost a fifth of new ones.

`start` and `private_subprocess` fork where nothing depends on how a daemon was started, and execute
otherwise: with another `PYTHON...` variable or another limit on open files than the zygote has. A
zygote starts when it is first needed and lives as long as this process. Daemons with the session's
kernel cache have a zygote that keeps its kernels loaded; others have one without any. `Script`
takes the place of `subprocess.Popen` for trainings. With `daemons=True` it holds the control socket
of a zygote of this process, and private daemons of its loaders are forked from that one.
"""

import atexit
import contextlib
import importlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from zygote import DAEMONS, KERNELS, SCRIPTS

from stoker.protocol.descriptors import await_readable
from stoker.protocol.importing import without_working_folder
from stoker.server.daemon.launch import PINNED, Launched
from stoker.server.daemon.launch import launch as launched_by_daemons

PATIENCE_S = 300.0
SERVE = ("-m", "stoker.server")
_BEFORE_TESTS = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
"""What a zygote searches, whichever test needs it first: a test may have folders of its own."""


class Forked:
    """A daemon that the zygote has forked; like `subprocess.Popen` as far as tests use that."""

    def __init__(self, args: Sequence[str], status: socket.socket) -> None:
        self.args = args
        self.returncode: int | None = None
        self._status = status
        assert await_readable(status, PATIENCE_S), "the zygote does not answer"
        self.pid: int = json.loads(status.recv(64))

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return the exit code."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended, and the zygote tells soon
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and await_readable(self._status, timeout):
            data = self._status.recv(64)
            assert data, "the zygote is gone"
            self.returncode = json.loads(data)
            self._status.close()
        return self.returncode

    def __del__(self) -> None:
        self._status.close()


class Forks:
    """The switch that allows forking daemons, and the daemons that were forked.

    Attributes:
        allowed: False in tests that start Stoker as a user does (`starts`).
    """

    def __init__(self) -> None:
        self.allowed = True
        self._made: weakref.WeakSet[Forked] = weakref.WeakSet()

    def add(self, daemon: Forked) -> Forked:
        """Remember a daemon."""
        self._made.add(daemon)
        return daemon

    def running(self) -> list[int]:
        """Return the process ids of forked daemons that have not ended."""
        return sorted(daemon.pid for daemon in self._made if daemon.poll() is None)


forks = Forks()


class Zygote:
    """The warm process.

    Attributes:
        pid: its process id.
        control: the socket to it.
        state: what its forks cannot change; see `_state`.
        cache: folder of the caches of all its daemons; None if it serves any.
    """

    def __init__(self, kind: str) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
        environment = dict(os.environ)
        environment.pop("PYTHONPATH", None)
        environment |= _BEFORE_TESTS
        self.state = _state(environment)
        self.cache: str | None = None
        script = str(Path(__file__).with_name("zygote.py"))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", script, str(theirs.fileno()), kind],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment | ({} if kind == SCRIPTS else PINNED),
            )
        self.pid = self._process.pid
        atexit.register(self.close)

    def fork(
        self,
        command: Sequence[str],
        descriptors: Mapping[int, int],
        environment: Mapping[str, str],
        *,
        session: bool,
    ) -> Forked:
        """Fork a daemon.

        Args:
            command: what would be executed, with `-m stoker.server`.
            descriptors: number in the daemon -> descriptor here.
            environment: the daemon's.
            session: whether it leads a session of its own.
        """
        place = command.index("stoker.server")
        request = {
            "arguments": command[place + 1 :],
            "searches_folder": "-P" not in command[:place],
            "environment": dict(environment),
            "folder": os.getcwd(),
            "session": session,
        }
        return forks.add(Forked(command, self.send(request, descriptors)))

    def send(self, request: dict[str, Any], descriptors: Mapping[int, int]) -> socket.socket:
        """Send a request; return the socket that says the child's number and its exit code."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        message = json.dumps({**request, "descriptors": list(descriptors)})
        with theirs:
            sent = [theirs.fileno(), *descriptors.values()]
            socket.send_fds(self.control, [message.encode()], sent)
        return ours

    def close(self) -> None:
        """End it, once; daemons that still run lose nothing but their parent."""
        self.control.close()
        deadline = time.monotonic() + PATIENCE_S
        self._process.wait(deadline - time.monotonic())
        atexit.unregister(self.close)


class Given(Zygote):
    """The zygote of the process that made this script."""

    def __init__(self, descriptor: int, state: list, cache: str) -> None:
        os.set_inheritable(descriptor, False)
        self.control = socket.socket(fileno=descriptor)
        self.state, self.cache = state, cache


def take_over(descriptor: int, state: list, cache: str) -> None:
    """Fork the private daemons of this script's loaders from a zygote that its maker has.

    Args:
        descriptor: the control socket.
        state: of the zygote.
        cache: folder of the caches of the script; daemons with another one are executed.
    """
    _given.append(Given(descriptor, state, cache))
    importlib.import_module("stoker.client.private.private_daemon").subprocess = PrivateSubprocess


_given: list[Zygote] = []
"""In a script with `daemons=True`: the zygote of daemons that it uses, and its forks too."""

_zygotes: dict[tuple[int, str], Zygote] = {}
"""Process id, kind -> the zygote; a forked process makes its own."""

_session: dict[str, str] = {}
"""CACHE -> its value in the tests of the session."""

CACHE = "XDG_CACHE_HOME"


def share_kernels(cache_home: str) -> None:
    """Keep the kernels of this cache loaded for the daemons that use it."""
    _session[CACHE] = cache_home


def running() -> list[Zygote]:
    """Return this process's zygotes that have started."""
    return [found for (pid, _), found in _zygotes.items() if pid == os.getpid()]


def zygote(environment: Mapping[str, str]) -> Zygote:
    """Return this process's zygote for daemons with an environment; start it if necessary."""
    if _given:
        return _given[0]
    keeps_kernels = CACHE in _session and environment.get(CACHE) == _session[CACHE]
    return _zygote(KERNELS if keeps_kernels else DAEMONS)


def _zygote(kind: str) -> Zygote:
    key = os.getpid(), kind
    if key not in _zygotes:
        _zygotes[key] = Zygote(kind)
    return _zygotes[key]


def close() -> None:
    """End this process's zygotes that have started."""
    for found in running():
        found.close()
    _zygotes.clear()


def start(command: Sequence[str], descriptors: Mapping[int, int]) -> Forked | None:
    """Fork a daemon with this process's environment; None if one must be executed."""
    if not forks.allowed or not _fits(found := zygote(os.environ), os.environ):
        return None
    return found.fork(command, descriptors, os.environ, session=False)


def launch(cache_root: str, python_path: Sequence[str]) -> Launched:
    """Launch a template for a supervisor of this process; see `launch` of the daemon."""
    environment = {**without_working_folder(os.environ), **PINNED}
    if not forks.allowed or _state(environment) != (found := zygote(environment)).state:
        return launched_by_daemons(cache_root, python_path)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, open(os.devnull, "rb") as nothing:
        number = theirs.fileno()
        request = {
            "arguments": [str(number), str(found.pid), cache_root, *python_path],
            "environment": environment,
            "folder": os.getcwd(),
            "session": False,
            "template": True,
        }
        status = found.send(request, {0: nothing.fileno(), 1: 1, 2: 2, number: number})
        process = Forked(request["arguments"], status)
    ours.setblocking(False)
    return Launched(cast("subprocess.Popen[bytes]", process), ours)


class PrivateSubprocess:
    """Takes the place of `subprocess` where a Loader starts a private daemon."""

    DEVNULL = subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired

    @staticmethod
    def Popen(command: Sequence[str], **options: Any) -> Any:
        """Start it, as `subprocess.Popen` does."""
        usual = command[0] == sys.executable and tuple(command[2:4]) == SERVE
        may = usual and forks.allowed
        if not may or not _fits(found := zygote(options["env"]), options["env"]):
            return subprocess.Popen(command, **options)
        with open(os.devnull, "rb") as nothing:
            given = {0: nothing, 1: options["stdout"], 2: options["stderr"]}
            descriptors = {number: file.fileno() for number, file in given.items()}
            descriptors |= {number: number for number in options["pass_fds"]}
            return found.fork(command, descriptors, options["env"], session=True)


class Script(subprocess.Popen):
    """A script in a process of its own: `Script("-c", code, *arguments)`, or with a file first.

    It takes these arguments of `subprocess.Popen`, and two others. `imports`: modules that take
    long, which are imported once for all scripts that name them. `daemons`: whether the private
    daemons of its loaders are forked too, not executed.
    """

    def __init__(
        self,
        *words: object,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = True,
        env: Mapping[str, str] | None = None,
        cwd: object = None,
        imports: Sequence[str] = (),
        daemons: bool = False,
    ) -> None:
        self.args = [str(word) for word in words]
        self.stdin = self.stdout = self.stderr = None
        self.returncode: int | None = None
        self._communication_started = self._child_created = False
        self._input = None
        self.text_mode, self.encoding, self.errors = text, None, None
        streams = zip(("stdin", "stdout", "stderr"), (stdin, stdout, stderr), strict=True)
        with contextlib.ExitStack() as theirs:
            given = {
                number: self._given(name, number, chosen, theirs)
                for number, (name, chosen) in enumerate(streams)
            }
            request = {
                "arguments": self.args,
                "environment": (environment := dict(os.environ if env is None else env)),
                "folder": os.fspath(cwd or os.getcwd()),
                "session": False,
                "imports": list(imports),
            }
            if daemons and forks.allowed:
                request["daemons"] = _handed_over(zygote(environment), environment, given)
            self._forked = Forked(self.args, _zygote(SCRIPTS).send(request, given))
        self.pid = self._forked.pid

    def _given(self, name: str, number: int, chosen: Any, theirs: contextlib.ExitStack) -> int:
        """Return the descriptor that becomes one of the three of the script."""
        if chosen is None:
            return number
        if chosen != subprocess.PIPE:
            return chosen if isinstance(chosen, int) else chosen.fileno()
        ends = os.pipe()
        ours, other = ends if number else reversed(ends)
        theirs.callback(os.close, other)
        mode = "r" if number else "w"
        setattr(self, name, os.fdopen(ours, mode if self.text_mode else f"{mode}b"))
        return other

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        self.returncode = self._forked.poll()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self.returncode = self._forked.wait(timeout)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal if it still runs."""
        self._forked.send_signal(sig)


def _handed_over(
    found: Zygote, environment: Mapping[str, str], given: dict[int, int]
) -> dict[str, Any]:
    """Add a zygote's socket to the descriptors of a script; return the arguments of `take_over`."""
    number = 1 + max(given)
    given[number] = found.control.fileno()
    return {"descriptor": number, "state": found.state, "cache": environment.get(CACHE, "")}


def _fits(found: Zygote, environment: Mapping[str, str]) -> bool:
    """Return whether a zygote can fork a daemon with an environment."""
    same_cache = found.cache in (None, environment.get(CACHE, ""))
    return same_cache and _state(environment) == found.state


def _state(environment: Mapping[str, str]) -> list:
    """State that a process keeps from its start and a fork cannot change; goes through JSON."""
    names = sorted(name for name in environment if name.startswith("PYTHON"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [*limits, os.geteuid(), [[name, environment[name]] for name in names]]
