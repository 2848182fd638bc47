"""Names of datasets: a path, a pattern of files, or `module:Class`.

Both sides must agree: the client makes the name in the user's script absolute before it starts a
private daemon, and the daemon does the same with the names in its configuration. A name that exists
as a path is a path.
"""

import glob
import os
import re
from typing import Final

MANIFEST: Final = "manifest.json"
"""A packed dataset has it."""
STATE: Final = "state.json"
"""A folder that Hugging Face's `save_to_disk` wrote has it."""
TAR, ARROW, PARQUET = ".tar", ".arrow", ".parquet"
BESIDE: Final = ".stoker"
"""Ends the name of a folder that a file names: `train.beton` names `train.beton.stoker`."""
IN_PLACE: Final = (TAR, ARROW, PARQUET)
"""Endings of files that may be read in place."""
_BRACES = re.compile(r"\{[^{}]*\}")
_LIVE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern of files: it contains `*`, `?`, `[...]` or `{...}`."""
    return not os.path.lexists(name) and bool(glob.has_magic(name) or _BRACES.search(name))


def is_live(name: str) -> bool:
    """Return whether a name is the `module:Class` of a live source."""
    return _LIVE.fullmatch(name) is not None and not os.path.lexists(name)


def is_utf8(name: str) -> bool:
    """Return whether a name can be written as UTF-8; Python keeps other bytes as surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def may_exist(name: str) -> bool:
    """Return whether a dataset of that name may exist: the path exists, or it is not a path."""
    return os.path.exists(name) or is_pattern(name) or is_live(name)


def why_unreadable(name: str) -> str:
    """Return why a path that exists cannot be a dataset, or "" if it may be one.

    A packed dataset has a manifest; tars, Arrow and Parquet files may be read in place. Only names
    of files are looked at, no deeper than in sub-folders.
    """
    if not is_utf8(name):
        return (
            f"{name!r}: the path of a dataset travels as text, and this one is not UTF-8; rename "
            "it, or make a link to it with another name. If its name is UTF-8 on disk, this "
            "process reads file names in another encoding: set PYTHONUTF8=1"
        )
    return _why_no_dataset(name) if os.path.exists(name) else ""


def _why_no_dataset(name: str) -> str:
    if not os.path.isdir(name):
        beside = os.path.join(name + BESIDE, MANIFEST)
        if name.endswith(IN_PLACE) or os.path.isfile(beside):
            return ""
        return (
            f"{name} is a file that cannot be read in place, only {', '.join(IN_PLACE)} can; make"
            f" a dataset of it with `stoker pack {name} DEST`"
        )
    for folder, below, files in os.walk(name):
        if folder == name and (MANIFEST in files or STATE in files):
            return ""
        if any(file.endswith(IN_PLACE) for file in files):
            return ""
        if folder != name:
            below.clear()
    return f"{name} has no {MANIFEST}: it is not a dataset; make one with `stoker pack {name} DEST`"
