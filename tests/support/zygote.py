"""A warm process from which tests fork daemons or scripts: `python zygote.py CONTROL KIND`.

A new daemon imports for a second and a half of processor time, its template included; most tests
only need one that serves. This process has imported what both import, holds no socket of ZeroMQ and
has one thread. For each request it forks a child, which takes over the request's environment,
folder, descriptors and arguments, and runs `stoker.server` as `python -m` does. The first act of
that child is to fork its template, which waits until the daemon launches it. So parents, signals,
sessions, exit codes and logs are those of a real daemon. If it keeps kernels, it loads what the
kernel cache has before it forks, so that not every template does. Differences: the daemon has numba
loaded, `/proc/PID/cmdline` names this file, and hashes of text are the same in all daemons of a
zygote. Tests of those, and of starting itself, execute a real one.

A zygote of scripts has imported what trainings import, ZeroMQ included, and what earlier requests
wanted, such as PyTorch. It runs a script as `python -c` or `python FILE` do. With `daemons` in its
request, the script forks daemons of its own from another zygote (`warm.take_over`).

Messages on the control socket are JSON with descriptors; see `warm.Zygote`.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterable

MESSAGE_BYTES = 2**20
MOST_DESCRIPTORS = 16
ABOVE = 512
"""Descriptors of a request wait above this number until their own are free."""

IMPORTED = (
    "stoker.server.commands.serve_command",
    "stoker.server.state.core",
    *(
        f"stoker.server.daemon.{name}"
        for name in (
            "core_settings", "poller", "processes", "quarantine", "reserver", "sidesocket",
            "snapshot", "stop_signals",
        )
    ),
    "typer",
    "typer._adapters",  # typer imports it, and pydantic with it, when it reads the first option
)  # fmt: skip
"""Modules that a daemon imports, without those that import ZeroMQ."""
IMPORTED_BY_SCRIPTS = ("stoker.client", "stoker.pipeline", "stoker.protocol.digest")
DAEMONS, KERNELS, SCRIPTS = "daemons", "kernels", "scripts"
"""Kinds of zygotes: of daemons, of those whose kernels it keeps, of scripts."""


def warm() -> None:
    """Import what a daemon and its template import; ZeroMQ must not be in a template."""
    for name in IMPORTED:
        importlib.import_module(name)
    from stoker.jit.compiler_tables import fill_tables  # noqa: PLC0415
    from stoker.server.workers import recent_kernels, template  # noqa: PLC0415

    preload, recent_kernels.preload = (
        recent_kernels.preload,
        lambda: None,
    )  # what it loads depends on the cache
    try:
        template._load()
    finally:
        recent_kernels.preload = preload
    fill_tables()  # children that compile do it otherwise
    gc.collect()
    gc.freeze()


def load_kernels() -> None:
    """Load what the template would load of the kernel cache of this process's environment."""
    import stoker.jit  # noqa: PLC0415
    from stoker.server.workers import recent_kernels  # noqa: PLC0415

    stoker.jit.set_cache_root(os.path.join(os.environ["XDG_CACHE_HOME"], "stoker", "kernels"))
    recent_kernels.preload()
    gc.freeze()


def import_once(names: Iterable[str]) -> None:
    """Import what scripts import, unless that was done."""
    missing = [name for name in names if name not in sys.modules]
    for name in missing:
        importlib.import_module(name)
    if "numba" in missing:  # it fills its tables at the first use of machine code
        target = importlib.import_module("numba.core.registry").cpu_target
        target.typing_context.refresh()
        target.target_context.refresh()
    if missing:
        gc.collect()
        gc.freeze()


