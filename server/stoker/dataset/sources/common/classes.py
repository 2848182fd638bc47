"""The numbers of classes that a source names: in alphabetical order, or as the user lists them.

Parts of one collection that are packed one by one (train, val) need one list, or a class that one
of them lacks shifts the numbers of all behind it.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from stoker.protocol.errors import UsageError

_MAX_BYTES = 2**24
_SHOWN = 5


def order_classes(found: Iterable[str], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return classes in the order of their numbers.

    Args:
        found: the classes that the source has.
        given: the user's list; empty for none.

    Raises:
        UsageError: the source has a class that the list lacks.
    """
    names = sorted(set(found))
    if not given:
        return tuple(names)
    strange = [name for name in names if name not in set(given)]
    if strange:
        shown = ", ".join(strange[:_SHOWN]) + ", ..." * (len(strange) > _SHOWN)
        raise UsageError(
            f"--classes: the source has classes that the list of {len(given)} lacks: {shown}; add "
            "them at its end, or leave their samples out"
        )
    return given


def read_classes(path: Path) -> tuple[str, ...]:
    """Read a list of classes, one a line.

    Raises:
        UsageError: it cannot be read, is empty, or names a class twice.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_BYTES + 1)
        lines = text.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"--classes: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--classes: {path} is not UTF-8; convert it") from None
    names = tuple(line.strip() for line in lines if line.strip())
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if not names or twice is not None or len(text) > _MAX_BYTES:
        what = f"names {twice!r} twice" if twice else "names none, or far too many"
        raise UsageError(f"--classes: {path} {what}; expected a class on each line")
    return names
