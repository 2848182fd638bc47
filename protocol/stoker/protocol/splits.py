"""Texts that name a subset: the name of a split, a condition, or the path of a file.

A split is a subset that the manifest of a dataset names; see docs/contracts/dataset.md. A condition
compares stored columns.
"""

import re
from typing import Final

MAX_SPLIT_NAME: Final = 64
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_CONDITION: Final = re.compile(r"[<>]|[=!]=|(^|\s|\))(not|and|or|in|is)\s")


def is_split_name(given: object) -> bool:
    """Return whether it is text that could name a split; other text is a condition or a path."""
    return isinstance(given, str) and NAME.fullmatch(given) is not None


def is_condition(given: object) -> bool:
    """Return whether it is text with a comparison and not a path, which begins with . or /."""
    return (
        isinstance(given, str) and given[:1] not in "./~" and _CONDITION.search(given) is not None
    )
