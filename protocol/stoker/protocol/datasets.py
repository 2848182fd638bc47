"""How a dataset is named: by a path, by a pattern of files, or as `module:Class`.

Both sides must agree: the client makes what its user wrote absolute before it starts a private
daemon, the daemon what stands in its configuration. A name that exists as a path is one.
"""

import glob
import os
import re

_BRACES = re.compile(r"\{[^{}]*\}")
_LIVE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def is_pattern(name: str) -> bool:
    """Whether a name is a pattern of files: it holds `*`, `?`, `[...]` or `{...}`."""
    return not os.path.lexists(name) and bool(glob.has_magic(name) or _BRACES.search(name))


def is_live(name: str) -> bool:
    """Whether a name is the `module:Class` of a live source."""
    return _LIVE.fullmatch(name) is not None and not os.path.lexists(name)


def may_exist(name: str) -> bool:
    """Whether there may be a dataset of that name: it exists, or is no path."""
    return os.path.exists(name) or is_pattern(name) or is_live(name)
