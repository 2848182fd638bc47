"""Reads the stack that `faulthandler` wrote before a process was killed, for error messages."""

import os
import re
import sysconfig

_FRAME = re.compile(
    r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE
)
_INSTALLED = tuple(
    os.path.join(sysconfig.get_paths()[name], "") for name in ("stdlib", "purelib", "platlib")
)
_OURS = f"{os.sep}stoker{os.sep}"


def describe_stack(stack: str) -> str:
    """Return the function in which a process was, for an error message.

    It is the innermost function outside of Stoker and of installed packages; without such a
    function, the innermost one.

    Args:
        stack: what `faulthandler` wrote, the most recent call first; may be empty.
    """
    frames = list(_FRAME.finditer(stack))
    if not frames:
        return "no stack trace was written; its process may be stopped, or blocked on I/O"
    users = [frame for frame in frames if not _is_installed(frame["file"])]
    found = (users or frames)[0]
    return f"it was in {found['function']} ({found['file']}:{found['line']})"


def users_function(stack: str) -> str | None:
    """Return the innermost function of the stack that a user wrote; None without one."""
    for frame in _FRAME.finditer(stack):
        if not _is_installed(frame["file"]):
            return f"{frame['function']} ({frame['file']}:{frame['line']})"
    return None


def _is_installed(file: str) -> bool:
    return file.startswith((*_INSTALLED, "<")) or _OURS in file
