"""Flags that are given several times, as NAME=VALUE."""

from collections.abc import Iterable

from stoker.protocol.errors import UsageError


def named(flag: str, values: Iterable[str] | None, form: str = "NAME=VALUE") -> dict[str, str]:
    """Read repeated NAME=VALUE flags.

    Args:
        flag: its name, for messages.
        values: as they were given, or None.
        form: what is expected, for messages.

    Raises:
        UsageError: one has no name or no value, or a name comes twice.
    """
    found: dict[str, str] = {}
    for text in values or ():
        name, _, value = text.partition("=")
        if not name or not value:
            raise UsageError(f"{flag} {text!r}: expected {form}")
        if name in found:
            raise UsageError(
                f"{flag} {text!r}: {name!r} is {found[name]!r} already; give each name once"
            )
        found[name] = value
    return found