def main(control: socket.socket, kind: str) -> Callable[[], None] | None:
    """Serve requests; return what a child does, in the child."""
    running: dict[int, tuple[int, socket.socket]] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd in running:
                pid, status = running.pop(fd)
                poll.unregister(fd)
                os.close(fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with status, contextlib.suppress(OSError):  # the waiting end may be closed
                    status.send(json.dumps(code).encode())
                continue
            data, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, MOST_DESCRIPTORS)
            if not data:
                return None
            request = json.loads(data)
            status = socket.socket(fileno=descriptors.pop(0))
            if kind == KERNELS:
                load_kernels()
            import_once(request.get("imports", ()))
            act = run_script if kind == SCRIPTS else run
            if request.get("template"):
                act = run_template
            pid = os.fork()
            if not pid:
                return lambda: act(request, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            pidfd = os.pidfd_open(pid)
            running[pidfd] = pid, status
            poll.register(pidfd, select.POLLIN)
            status.send(json.dumps(pid).encode())


def run(request: dict, descriptors: list[int]) -> None:
    """Become the daemon of a request."""
    enter(request, descriptors)
    if request["searches_folder"]:
        sys.path.insert(0, request["folder"])
    sys.argv = ["stoker", *request["arguments"]]
    launch = sys.modules["stoker.server.daemon.launch"]
    launch.subprocess = Templates()
    end_with(lambda: runpy.run_module("stoker.server", run_name="__main__", alter_sys=True))


def run_template(request: dict, descriptors: list[int]) -> None:
    """Become the template of a supervisor that has no daemon."""
    enter(request, descriptors)
    end_with(lambda: sys.modules["stoker.server.workers.template"].main(request["arguments"]))


def run_script(request: dict, descriptors: list[int]) -> None:
    """Become the script of a request: `-c` with code, or a file, after `-W error` if it is so."""
    enter(request, descriptors)
    if "daemons" in request:
        import_neighbor("warm").take_over(**request["daemons"])
    name, *arguments = request["arguments"]
    if name == "-W":
        warnings.simplefilter(arguments.pop(0))
        name = arguments.pop(0)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    code = arguments.pop(0) if name == "-c" else ""
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = ["" if code else os.path.dirname(name), *folders]
    sys.argv = [name, *arguments]
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    if code:
        end_with(lambda: exec(compile(code, "<string>", "exec"), module.__dict__))
    end_with(lambda: runpy.run_path(name, run_name="__main__"))


def import_neighbor(name: str) -> types.ModuleType:
    """Import a module of this folder, which scripts do not search."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        return importlib.import_module(name)
    finally:
        del sys.path[0]


def enter(request: dict, descriptors: list[int]) -> None:
    """Take over descriptors, folder and environment of a request."""
    if request["session"]:
        os.setsid()
    take_descriptors(descriptors, request["descriptors"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # an import may have chosen one by the environment of the zygote


def end_with(act: Callable[[], object]) -> None:
    """Do something and end this process, as the interpreter ends with a program."""
    code = 0
    try:
        act()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code or 0)  # to take all modules apart would cost more than the fork


def take_descriptors(given: list[int], wanted: list[int]) -> None:
    """Give descriptors the numbers that they shall have, and close all others."""
    above = [fcntl.fcntl(fd, fcntl.F_DUPFD, ABOVE) for fd in given]
    os.closerange(0, ABOVE)
    for fd, number in zip(above, wanted, strict=True):
        os.dup2(fd, number)
    os.closerange(ABOVE, ABOVE + 2 * MOST_DESCRIPTORS)


class Templates:
    """Takes the place of `subprocess` where a daemon launches its template.

    The first template is a child that was forked here, before the daemon had threads or sockets;
    later ones are executed.
    """

    DEVNULL = subprocess.DEVNULL

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if not pid:
            ours.close()
            become_template(theirs)
        theirs.close()
        self._waiting: socket.socket | None = ours
        self._pid = pid

    def Popen(self, command: list[str], **options: object) -> subprocess.Popen:
        """Launch the template, as `subprocess.Popen` does."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return subprocess.Popen(command, **options)
        (descriptor,) = options["pass_fds"]
        message = {
            "arguments": command[command.index("-m") + 2 :],
            "environment": dict(options["env"]),
            "descriptor": descriptor,
        }
        with waiting:
            socket.send_fds(waiting, [json.dumps(message).encode()], [descriptor])
        return adopted(command, self._pid)


def adopted(command: list[str], pid: int) -> subprocess.Popen:
    """Return the object for a child that this process has forked by itself."""
    process = subprocess.Popen.__new__(subprocess.Popen)
    process.args, process.pid, process.returncode = command, pid, None
    process.stdin = process.stdout = process.stderr = None
    process._child_created = True
    process._communication_started = False
    process._waitpid_lock = threading.Lock()
    return process


def become_template(waiting: socket.socket) -> None:
    """Wait for a launch, then be a template; never returns."""
    code = 1
    try:
        data, descriptors, _, _ = socket.recv_fds(waiting, MESSAGE_BYTES, MOST_DESCRIPTORS)
        if not data:
            os._exit(0)  # the daemon ended before it launched one
        request = json.loads(data)
        nothing = os.open(os.devnull, os.O_RDONLY)
        take_descriptors([nothing, 1, 2, *descriptors], [0, 1, 2, request["descriptor"]])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.modules["stoker.server.workers.template"].main(request["arguments"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end this process
    import_once(IMPORTED_BY_SCRIPTS) if sys.argv[2] == SCRIPTS else warm()
    child = main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
    if child is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        child()
