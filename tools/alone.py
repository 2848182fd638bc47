"""Run parts of the suite one after the other, each in its own pytest, and say what each costs.

    python tools/alone.py                           # all of PASSES: what `make alone` runs
    python tools/alone.py tests/law tests/jit       # each file of these folders
    python tools/alone.py --each path tests/law tests/jit   # each of these folders as a whole
    python tools/alone.py --reversed tests/ops      # each file, its last test first

A test that passes only after another one fails here. A line is printed for each part as it ends:
outcome, CPU-s (user and system, of pytest and of all processes that were waited for) and path. A
failure is followed by the end of its output. The parts follow in the order of their cost.

Kernels stay in `.pytest_cache/kernels`, or where STOKER_TEST_KERNELS says: with an empty folder the
first part that needs a kernel compiles it. Limits: parts run one at a time, so parts that disturb
each other at the same time are not found.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = tuple(
    str(folder) for folder in sorted((ROOT / "tests").iterdir()) if any(folder.rglob("test_*.py"))
)
PASSES = (
    ("--each", "file", str(ROOT / "tests/ops")),
    ("--each", "path", *FOLDERS),
    ("--reversed", "--each", "path", *FOLDERS),
)
"""The arguments of the runs that `make alone` makes."""
TAIL = 40
"""Lines of the output of a part that failed."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One part that has run: its path, pytest's exit status, its processor seconds."""

    path: Path
    status: int
    cpu_s: float

    def line(self) -> str:
        """Return the line that is printed for it."""
        word = "passed" if self.status == 0 else f"failed ({self.status})"
        return f"{word:12} {self.cpu_s:8.1f} CPU-s  {_shown(self.path)}"


def parts_of(path: Path, each: str) -> Iterator[Path]:
    """Yield what is run by itself: each test file below `path`, or `path` as a whole.

    Raises:
        FileNotFoundError: `path` does not exist, or has no tests.
    """
    if not path.exists():
        raise FileNotFoundError(f"expected a test file or a folder of tests, got {path}: not found")
    found = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    if not found:
        raise FileNotFoundError(
            f"expected files test_*.py below {path}, got none: name another folder"
        )
    yield from found if each == "file" else [path]


def run(path: Path, backwards: bool) -> Part:
    """Run pytest on one part; print its line, and the end of its output if it fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    command += ["--reversed"] if backwards else []
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        part = Part(path, process.returncode, usage.ru_utime + usage.ru_stime)
        print(part.line(), flush=True)
        if part.status:
            output.seek(0)
            lines = output.read().decode(errors="replace").splitlines()
            print(*(f"    {line}" for line in lines[-TAIL:]), sep="\n", flush=True)
    return part


def run_all(arguments: argparse.Namespace) -> list[Part]:
    """Run every part of the paths. No part runs if a path is wrong."""
    found = [part for path in arguments.paths for part in parts_of(path.resolve(), arguments.each)]
    return [run(path, arguments.reversed) for path in dict.fromkeys(found)]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        description="Run test files or folders alone, one after the other.", allow_abbrev=False
    )
    made.add_argument("paths", nargs="*", type=Path, help="test files or folders")
    made.add_argument("--each", choices=("file", "path"), default="file", help="what runs alone")
    made.add_argument("--reversed", action="store_true", help="run the last test of a part first")
    return made


def main(words: Sequence[str]) -> int:
    """Run what the command line names, or all of `PASSES`; return 1 if anything failed."""
    made = parser()
    passes = [made.parse_intermixed_args(words)]
    if not words:
        passes = [made.parse_intermixed_args(one) for one in PASSES]
    elif not passes[0].paths:
        made.error("expected a test file or a folder after the options, got none")
    try:
        parts = [part for one in passes for part in run_all(one)]
    except FileNotFoundError as error:
        made.error(str(error))
    print(f"\nby cost, {sum(part.cpu_s for part in parts):.1f} CPU-s in all:")
    for part in sorted(parts, key=lambda part: -part.cpu_s):
        print(part.line())
    failed = sum(part.status != 0 for part in parts)
    print(f"{failed} of {len(parts)} failed alone" if failed else f"all {len(parts)} pass alone")
    return int(failed > 0)


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
