"""The keys of a data.yaml: a check for misspelled ones, and the number of classes.

Other programs put keys of their own into the file, so an unknown key is ignored, unless it looks
like a key that the file lacks: `trian` would otherwise leave out a whole split.
"""

import difflib
import re
from pathlib import Path
from typing import Any

from stoker.dataset.sources.formats.yolo_yaml import quoted
from stoker.protocol.errors import UsageError

_READ = ("path", "train", "val", "valid", "test", "names", "nc", "kpt_shape", "kpt_names")
_MEANT = {"classes": "names", "class_names": "names", "num_classes": "nc"}
_SHORTEST, _LONGEST = 3, 40
_MOST = 1000
"""Maximum number of keys that are checked; a file written by hand has a few."""
_ALIKE = 0.85
"""Similarity of difflib from which a key counts as misspelled."""
_POINTS, _POINTS_ALIKE = re.compile("k|.*kpt|.*keypoint"), 0.66
"""Keys that may be about keypoints, and their similarity; other programs have many `*_shape`."""
_OPTIONAL = frozenset(["path", "valid", "test", "kpt_names"])
"""Keys without which the images, boxes and classes are still read as they are meant."""


def check_keys(data: dict[str, Any], path: Path) -> list[str]:
    """Refuse a key that is probably misspelled; return lines about those that are optional.

    Raises:
        UsageError: a key looks like one that the file lacks.
    """
    lacking, remarks = [key for key in _READ if key not in data], []
    for key in list(data)[:_MOST]:
        if key in _READ or not _SHORTEST <= len(key) <= _LONGEST:
            continue
        meant = _MEANT[key] if _MEANT.get(key) in lacking else _nearest(key.lower(), lacking)
        if meant in _OPTIONAL:
            remarks.append(f"{path}: the key {key!r} is not read; did you mean {meant!r}?")
        elif meant:
            raise UsageError(
                f"{path}: unknown key {key!r}; did you mean {meant!r}? Otherwise rename or "
                "remove it"
            )
    return remarks


def _nearest(key: str, lacking: list[str]) -> str:
    """Return the key that is probably meant, "" if none is."""
    swapped = {key[:at] + key[at + 1] + key[at] + key[at + 2 :] for at in range(len(key) - 1)}
    if found := next((name for name in lacking if name in swapped), ""):
        return found
    points = [name for name in lacking if name.startswith("kpt_")]
    others = [name for name in lacking if name not in points]
    near = difflib.get_close_matches(key, others, 1, _ALIKE)
    if _POINTS.match(key):
        near += difflib.get_close_matches(key, points, 1, _POINTS_ALIKE)
    return near[0] if near else ""


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
        raise UsageError(f"{path}: nc: expected the number of classes, got {quoted(given)}")
    if names is not None and number != len(names):
        raise UsageError(
            f"{path}: nc is {number}, but {len(names)} classes have names; correct nc, or the "
            "list of names"
        )
    return number
