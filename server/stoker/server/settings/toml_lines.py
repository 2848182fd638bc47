"""The lines of a TOML file on which its keys are, for messages.

`tomllib` does not say them. They are found by the form of a line, which is enough for tables of
plain values. A key that seems to be on two lines, because one of them is within a text of several
lines, has none: a wrong line would be worse.
"""

import re

_TABLE = re.compile(r"\s*\[\s*[\"']?([^\[\]\"']+?)[\"']?\s*\]")
_KEY = re.compile(
    r"""\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*(?:\.\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*)?="""
)


Place = tuple[str, str | None]
"""A section and a key in it; None: the section itself."""


def lines_of(text: str) -> dict[Place, int]:
    """Return the line of each section and key, from 1."""
    found: dict[Place, list[int]] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if table := _TABLE.match(line):
            section = table[1]
            found.setdefault((section, None), []).append(number)
        elif key := _KEY.match(line):
            first, second = (
                next((name for name in names if name is not None), None)
                for names in (key.groups()[:3], key.groups()[3:])
            )
            place = (section, first) if section else (first or "", second)
            found.setdefault(place, []).append(number)
    return {place: lines[0] for place, lines in found.items() if len(lines) == 1}
