"""The template: a clean, single-threaded process from which workers and builders are forked.

Started once by the daemon as `python -m stoker.server.template FD PARENT`, it imports what workers
need (numba, decoders, ops), then waits for `Fork` records on its socket. Forking a warm process
takes milliseconds, where a new interpreter with numba takes a third of a second; and because it has
exactly one thread and holds no client, no lock can be copied in a bad state. Before every fork it
asserts that: one thread, no torch, no pyarrow. Math libraries are pinned to one thread by the
environment that the daemon gives it.

It is the parent of all workers: it reaps them and reports how they died. It dies with the daemon
and they die with it (PR_SET_PDEATHSIG), so `kill -9` of the daemon leaves nothing.
"""

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

import msgspec

from stoker.server import channel
from stoker.server.death import die_with_parent

UNWANTED = ("torch", "pyarrow", "zmq")
ROLES = ("worker", "builder", "replayer")
"""What a child can be; each is a module of this package with a `serve`."""
# Imported where they are first used, so named here: a fork should not have to.
PRELOAD = (
    "numba",
    "simplejpeg",
    "PIL.PngImagePlugin",
    "stoker.rng.compiled",
    "stoker.order.compiled",
    "stoker.ops.machine",
    "stoker.ops.machine.blocks",
    "stoker.ops.machine.pixels",
    "stoker.pipeline.by_address",
    "stoker.pipeline.loop",
)


class Fork(msgspec.Struct, frozen=True, array_like=True, tag="fork"):
    """Comes with the child's end of a socket pair: fork a child that serves it."""

    child: int
    role: str


class Forked(msgspec.Struct, frozen=True, array_like=True, tag="forked"):
    """Comes with the child's pidfd."""

    child: int
    pid: int


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """A child is dead and reaped; `status` as by waitpid."""

    child: int
    status: int


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
    """Import what workers and builders need, and load the machine code that they needed lately."""
    for module in (*PRELOAD, *(f"stoker.server.{role}" for role in ROLES)):
        importlib.import_module(module)
    # numba fills its tables at the first use of machine code, which takes half a second.
    target = importlib.import_module("numba.core.registry").cpu_target
    target.typing_context.refresh()
    target.target_context.refresh()
    importlib.import_module("stoker.server.recent").preload()


def serve(control: socket.socket) -> None:
    """Fork on demand and report deaths until the daemon closes the socket."""
    children: dict[int, tuple[int, int]] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd != control.fileno():
                child, pid = children.pop(fd)
                poll.unregister(fd)
                os.close(fd)
                channel.send(control, Ended(child, os.waitpid(pid, 0)[1]))
                continue
            received = channel.receive(control, Fork)
            if received is None:
                return
            request, descriptor = received
            assert descriptor is not None
            pid = _fork(request, descriptor, [control.fileno(), *children])
            pidfd = os.pidfd_open(pid)
            children[pidfd] = (request.child, pid)
            poll.register(pidfd, select.POLLIN)
            channel.send(control, Forked(request.child, pid), pidfd)


def _fork(request: Fork, descriptor: int, inherited: list[int]) -> int:
    """Fork a child that serves `descriptor`; in the parent, close that and return the pid."""
    assert_clean()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(descriptor)
        return pid
    code = 1
    try:
        die_with_parent(parent)
        for fd in inherited:
            with contextlib.suppress(OSError):
                os.close(fd)
        # The socket closes with the process and not before: the daemon kills a child that hangs up,
        # and a death by that signal would hide how this one ended.
        sock = socket.socket(fileno=descriptor)
        code = _run(request, sock)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _run(request: Fork, sock: socket.socket) -> int:
    assert request.role in ROLES, request.role
    serve_child: Callable[[socket.socket, int], int] = importlib.import_module(
        f"stoker.server.{request.role}"
    ).serve
    return serve_child(sock, request.child)


def main(arguments: list[str]) -> None:
    """Run the template: arguments are the control descriptor, the daemon's pid, the cache root."""
    control_fd, parent = int(arguments[0]), int(arguments[1])
    die_with_parent(parent)
    # Before other imports, which find the folders of kernels.
    importlib.import_module("stoker.rng.jit").set_cache_root(arguments[2])
    # Ctrl-C reaches the whole foreground group; only the daemon decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload()
    with socket.socket(fileno=control_fd) as control:
        os.set_inheritable(control_fd, False)
        serve(control)


if __name__ == "__main__":
    # Under `-m` this file is `__main__`; children import the package's own copy of it.
    importlib.import_module("stoker.server.template").main(sys.argv[1:])
