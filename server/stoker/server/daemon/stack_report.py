"""Where a process is, from the stack that `faulthandler` wrote before it was killed."""

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
    """Return the function that a process is in, for an error message.

    It is the innermost function that belongs neither to Stoker nor to an installed package; if
    there is none, the innermost one.

    Args:
        stack: what `faulthandler` wrote, the most recent call first; may be empty.
    """
    frames = list(_FRAME.finditer(stack))
    if not frames:
        return "its process did not say where it is; it may be stopped, or wait for storage"
    users = [frame for frame in frames if not _is_installed(frame["file"])]
    found = (users or frames)[0]
    return f"it was in {found['function']} ({found['file']}:{found['line']})"


def users_function(stack: str) -> str | None:
    """Return the innermost function of the stack that is a user's; None if there is none."""
    for frame in _FRAME.finditer(stack):
        if not _is_installed(frame["file"]):
            return f"{frame['function']} ({frame['file']}:{frame['line']})"
    return None


def _is_installed(file: str) -> bool:
    return file.startswith((*_INSTALLED, "<")) or _OURS in file
