"""The template: a clean, single-threaded process from which workers and builders are forked.

Started once by the daemon as `python -P -m stoker.server.workers.template` (`main` has the
arguments), it imports what workers need (numba, decoders, ops), then waits for `ForkChild` on
its socket. Forking a warm process takes milliseconds, where a new interpreter with numba takes a
third of a second; and because it has exactly one thread and holds no client, no lock can be copied
in a bad state. Before every fork it asserts that: one thread, no torch, no pyarrow. Math libraries
are pinned to one thread by the environment that the daemon gives it. Its objects are out of the
garbage collector's sight, so that no collection of a child's copies those pages.

One-off children are forked before workers that were asked for earlier: at the start of a daemon
every worker waits for the build of the first pipeline.

It is the parent of all workers: it reaps them and reports how they died, and kills the processes
that they leave behind (`death`). When the daemon dies, its end of the socket closes: the template
kills all of its descendants and exits, even if it was stopped (the kernel continues it,
PR_SET_PDEATHSIG). Children die with the template. So `kill -9` of the daemon leaves nothing.
"""

import contextlib
import gc
import importlib
import logging
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence

import msgspec

from stoker.jit import numba_version
from stoker.protocol import importing
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import StokerError
from stoker.server.work.work_records import ToWorker
from stoker.server.workers import channel
from stoker.server.workers.child_config import OneOffRequest, WorkerConfig
from stoker.server.workers.death import (
    adopt_orphans,
    die_first,
    die_with_parent,
    end_group,
    end_orphans,
    lead_group,
    wake_with_parent,
)
from stoker.server.workers.stack_file import write_on_signal

_log = logging.getLogger(__name__)
_ORPHANS_S = 1.0
UNWANTED = ("torch", "pyarrow", "zmq")
ROLES = ("worker", "builder", "replayer", "decoder_compiler")
"""Roles of children; each is a module of this package with a `serve`."""
# Modules that are otherwise imported at their first use, in each child.
PRELOAD = (
    "numba",
    "numpy.ma",
    "simplejpeg",
    "PIL.PngImagePlugin",
    "stoker.rng.compiled",
    "stoker.order.compiled_permutation",
    "stoker.ops.kernels.simd",
    "stoker.ops.kernels.simd.blocks",
    "stoker.ops.kernels.simd.pixels",
    "stoker.pipeline.compiled.by_address",
    "stoker.pipeline.compiled.diagnose",
    "stoker.pipeline.compiled.loop",
    "stoker.pipeline.compiled.signature",
)
# msgspec analyzes a type when it first reads one: do it here, not in every child.
READ = ("stoker.dataset.format.manifest:Manifest", "stoker.pipeline.graph.graph:Graph")


class ForkChild(msgspec.Struct, frozen=True, array_like=True, tag="fork"):
    """Comes with the child's end of a socket pair: fork a child that serves it."""

    child: int
    role: str


class Forked(msgspec.Struct, frozen=True, array_like=True, tag="forked"):
    """A child was forked; comes with its pidfd."""

    child: int
    pid: int


class ForkRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The system starts no child now; `reason` is its error."""

    child: int
    reason: str


class ChildEnded(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """A child is dead and reaped; `status` as by waitpid."""

    child: int
    status: int


class TemplateReady(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """The template can fork."""


class TemplateFailed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """The template cannot start; `code` and `message` are those of its exception."""

    code: str
    message: str


def threads() -> int:
    """Return the number of threads of this process."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Threads:"):
                return int(line.split()[1])
    raise OSError("/proc/self/status names no threads")


def assert_clean() -> None:
    """Check that forking is safe.

    Raises:
        RuntimeError: there is a second thread, or a library that must not be inherited.
    """
    loaded = [name for name in UNWANTED if name in sys.modules]
    if threads() != 1 or loaded:
        raise RuntimeError(
            f"the template must fork with one thread and without {', '.join(UNWANTED)}; "
            f"it has {threads()} threads and loaded {', '.join(loaded) or 'none of them'}"
        )


def preload() -> None:
    """Load all that children need, and keep it out of the garbage collector's sight."""
    gc.disable()  # imports leave little garbage
    try:
        _load()
    finally:
        gc.freeze()
        gc.enable()


def _load() -> None:
    """Import what workers and builders need, and load the machine code that they needed lately."""
    numba_version.is_supported()  # if not, the log says so before an import fails
    for module in (*PRELOAD, *(f"stoker.server.workers.{role}" for role in ROLES)):
        importlib.import_module(module)
    for name in READ:
        module, _, attribute = name.partition(":")
        analyzed(getattr(importlib.import_module(module), attribute))
    for kinds in (WorkerConfig, OneOffRequest, ToWorker):
        channel.decoder(kinds)
    importlib.import_module("stoker.server.workers.recent_kernels").preload()


