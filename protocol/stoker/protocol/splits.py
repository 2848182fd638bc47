"""Names of splits, and how OPEN names one: the form of `subset` that only the daemon can resolve.

A split is a subset that the manifest of a dataset names; see docs/contracts/dataset.md.
"""

import re
from typing import Final

from stoker.protocol.canonical import canonical_bytes, canonical_value
from stoker.protocol.errors import UsageError

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_MEMBER = "split"


def is_split_name(given: object) -> bool:
    """Return whether it is text that could name a split; other text is the path of a file."""
    return isinstance(given, str) and NAME.fullmatch(given) is not None


def split_to_bytes(name: str) -> bytes:
    """Return the canonical form, as `Open.subset` carries it."""
    return canonical_bytes({_MEMBER: name})


def split_from_bytes(subset: bytes) -> str | None:
    """Return the name of the split that a subset's bytes name; None if they are a bitmap, or empty.

    Raises:
        UsageError: the bytes begin like a name, but are none.
    """
    if subset[:1] != b"{":
        return None
    try:
        value = canonical_value(subset)
    except ValueError:
        value = None
    name = value.get(_MEMBER) if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(name, str) or not is_split_name(name):
        raise UsageError(f"subset: expected the name of a split, got {subset[:80]!r}")
    return name
