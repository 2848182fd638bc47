"""Explain why a file of a certain name may not exist.

Other programs expand or convert such names; Stoker does not.
"""

import re
from typing import Final

_HABITS: Final = (
    (r"\ufeff", "it begins with a byte order mark, as where files were joined: remove it"),
    (r"ipc:/", "the address of a daemon begins with ipc:///"),
    (r"[A-Za-z][\w+.-]+:/", "it is an address: download the file, and write its path"),
    (r"[A-Za-z]:[/\\]", "it is a path of another computer, with Windows: write that of this one"),
    (r"[\"']", "its quotes are taken as a part of it: leave them out"),
    (r"~", "~ is not expanded here: write the path of the home folder"),
    (r".*(\$\{?[A-Za-z_]|%[A-Za-z_]\w*%)", "variables are not expanded here: write their values"),
    (r".*\\", "folders are separated by / here, not by a backslash"),
)
"""The start of a name -> what to change."""


def why_absent(name: str) -> str:
    """Return a clause for the end of a message: what to change in the name; "" if it looks right.

    Args:
        name: the name as a user wrote it, without a folder that Stoker put before it.
    """
    told = next((told for habit, told in _HABITS if re.match(habit, name.strip(), re.DOTALL)), "")
    return told and f"; {told}"