def serve(control: socket.socket) -> None:
    """Fork on demand, report deaths; end all children when the daemon closes the socket."""
    children: dict[int, tuple[int, int]] = {}
    try:
        _serve(control, children)
    finally:
        for _, pid in children.values():  # not reaped yet: the pids are theirs
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        end_orphans((), _ORPHANS_S)


def _serve(control: socket.socket, children: dict[int, tuple[int, int]]) -> None:
    """Serve as `serve` does; `children` has (child, pid) of each that is not reaped, by pidfd."""
    waiting: list[tuple[ForkChild, int]] = []
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll(0 if waiting else None)]
        for fd in ready:
            if fd != control.fileno():
                child, pid = children[fd]
                poll.unregister(fd)
                end_group(pid)
                status = os.waitpid(pid, 0)[1]
                del children[fd]
                os.close(fd)
                channel.send(control, ChildEnded(child, status))
                end_orphans({pid for _, pid in children.values()}, _ORPHANS_S)
                continue
            received = channel.receive(control, ForkChild)
            if received is None:
                return
            request, descriptor = received
            assert descriptor is not None
            waiting.append((request, descriptor))
        if waiting and control.fileno() not in ready:
            request, descriptor = waiting.pop(most_urgent([asked for asked, _ in waiting]))
            others = [theirs for _, theirs in waiting]
            try:
                pid, pidfd = _fork(request, descriptor, [control.fileno(), *children, *others])
            except OSError as error:
                channel.send(control, ForkRefused(request.child, error.strerror or str(error)))
                continue
            children[pidfd] = (request.child, pid)
            poll.register(pidfd, select.POLLIN)
            channel.send(control, Forked(request.child, pid), pidfd)


def most_urgent(waiting: Sequence[ForkChild]) -> int:
    """Return the index of the next request: a one-off child's, otherwise the oldest."""
    return min(range(len(waiting)), key=lambda place: (waiting[place].role == "worker", place))


def _fork(request: ForkChild, descriptor: int, inherited: list[int]) -> tuple[int, int]:
    """Fork a child that serves `descriptor`; in the parent, close that and return pid and pidfd.

    Raises:
        OSError: the system starts no process, or gives no descriptor; there is no child.
    """
    assert_clean()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(descriptor)
        raise
    if pid:
        os.close(descriptor)
        return pid, _pidfd_of(pid)
    code = 1
    try:
        die_with_parent(parent)
        lead_group()
        write_on_signal()
        for fd in inherited:
            with contextlib.suppress(OSError):
                os.close(fd)
        # The socket closes with the process and not before: the daemon kills a child that hangs up,
        # and a death by that signal would hide how this one ended.
        sock = socket.socket(fileno=descriptor)
        code = _run(request, sock)
    except Exception:
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):  # a function may have closed it
            sys.stderr.flush()
        os._exit(code)


def _pidfd_of(pid: int) -> int:
    """Return the pidfd of a new child; without one, end the child, which no process could watch."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _run(request: ForkChild, sock: socket.socket) -> int:
    assert request.role in ROLES, request.role
    serve_child: Callable[[socket.socket, int], int] = importlib.import_module(
        f"stoker.server.workers.{request.role}"
    ).serve
    return serve_child(sock, request.child)


def _add_folders(folders: Sequence[str]) -> None:
    """Let children import from folders of users; log which modules there are shadowed."""
    for folder in folders:
        line = "" if folder in sys.path else importing.warning(folder, sys.path)
        if line:
            _log.warning("%s", line)
    importing.add_folders(folders)


def main(arguments: list[str]) -> None:
    """Run the template.

    Args:
        arguments: the control descriptor, the daemon's pid, the cache root, and folders of modules
            of users, which are searched after all others.
    """
    control_fd, parent = int(arguments[0]), int(arguments[1])
    wake_with_parent(parent)
    adopt_orphans()
    die_first()
    # Ctrl-C, and the end of a terminal, reach the whole foreground group; only the daemon decides
    # what they mean.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    write_on_signal()
    with socket.socket(fileno=control_fd) as control:
        os.set_inheritable(control_fd, False)
        try:
            importlib.import_module("stoker.jit").set_cache_root(arguments[2])
            importlib.import_module("stoker.jit.diskcache").check_cache_root()
            preload()
            _add_folders(arguments[3:])
        except BaseException as error:
            known = error if isinstance(error, StokerError) else StokerError(str(error))
            message = f"{type(error).__name__}: {known.message}"
            channel.send(control, TemplateFailed(known.code, message))
            raise
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the daemon is gone
            channel.send(control, TemplateReady())
            serve(control)


if __name__ == "__main__":
    # Under `-m` this file is `__main__`; children import the package's own copy of it.
    importlib.import_module("stoker.server.workers.template").main(sys.argv[1:])
