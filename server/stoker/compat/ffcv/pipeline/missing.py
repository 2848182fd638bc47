"""Names of FFCV that have no meaning here: an import of one says what takes its place.

Python replaces the text of an AttributeError by its own if `from module import name` fails, so that
such an import gets an ImportError.
"""

import dis
import sys
from typing import Final

IMPORT_FROM: Final = dis.opmap["IMPORT_FROM"]


def missing(module: str, name: str, instead: str) -> Exception:
    """Return the exception for a name that a module does not have, in its `__getattr__`.

    Args:
        module: of FFCV, such as "transforms".
        name: what was asked for.
        instead: what to use; ends the message.
    """
    asked = sys._getframe(2)
    message = f"stoker.compat.ffcv.{module} has no {name}; {instead}"
    if not name.startswith("__") and asked.f_code.co_code[asked.f_lasti] == IMPORT_FROM:
        return ImportError(message, name=f"stoker.compat.ffcv.{module}")
    return AttributeError(message)
