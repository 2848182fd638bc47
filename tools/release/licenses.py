"""The licenses in a bill of materials: a table of them, and whether users may be given each."""

import re
from collections.abc import Sequence
from typing import Any, Final

ALLOWED: Final = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0"),
        *("MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib", "Apache-2.0 WITH LLVM-exception"),
        *("BSD License", "MIT License", "Apache Software License"),
    )
)
"""Names, SPDX's or the classifiers', of licenses that ask for a notice (MPL-2.0: for its files)."""
CLASSIFIER: Final = "License :: OSI Approved :: "


class LicenseError(Exception):
    """A package has a license that is not allowed, or none; names both."""


def license_of(component: dict[str, Any]) -> str:
    """Return the license of a component of a bill, as an expression; empty if it has none."""
    said = [
        one.get("expression") or one["license"].get("id") or one["license"]["name"]
        for one in component.get("licenses", [])
    ]
    return " AND ".join(one.removeprefix(CLASSIFIER) for one in said)


def is_allowed(expression: str) -> bool:
    """Return whether allowed licenses alone meet an expression.

    Of alternatives (OR) one must be allowed; in an expression with brackets every license must.
    """
    choices = [expression] if "(" in expression else expression.split(" OR ")
    return any(
        all(one.strip() in ALLOWED for one in re.split(r" AND | OR |[()]+", choice) if one.strip())
        for choice in choices
        if choice.strip()
    )


def table(components: Sequence[dict[str, Any]]) -> str:
    """Return components, their versions and licenses as a table of Markdown, in order of name.

    Raises:
        LicenseError: a license is not allowed.
    """
    rows = sorted(((one["name"], one["version"], license_of(one)) for one in components), key=_name)
    wrong = [row for row in rows if not is_allowed(row[2])]
    if wrong:
        listed = "; ".join(f"{name} {version}: {said or 'none'}" for name, version, said in wrong)
        raise LicenseError(f"expected licenses among {sorted(ALLOWED)}, got {listed}")
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(["| package | version | license |", "| --- | --- | --- |", *lines, ""])


def _name(row: tuple[str, str, str]) -> str:
    return row[0].lower()
