"""Left and right in the names of keypoints: which numbers a mirror swaps. Pure functions."""

import re
from collections.abc import Sequence
from typing import Final

_LEFT: Final = re.compile("left|right", re.IGNORECASE)
_LETTER: Final = re.compile(r"(?<![^\W_])[lr](?![^\W_])", re.IGNORECASE)
_OTHER: Final = {"left": "right", "right": "left", "l": "r", "r": "l"}


def paired_numbers(names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the numbers of names that differ in left and right alone, as `left_eye`, `right_eye`.

    Case does not matter. The words `left` and `right` count anywhere in a name; the letters `l` and
    `r` count where no letter or digit is next to them, as in `L_eye` or `eye.l`.

    Args:
        names: name of the keypoint 0, 1, ...

    Returns:
        Pairs (lower number, higher number), in the order of the lower one. A name that occurs twice
        has no pair.
    """
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        numbers.setdefault(name.lower(), []).append(number)
    found = []
    for name, (number, *twins) in numbers.items():
        other, *others = numbers.get(_mirrored(name), [number])
        if number < other and not twins and not others:
            found.append((number, other))
    return tuple(sorted(found))


def _mirrored(name: str) -> str:
    pattern = _LEFT if _LEFT.search(name) else _LETTER
    return pattern.sub(lambda match: _OTHER[match[0].lower()], name)
