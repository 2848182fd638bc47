"""Run pages in processes forked from one that has imported what pages use.

    python tests/docs/warm_pages.py

Reads requests from standard input, one JSON line each: [page, {old: new}, folder, out, err]. A
forked process runs the page in the folder with its output in the two files; its exit status is one
line on standard output. Importing numba, torch and Stoker costs more than most pages do.

The effects of a page stay in its process: this one runs no page. The `stoker` commands of a page
are run by a process that was forked before the page began (`Commands`), so they too begin as a
fresh process would. `stoker serve` is always a fresh process (`run_page`).
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from run_page import STOKER, run

from stoker.server.__main__ import COMMANDS, main

IMPORTED = (
    "numba",
    "skimage.data",
    "stoker.client",
    "stoker.ops.testing",
    "stoker.pipeline",
    "torch.utils.data",
)
"""What pages import and takes long. A page whose modules are missing here is only slower."""


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


def run_in(page: str, replaced: dict[str, str], folder: str, out: str, err: str) -> int:
    """Run a page in a folder, with its output in two files."""
    os.chdir(folder)
    for name, number in (("/dev/null", 0), (out, 1), (err, 2)):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    with contextlib.closing(Commands()) as commands:
        return run(Path(page), replaced, commands)


def serve() -> int:
    """Import what pages use, then run the pages that come until standard input ends."""
    for name in (*IMPORTED, *{module for module, _ in COMMANDS.values()}):
        importlib.import_module(name)
    gc.freeze()  # a collection would copy the memory of all that was imported
    for line in sys.stdin:
        page, replaced, folder, out, err = json.loads(line)
        pid = fork(lambda r=(page, replaced, folder, out, err): run_in(*r))
        sys.stdout.write(f"{status_of(pid)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(serve())
