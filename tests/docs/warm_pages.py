"""Run a page in a process that has imported what pages use, and so its commands and daemons.

    warm.Script("tests/docs/warm_pages.py", "--here", PAGE, [OLD, NEW, ...], daemons=True)

As `run_page`, except that the `stoker` commands of the page are run by a process that is forked
before the page begins (`Commands`), so they too begin as a fresh process would. Daemons of `stoker
serve`, and private ones, are forked as those of other tests are. `warm.Script` forks this script
from a process that has imported `IMPORTED` once for all pages: numba, torch and Stoker cost more
than most pages do.
"""

import atexit
import contextlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import warm
from run_page import STOKER, Process, fresh_daemon, run

from stoker.server.__main__ import COMMANDS, main

IMPORTED = (
    "numba",
    "skimage.data",
    "stoker.client",
    "stoker.ops.testing",
    "stoker.pipeline",
    "torch.utils.data",
    *sorted({module for module, _ in COMMANDS.values()}),
)
"""Slow imports of pages. A page whose modules are missing here is only slower."""


class Commands:
    """A process that runs `stoker` commands one at a time, each in a process forked from it."""

    def __init__(self) -> None:
        """Start it."""
        (reads, self._send), (self._receive, writes) = os.pipe(), os.pipe()
        self._pid = fork(lambda: self._serve(reads, writes))
        os.close(reads)
        os.close(writes)

    def __call__(self, words: Sequence[str]) -> int:
        """Run a command in the current working folder; return its exit status."""
        os.write(self._send, json.dumps([os.getcwd(), *words]).encode() + b"\n")
        return int(os.read(self._receive, 99))

    def close(self) -> None:
        """End it."""
        os.close(self._send)
        os.close(self._receive)
        os.waitpid(self._pid, 0)

    def _serve(self, reads: int, writes: int) -> int:
        os.close(self._send)
        os.close(self._receive)
        with open(reads) as requests:
            for line in requests:
                folder, *words = json.loads(line)
                os.write(writes, b"%d\n" % status_of(fork(lambda f=folder, w=words: cli(f, w))))
        return 0


def cli(folder: str, words: list[str]) -> int:
    """Be the command `stoker`."""
    os.chdir(folder)
    sys.path[0] = str(Path(STOKER).parent)
    sys.argv = words
    main()
    return 0


def forked_daemon(words: Sequence[str], ready: int) -> Process:
    """Start a daemon in a process forked from a warm one, if that is possible."""
    command = [sys.executable, "-P", "-m", "stoker.server", *words[1:]]
    with open(os.devnull, "rb") as nothing:
        forked = warm.start(command, {0: nothing.fileno(), 1: 1, 2: 2, ready: ready})
    return forked or fresh_daemon(words, ready)


def fork(act: Callable[[], int]) -> int:
    """Run a function in a forked process whose exit status it returns; return the pid."""
    sys.stdout.flush()  # what is left in a buffer would be written twice
    with warnings.catch_warnings():
        # Threads of NumPy's BLAS, which are idle and come through a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = act()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            traceback.print_exc()
        # The interpreter's end, except that it takes down each module: 0.7 s of copied memory.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(status)
    return pid


def status_of(pid: int) -> int:
    """Wait for a process; return its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    _, page, *pairs = sys.argv[1:]
    with contextlib.closing(Commands()) as commands:
        replaced = dict(zip(pairs[::2], pairs[1::2], strict=True))
        sys.exit(run(Path(page), replaced, commands, forked_daemon))
