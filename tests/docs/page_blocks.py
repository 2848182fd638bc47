"""The fenced blocks of a documentation page, and what a comment above a block says of it.

A comment on the line above a fence says how the block is treated:

    <!-- not run: needs two GPUs -->     Python: left out, for a reason that a reader can check
    <!-- file: pipelines.py -->          Python or TOML: written to a file of that name
    <!-- run -->                         console: its `stoker` commands are run

Python without a comment is run; other languages without one are only read. A block that an HTML
comment is wrapped round, `<!--` on the line above it and `-->` on that below, is run and not shown:
there a page sets up what its readers have at hand.
"""

import re
from pathlib import Path
from typing import NamedTuple

PLACES = ("*.md", "docs/**/*.md", "deploy/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!-- (?P<word>run|not run|file)(?:: (?P<rest>.+))? -->")
MEANINGS = {
    ("python", "not run", True),
    ("python", "file", True),
    ("toml", "file", True),
    ("console", "run", False),
}
"""(language, word, whether a text follows it) of the comments that there are."""


class PageError(ValueError):
    """A page says something of a block that has no meaning; names page and line."""


class Block(NamedTuple):
    """A fenced block.

    Attributes:
        language: as the fence names it; empty if it does not.
        line: number of its first line within the page, from 1.
        text: what stands inside.
        word: "run", "not run" or "file"; empty for a block that is only read.
        rest: the reason or the name of the file.
    """

    language: str
    line: int
    text: str
    word: str
    rest: str


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order.

    Raises:
        PageError: a comment above a block does not fit it, or a fence is not closed.
    """
    text = page.read_text(encoding="utf-8")
    found = [_block(page, text, match) for match in FENCE.finditer(text)]
    if text.count("\n```") + text.startswith("```") != 2 * len(found):
        raise PageError(f"{page}: a fence is not closed, or not of the form ```language")
    return found


def _block(page: Path, text: str, match: re.Match[str]) -> Block:
    language = match["language"]
    before = text[: match.start()].splitlines()
    above = before[-1] if before else ""
    line = len(before) + 2
    if not above.startswith("<!--"):
        return Block(language, line, match["text"], "run" if language == "python" else "", "")
    if not above.endswith("-->"):
        return Block(language, line, match["text"], "run", "")
    comment = COMMENT.fullmatch(above)
    if comment is None or (language, comment["word"], bool(comment["rest"])) not in MEANINGS:
        raise PageError(f"{page}:{line - 2}: {above} means nothing above a block of {language!r}")
    return Block(language, line, match["text"], comment["word"], comment["rest"] or "")


def pages(root: Path) -> list[str]:
    """Return the Markdown pages of the repository, as paths from its root."""
    return sorted({str(p.relative_to(root)) for place in PLACES for p in root.glob(place)})


def is_run(page: Path) -> bool:
    """Return whether anything on a page is run."""
    return any(block.word == "run" for block in blocks(page))
