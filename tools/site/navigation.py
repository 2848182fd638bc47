"""The navigation of the site: headings and links of docs/README.md, and the pages that are made.

A heading of the second level is a tab, one of the third a group in it.
"""

import os
import re
from pathlib import Path
from typing import Any, Final

import staging
from reference import MODULES

FOUND: Final = re.compile(
    r"^(?P<marks>##+) (?P<heading>.+)$|(?<!!)\[(?P<title>[^\]]+)\]\((?P<page>[^)#]+\.md)\)",
    re.MULTILINE,
)
GALLERY: Final = {"Op gallery": "gallery.md"}
AFTER_OPS: Final = "ops.md"


def of_index(text: str) -> list[dict[str, Any]]:
    """Return the navigation for the text of docs/README.md; links before a heading are left out."""
    tabs: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for found in FOUND.finditer(text):
        if found["page"]:
            page = str(staging.place(_file(found["page"])))
            entries.append({found["title"][0].upper() + found["title"][1:]: page})
            entries += [GALLERY] if page == AFTER_OPS else []
            continue
        entries, outer = [], tabs if found["marks"] == "##" else next(iter(tabs[-1].values()))
        outer.append({found["heading"]: entries})
    api = [
        {"API reference": "reference/index.md"},
        *({one: f"reference/{one}.md"} for one in MODULES),
    ]
    return [{"Home": "index.md"}, *tabs, {"API": api}]


def _file(page: str) -> Path:
    return Path(os.path.normpath(staging.DOCS / page))
