"""Check that every link of the documentation resolves: file, and heading within it.

    python tests/house/links.py [FOLDER]

Reads every Markdown file below the folder (the repository by default), outside fenced code. A link
to a file must name one that exists; a fragment must be a heading's slug as GitHub makes it. Links
that leave the repository by path are refused; links to the web are not looked up. Prints one line a
dead link, and exits 1 if there is one.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

SKIPPED = {".venv", ".git", "node_modules", "demo", "build", "dist", "data", "results"}
LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
FENCE = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def without_code(text: str) -> str:
    """Blank out fenced and inline code, keeping the lines."""
    text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return re.sub(r"`[^`\n]*`", "", text)


def slugs(text: str) -> set[str]:
    """Return the fragments that the headings of a page answer to."""
    found: dict[str, int] = {}
    for heading in HEADING.findall(FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        number = found.get(slug, 0)
        found[slug] = number + 1
        if number:
            found[f"{slug}-{number}"] = 1
    return set(found)


def dead_links(page: Path, root: Path) -> Iterator[str]:
    """Name each dead link of a page: where it stands and what is wrong."""
    text = page.read_text(encoding="utf-8")
    prose = without_code(text)
    for match in [*LINK.finditer(prose), *REFERENCE.finditer(prose)]:
        fault = _fault(match[1], page, root)
        if fault:
            line = prose.count("\n", 0, match.start()) + 1
            yield f"{page.relative_to(root)}:{line}: {match[1]}: {fault}"


def _fault(target: str, page: Path, root: Path) -> str | None:
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    name, _, fragment = target.partition("#")
    file = (page.parent / name).resolve() if name else page.resolve()
    if not file.is_relative_to(root.resolve()):
        return "leads out of the repository"
    if not file.exists():
        return "no such file"
    if fragment and file.suffix == ".md" and fragment not in slugs(file.read_text("utf-8")):
        return "no such heading"
    return None


def pages(root: Path) -> list[Path]:
    """Return the Markdown files below a folder, in order."""
    found = root.rglob("*.md")
    return sorted(p for p in found if not SKIPPED & set(p.relative_to(root).parts[:-1]))


def main() -> int:
    """Run the check; return the exit status."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    read = pages(root)
    dead = [line for page in read for line in dead_links(page, root)]
    sys.stdout.writelines(f"{line}\n" for line in dead)
    sys.stdout.write(f"{len(read)} pages, {len(dead)} dead links\n")
    return 1 if dead or not read else 0


if __name__ == "__main__":
    sys.exit(main())
