"""How a dataset is named: by a path, by a pattern of files, or as `module:Class`.

Both sides must agree: the client makes the name in the user's script absolute before it starts a
private daemon, and the daemon does the same with the names in its configuration. A name that exists
as a path is a path.
"""

import glob
import os
import re

_BRACES = re.compile(r"\{[^{}]*\}")
_LIVE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def is_pattern(name: str) -> bool:
    """Whether a name is a pattern of files: it contains `*`, `?`, `[...]` or `{...}`."""
    return not os.path.lexists(name) and bool(glob.has_magic(name) or _BRACES.search(name))


def is_live(name: str) -> bool:
    """Whether a name is the `module:Class` of a live source."""
    return _LIVE.fullmatch(name) is not None and not os.path.lexists(name)


def may_exist(name: str) -> bool:
    """Whether a dataset of that name may exist: the path exists, or the name is not a path."""
    return os.path.exists(name) or is_pattern(name) or is_live(name)
