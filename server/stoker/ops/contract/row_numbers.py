"""The numbers of a row that a caller in this process passes: seed, epoch, id, visit, view, step.

A number that is nearly right (1.5, True) would silently mean another row.
"""

from typing import Final

from stoker.ops.contract.numbers import settled
from stoker.protocol.errors import UsageError
from stoker.rng.streams import MAX_VIEW, MAX_VISIT, MAX_WORD

MOST: Final = {
    "seed": MAX_WORD,
    "id": MAX_WORD,
    "epoch": MAX_WORD,
    "visit": MAX_VISIT,
    "view": MAX_VIEW,
    "step": MAX_WORD,
}


def row_number(name: str, value: object) -> int:
    """Return one of a row's numbers; NumPy integers become Python integers too.

    Raises:
        UsageError: it is not an integer, or out of range.
    """
    if type(value) is int and 0 <= value <= MOST[name]:
        return value
    number = settled(value)
    whole = isinstance(number, int) and not isinstance(number, bool)
    if whole and 0 <= number <= MOST[name]:
        return int(number)
    raise UsageError(f"{name}: expected an integer from 0 to {MOST[name]}, got {value!r}")
