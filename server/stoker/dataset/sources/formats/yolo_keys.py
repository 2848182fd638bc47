"""The keys of a data.yaml: a check for misspelled ones, and the number of classes.

Other programs put keys of their own into the file, so an unknown key is ignored, unless it looks
like a key that the file lacks: `trian` would otherwise leave out a whole split.
"""

import difflib
import re
from pathlib import Path
from typing import Any

from stoker.dataset.sources.formats.yolo_yaml import told
from stoker.protocol.errors import UsageError

_READ = ("path", "train", "val", "valid", "test", "names", "nc", "kpt_shape", "kpt_names")
_MEANT = {"classes": "names", "class_names": "names", "num_classes": "nc"}
_SHORTEST, _LONGEST = 3, 40
_MOST = 1000
"""Maximum number of keys that are checked; a file written by hand has a few."""
_ALIKE = 0.66
"""Similarity of difflib from which a key counts as misspelled."""


def check_keys(data: dict[str, Any], path: Path) -> None:
    """Refuse a key that is probably misspelled.

    Raises:
        UsageError: a key looks like one that the file lacks.
    """
    lacking = [key for key in _READ if key not in data]
    for key in list(data)[:_MOST]:
        if key in _READ or not _SHORTEST <= len(key) <= _LONGEST:
            continue
        meant = difflib.get_close_matches(key.lower(), lacking, 1, _ALIKE)
        if _MEANT.get(key) in lacking:
            meant = [_MEANT[key]]
        if meant:
            raise UsageError(
                f"{path}: unknown key {key!r}; did you mean {meant[0]!r}? Otherwise rename or "
                "remove it"
            )


def count_of(data: dict[str, Any], names: tuple[str, ...] | None, path: Path) -> int | None:
    """Return the number of classes by `nc` or by their names; None if neither is known.

    Raises:
        UsageError: `nc` is not a number, or not that of the names.
    """
    given = data.get("nc", "")
    if given in ("", "~", "null", "Null", "NULL"):
        return None if names is None else len(names)
    number = int(given) if isinstance(given, str) and re.fullmatch("[0-9]{1,9}", given) else 0
    if not number:
        raise UsageError(f"{path}: nc: expected the number of classes, got {told(given)}")
    if names is not None and number != len(names):
        raise UsageError(
            f"{path}: nc is {number}, but {len(names)} classes have names; correct nc, or the "
            "list of names"
        )
    return number
