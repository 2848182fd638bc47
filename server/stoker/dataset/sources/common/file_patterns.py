"""Find the files of a source that consists of many: a folder, one file, or a pattern.

A pattern may contain `*`, `?`, `[...]` as in a shell, `**` for any folders, and braces: `{a,b}` for
alternatives, `{000..123}` for numbers with their leading zeros. A name that braces spell out must
exist; names found by `*` are sorted by path, part by part, by code point.
"""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from stoker.dataset.format.source_item import SourceFile
from stoker.protocol.datasets import is_pattern
from stoker.protocol.errors import UsageError

MAX_FILES = 10**6
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"([0-9]+)\.\.([0-9]+)")
_SPLITS = re.compile(
    r"(train|training|val|valid|validation|test|testing|dev|eval)(?=$|[^a-z])", re.IGNORECASE
)


def find_files(source: str, suffixes: Sequence[str]) -> tuple[Path, list[SourceFile]]:
    """Return the folder that paths are relative to, and the files of a source, in order.

    Args:
        source: a folder (searched recursively), a file, or a pattern.
        suffixes: suffixes of the files to find in a folder, such as `.tar`.

    Raises:
        UsageError: there is no such file, or too many.
    """
    if is_pattern(source):
        names = _matches(source)
        root = Path(os.path.commonpath([os.path.dirname(name) or "." for name in names]))
        return root, [_look_at(root, Path(name)) for name in names]
    path = Path(source)
    if path.is_file():
        return path.parent, [_look_at(path.parent, path)]
    found = [
        file
        for suffix in suffixes
        for file in path.glob(f"**/*{suffix}")
        if file.is_file() and not any(part[0] == "." for part in file.relative_to(path).parts)
    ]
    if not found:
        there = "does not exist" if not path.exists() else f"has no {' or '.join(suffixes)} file"
        raise UsageError(f"{source} {there}; expected a folder of them, one of them, or a pattern")
    found.sort(key=lambda file: file.relative_to(path).parts)
    return path, [_look_at(path, file) for file in found]


def check_splits(source: str, files: Sequence[SourceFile]) -> None:
    """Reject files that are several splits of one dataset.

    Raises:
        UsageError: they are several splits.
    """
    found = {_split(file.path) for file in files} - {""}
    if len(found) > 1:
        raise UsageError(
            f"{source} looks like splits ({', '.join(sorted(found))}); name the files of one, as "
            f"in `stoker pack '{source}/**/{min(found)}*' DEST`, or name the kind to take all of "
            "them"
        )


def expand_braces(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a pattern with braces, in order."""
    braces = _BRACES.search(pattern)
    if braces is None:
        yield pattern
        return
    for choice in _choices(braces[1], pattern):
        yield from expand_braces(pattern[: braces.start()] + choice + pattern[braces.end() :])


def _choices(inside: str, pattern: str) -> Iterator[str]:
    numbers = _RANGE.fullmatch(inside)
    if numbers is None:
        yield from inside.split(",")
        return
    first, last = int(numbers[1]), int(numbers[2])
    if not 0 <= last - first < MAX_FILES:
        raise UsageError(
            f"{pattern}: expected a range from a number to a larger one, of at most {MAX_FILES} "
            f"numbers, got {{{inside}}}"
        )
    width = len(numbers[1])
    for number in range(first, last + 1):
        yield f"{number:0{width}d}"


def _matches(pattern: str) -> list[str]:
    names: list[str] = []
    for name in expand_braces(os.path.expanduser(pattern)):
        if glob.has_magic(name):
            found = sorted(glob.glob(name, recursive=True), key=lambda path: Path(path).parts)
            names += [path for path in found if os.path.isfile(path)]
        elif os.path.isfile(name):
            names.append(name)
        else:
            raise UsageError(f"{pattern}: there is no file {name}; check the pattern")
        if len(names) > MAX_FILES:
            raise UsageError(
                f"{pattern} matches more than {MAX_FILES} files; use a narrower pattern"
            )
    if not names:
        raise UsageError(f"{pattern} matches no file; check the pattern")
    return names


def _look_at(root: Path, file: Path) -> SourceFile:
    try:
        status = file.stat()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}; check its permissions") from None
    return SourceFile(os.path.relpath(file, root), status.st_size, status.st_mtime_ns)


def _split(path: str) -> str:
    """Return the split at the start of a file's name or its folder's name; "" for none."""
    for part in reversed(Path(path).parts):
        if found := _SPLITS.match(part):
            return found[1].lower()
    return ""
