"""Names of splits: text that could be one, as opposed to the path of a file.

A split is a subset that the manifest of a dataset names; see docs/contracts/dataset.md.
"""

import re
from typing import Final

MAX_SPLIT_NAME: Final = 64
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def is_split_name(given: object) -> bool:
    """Return whether it is text that could name a split; other text is the path of a file."""
    return isinstance(given, str) and NAME.fullmatch(given) is not None
