"""Names of FFCV that have no meaning here: an import of one says what takes its place.

Python replaces the text of an AttributeError by its own if `from module import name` fails, so that
such an import gets an ImportError.
"""

import dis
import sys
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

IMPORT_FROM: Final = dis.opmap["IMPORT_FROM"]


def missing_names(
    module: str, instead: str, others: Mapping[str, str] | None = None
) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module.

    Args:
        module: its name, `__name__`.
        instead: what to use in place of a name; ends the message.
        others: the same for single names.
    """

    def refuse(name: str) -> NoReturn:
        asked = sys._getframe(1)
        message = f"{module} has no {name}; {(others or {}).get(name, instead)}"
        if not name.startswith("__") and asked.f_code.co_code[asked.f_lasti] == IMPORT_FROM:
            raise ImportError(message, name=module)
        raise AttributeError(message)

    return refuse
