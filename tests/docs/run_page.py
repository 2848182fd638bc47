"""Run what a documentation page shows, as a reader would: in order, in one module.

    python tests/docs/run_page.py PAGE
    python tests/docs/run_page.py --here PAGE [OLD NEW ...]

The first runs the page as the tests do: in a new folder with `photos`, which is removed
afterwards, with the `stand_ins` of the page. The second runs it in the working folder. Each OLD in
a block is replaced by NEW: what a test must have otherwise, such as an address. Python blocks
become one module, whose file holds them at the very lines that they have on the page, so that
pipelines find their source and a fault is reported by page and line. Console blocks to run
(`page_blocks`) have their `stoker` commands run by the command line of this environment; a daemon
that `stoker serve` starts ends with the page. `warm_pages` does the same in forked processes.
"""

import contextlib
import importlib
import os
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

from page_blocks import Block, blocks

STOKER = str(Path(sys.executable).with_name("stoker"))


class Process(Protocol):
    """The interface of a daemon's process."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def wait(self) -> int:
        """Wait for its end; return the exit status."""


def commands(text: str) -> list[list[str]]:
    """Return the `stoker` commands of a console block, as words."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("stoker ")]


def fresh(words: Sequence[str]) -> int:
    """Run a command in a fresh process; return its exit status."""
    return subprocess.run(words, check=False).returncode


def fresh_daemon(words: Sequence[str], ready: int) -> Process:
    """Start a daemon in a fresh process, which gets a descriptor."""
    return subprocess.Popen(words, pass_fds=[ready])


def run(
    page: Path,
    replaced: dict[str, str],
    command: Callable[[Sequence[str]], int] = fresh,
    serve: Callable[[Sequence[str], int], Process] = fresh_daemon,
) -> int:
    """Run a page in the working folder; return the exit status, having told what failed.

    Args:
        page: the page.
        replaced: {old: new}.
        command: runs the `stoker` commands that end by themselves; returns their exit status.
        serve: starts the daemon of `stoker serve` with a descriptor.
    """
    found = [block._replace(text=_replaced(block.text, replaced)) for block in blocks(page)]
    source = Path(f"page_{page.stem.replace('-', '_').lower()}.py").absolute()
    source.write_text(_aligned(found), encoding="utf-8")
    module = ModuleType(source.stem)
    module.__file__ = str(source)
    sys.modules[source.stem] = module
    sys.path.insert(0, os.getcwd())
    with contextlib.ExitStack() as daemons:
        for block in found:
            try:
                _run_block(block, source, module, daemons, command, serve)
            except Exception as error:
                line = max(_lines(error, source), default=block.line)
                sys.stderr.write(f"{traceback.format_exc()}\n{page}:{line}: {_summary(error)}\n")
                return 1
    return 0


def _run_block(
    block: Block,
    source: Path,
    module: ModuleType,
    daemons: contextlib.ExitStack,
    command: Callable[[Sequence[str]], int],
    serve: Callable[[Sequence[str], int], Process],
) -> None:
    if block.word == "file":
        Path(block.rest).write_text(block.text, encoding="utf-8")
    elif block.word == "run" and block.language == "console":
        for given in commands(block.text):
            words = [STOKER, *given[1:]]
            if words[1] == "serve":
                daemons.enter_context(_serving(words, serve))
            elif status := command(words):
                raise RuntimeError(f"{' '.join(given)}: exit status {status}")
    elif block.word == "run":
        padded = "\n" * (block.line - 1) + block.text
        exec(compile(padded, source, "exec"), module.__dict__)


@contextlib.contextmanager
def _serving(words: list[str], serve: Callable[[Sequence[str], int], Process]) -> Iterator[None]:
    """Run a daemon that is ready, or raise what it says."""
    read, write = os.pipe()
    with os.fdopen(read) as ready:
        daemon = serve([*words, "--ready-fd", str(write)], write)
        os.close(write)
        try:
            line = ready.readline()
            if '"address"' not in line:
                raise RuntimeError(f"stoker serve: {line or 'ended before it was ready'}")
            yield
        finally:
            daemon.terminate()
            daemon.wait()


def _replaced(text: str, replaced: dict[str, str]) -> str:
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def _aligned(found: list[Block]) -> str:
    """Return the source of the module: the blocks that run, each at its line on the page."""
    lines: list[str] = []
    for block in found:
        if block.word == "run" and block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def _lines(error: Exception, source: Path) -> Iterator[int]:
    """Yield the last line of the page that an error came through, if there is one."""
    if isinstance(error, SyntaxError) and error.filename == str(source):
        yield error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    seen = [frame.lineno or 0 for frame in frames if frame.filename == str(source)]
    yield from seen[-1:]


def _summary(error: Exception) -> str:
    return traceback.format_exception_only(error)[-1].strip()


def run_apart(page: Path) -> int:
    """Run a page as the tests do, in a folder of its own; return the exit status."""
    sys.path.append(str(Path(__file__).parents[1] / "support"))
    stand_ins = importlib.import_module("stand_ins")  # its own imports need that folder
    page = page.absolute()
    with tempfile.TemporaryDirectory(prefix="page") as folder:
        stand_ins.make_photos(Path(folder) / "photos")
        with contextlib.chdir(folder):
            return run(page, stand_ins.replaced(page, Path(folder)))


if __name__ == "__main__":
    if sys.argv[1] == "--here":
        olds, news = sys.argv[3::2], sys.argv[4::2]
        sys.exit(run(Path(sys.argv[2]), dict(zip(olds, news, strict=True))))
    sys.exit(run_apart(Path(sys.argv[1])))
