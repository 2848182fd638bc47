"""The numbers of a source's classes: in alphabetical order, or in the order of the user's list.

Parts of one collection that are packed separately (train, val) need one list; otherwise a class
that is missing in one part would shift the numbers of all later classes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stoker.protocol.errors import UsageError
from stoker.protocol.files.text import EncodingError, decode_text

_MAX_BYTES = 2**24
_SHOWN = 5


def order_classes(found: Iterable[str], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return classes in the order of their numbers.

    Args:
        found: the classes in the source.
        given: the user's list; empty for none.

    Raises:
        UsageError: the source has a class that is missing in the list.
    """
    names = sorted(set(found))
    if not given:
        return tuple(names)
    strange = [name for name in names if name not in set(given)]
    if strange:
        shown = ", ".join(strange[:_SHOWN]) + ", ..." * (len(strange) > _SHOWN)
        raise UsageError(
            f"--classes: the source has classes that are missing in the list of {len(given)}: "
            f"{shown}; add them at its end, or leave their samples out"
        )
    return given


def remarks_on_order(names: Sequence[str]) -> Iterator[str]:
    """Yield a line about classes that are numbers, if their order by text is another one."""
    if not all(name.isdecimal() for name in names):
        return
    first = next((n for n, name in enumerate(names) if int(name) != n), None)
    if first is not None:
        yield (
            "the classes are numbers, in the order of their text: class "
            f"{names[first]!r} has the label {first}; if the labels must be these numbers, list "
            "the classes in their order with --classes FILE"
        )


def read_classes(path: Path, where: str = "--classes") -> tuple[str, ...]:
    """Read a list of classes, one per line; messages begin with `where`.

    Raises:
        UsageError: the file cannot be read, is empty, has a class twice, or a blank line between
            two classes, because the number of a class is that of its line.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_BYTES + 1)
        lines = decode_text(text).splitlines()
    except OSError as error:
        raise UsageError(f"{where}: cannot read {path}: {error.strerror}") from None
    except EncodingError as error:
        raise UsageError(f"{where}: {path}: {error}") from None
    names = tuple(map(str.strip, "\n".join(lines).rstrip().splitlines()))
    if "" in names:
        raise UsageError(
            f"{where}: {path}, line {names.index('') + 1} is blank, but each line is the name of "
            "a class, and its place the number; remove the line, or write the missing name"
        )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if not names or twice is not None or len(text) > _MAX_BYTES:
        what = f"has {twice!r} twice" if twice else "has no class, or far too many"
        raise UsageError(f"{where}: {path} {what}; expected one class per line")
    return names
