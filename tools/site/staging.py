"""Where each file of the repository stands on the site, and its text with links that lead there.

README.md is the front page, docs/README.md is `contents.md`, and the other pages of docs/ keep
their names. What they link to outside of docs/ comes along below `repository/`: a Markdown page as
it is, any other file as a page that shows its text. So every link of the site leads to a page of
the site, and the build can check it.
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tests" / "house"))

from links import FENCE, LINK  # noqa: E402

CODE: Final = r"`+[^`\n]+`+"
LINK_OR_CODE: Final = re.compile(f"{FENCE.pattern}|{CODE}|(?P<link>{LINK.pattern})", FENCE.flags)
LINK_GROUP: Final = LINK_OR_CODE.groupindex["link"] + 1
FRONT: Final = {ROOT / "README.md": Path("index.md"), DOCS / "README.md": Path("contents.md")}
DIAGRAM: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT: Final = re.compile(r"^<!--.*?-->\n?", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
LANGUAGES: Final = {".py": "python", ".service": "ini", ".toml": "toml", ".yaml": "yaml"}
STAGED: Final = (".jpg", ".json", ".md", ".png", ".svg")
NOT_SEARCHED: Final = "---\nsearch:\n  exclude: true\n---\n\n"


def place(file: Path) -> Path:
    """Return where a file of the repository stands on the site."""
    if file in FRONT:
        return FRONT[file]
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS)
    name = Path("repository", str(file.relative_to(ROOT)).lstrip("."))  # Zensical skips hidden ones
    if file.name == "README.md":
        return name.parent.with_suffix(".md")
    return name if file.suffix == ".md" else name.with_name(f"{name.name}.md")


def stage(pages: Path, draw: Callable[[str], str]) -> None:
    """Write docs/, and every file that it links to, as pages of the site.

    Args:
        pages: an empty folder, or one that this function filled earlier.
        draw: makes a drawing (SVG) of the text of a diagram.
    """
    waiting = [*FRONT, *(path for path in DOCS.rglob("*") if path.suffix in STAGED)]
    seen = set(waiting)
    while waiting:
        file = waiting.pop()
        target = pages / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix != ".md":
            _copy(file, target)
            continue
        text, linked = moved(file, file.read_text("utf-8"))
        target.write_text(_with_drawings(text, target, pages, draw), "utf-8")
        waiting += sorted(linked - seen)
        seen |= linked


def _copy(file: Path, target: Path) -> None:
    if file.is_relative_to(DOCS):
        target.write_bytes(file.read_bytes())
        return
    if file.is_dir():
        shown = "".join(f"{one.name}\n" for one in sorted(file.iterdir()))
    else:
        shown = file.read_text("utf-8")
    name, language = file.relative_to(ROOT), LANGUAGES.get(file.suffix, "text")
    text = f"{NOT_SEARCHED}# {name}\n\n``````{language}\n{shown}``````\n"
    target.write_text(text, "utf-8")


def moved(file: Path, text: str) -> tuple[str, set[Path]]:
    """Return the text of a page for its place on the site, and the files that it links to.

    Comments are left out: they set up what the tests of a page need.
    """
    linked: set[Path] = set()
    here = place(file).parent

    def one(match: re.Match[str]) -> str:
        target = match[LINK_GROUP]
        if target is None or target.startswith("#") or re.match(r"[a-z][a-z0-9+.-]*:", target):
            return match[0]
        name, mark, fragment = target.partition("#")
        found = (file.parent / name).resolve()
        if not found.exists():
            return match[0]  # the site's builder refuses it, by page and line
        linked.add(found)
        new = os.path.relpath(place(found), here) + mark + fragment
        return match[0].replace(f"({target}", f"({new}")

    return LINK_OR_CODE.sub(one, COMMENT.sub("", text)), linked


def _with_drawings(text: str, page: Path, pages: Path, draw: Callable[[str], str]) -> str:
    def one(match: re.Match[str]) -> str:
        before = HEADING.findall(text, 0, match.start())
        number = len(DIAGRAM.findall(text, 0, match.start())) + 1
        picture = page.with_name(f"{page.stem}-{number}.svg")
        picture.write_text(draw(match[1]), "utf-8")
        return f"![Diagram: {before[-1]}]({picture.name}){{.diagram}}"

    return DIAGRAM.sub(one, text)
