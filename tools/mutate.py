"""Change the code in small, wrong ways, and see whether the tests notice each of them.

    python tools/mutate.py                    # all of tools/mutations.toml (about half an hour)
    python tools/mutate.py cursor slots       # those with one of these words in their names
    python tools/mutate.py --list             # their names; nothing is run

Each mutation names a file, a text that occurs once in it, what replaces the text, and the tests
that must fail then. They run in a copy of the repository. A line says whether the mutation was
caught (a test failed, hung or crashed) or survived; the exit status is 1 if one survived. The tests
of all chosen mutations first have to pass without any.

Kernels are kept in `.pytest_cache/kernels`, or where STOKER_TEST_KERNELS says: their names are
digests of their sources, so a mutation compiles what depends on it, and nothing else.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("mutations.toml")
SOURCES = ("server", "client", "protocol")
LIMIT_S = 600.0
"""The longest run of the tests of one mutation."""
TAIL = 30
"""Lines of output that are shown if tests fail without a mutation."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One wrong change.

    Attributes:
        name: what is wrong then.
        file: the file that is changed, from the top of the repository.
        before: a text that occurs once in the file.
        after: the text that replaces it.
        tests: arguments of pytest.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Return the content of the file with the mutation.

        Raises:
            ValueError: the text that is replaced does not occur exactly once.
        """
        count = text.count(self.before)
        if count != 1:
            raise ValueError(
                f"mutation {self.name!r}: expected its text once in {self.file}, got {count} times:"
                " bring tools/mutations.toml up to date"
            )
        return text.replace(self.before, self.after)


def mutations(path: Path = TABLE) -> list[Mutation]:
    """Return all mutations of a table."""
    rows = tomllib.loads(path.read_text())["mutation"]
    return [Mutation(**row | {"tests": tuple(row["tests"])}) for row in rows]


def copied(into: Path) -> Path:
    """Copy the files that git tracks into a folder, and return the folder."""
    command = ["git", "ls-files", "-z"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.split("\0"):
        if name and (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes((ROOT / name).read_bytes())
            (into / name).chmod((ROOT / name).stat().st_mode)
    return into


def passes(copy: Path, tests: Sequence[str]) -> tuple[bool, str]:
    """Run tests in a copy; return whether all pass, and the output. A hanging test fails."""
    kernels = os.environ.get("STOKER_TEST_KERNELS") or str(ROOT / ".pytest_cache/kernels")
    path = os.pathsep.join(str(copy / name) for name in SOURCES)
    environment = {**os.environ, "PYTHONPATH": path, "STOKER_TEST_KERNELS": kernels}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # bytecode knows a source by its size and second
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, timeout=LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False, f"no end after {LIMIT_S:g} s"
        output.seek(0)
        text = output.read().decode(errors="replace")
    if done.returncode > 1:  # below 0: a mutation made the process crash
        raise RuntimeError(f"pytest could not run {' '.join(tests)}:\n{text}")
    return done.returncode == 0, text


def tried(copy: Path, chosen: Sequence[Mutation]) -> Iterator[tuple[Mutation, bool, float]]:
    """Yield each mutation, whether it was caught, and the seconds that this took."""
    for mutation in chosen:
        file, began = copy / mutation.file, time.monotonic()
        right = file.read_text()
        file.write_text(mutation.applied(right))
        try:
            missed, _ = passes(copy, mutation.tests)
        finally:
            file.write_text(right)
        yield mutation, not missed, time.monotonic() - began


def main(words: Sequence[str]) -> int:
    """Try the mutations that the command line names; return 1 if one survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="words in the names of mutations; none: all")
    parser.add_argument("--list", action="store_true", help="print the names, and run nothing")
    given = parser.parse_args(words)
    chosen = [
        one for one in mutations() if not given.words or any(w in one.name for w in given.words)
    ]
    if not chosen:
        parser.error(f"no mutation has one of these words in its name: {' '.join(given.words)}")
    if given.list:
        print(*(one.name for one in chosen), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = copied(Path(folder))
        right, text = passes(copy, list(dict.fromkeys(t for one in chosen for t in one.tests)))
        if not right:
            print(*text.splitlines()[-TAIL:], sep="\n")
            parser.error("tests fail without a mutation")
        survivors = 0
        for mutation, caught, wall_s in tried(copy, chosen):
            word = "caught" if caught else "SURVIVED"
            print(f"{word:9} {wall_s:6.0f} s  {mutation.name}", flush=True)
            survivors += not caught
    print(f"{survivors} of {len(chosen)} survived" if survivors else f"all {len(chosen)} caught")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
