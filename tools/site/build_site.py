"""Build the documentation site, and refuse a page or a link that is wrong.

    python tools/site/build_site.py

Puts the pages together in build/site/pages, and has Zensical write build/site/html in its strict
mode. docs/images, Markdown and docstrings are the only sources; nothing comes from the web.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Any, Final

import gallery
import reference
import staging
import yaml
from diagrams import Drawings

BUILD: Final = staging.ROOT / "build" / "site"
PAGES: Final = BUILD / "pages"
CONFIGURATION: Final = staging.ROOT / "mkdocs.yml"


def put_together(pages: Path) -> None:
    """Write all pages of the site into an empty folder."""
    staging.stage(pages, Drawings(BUILD / "drawings"))
    (pages / "gallery.md").write_text(gallery.page(staging.DOCS), "utf-8")
    (pages / "reference").mkdir()
    for name, text in reference.pages().items():
        (pages / "reference" / name).write_text(text, "utf-8")
    copyfile(Path(__file__).with_name("site.css"), pages / "site.css")


class _Loader(yaml.SafeLoader):
    """Reads the configuration without making the Python objects that it names."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


def in_navigation(configuration: Path) -> set[str]:
    """Return the pages that the navigation names."""

    def names(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for part in entry.values() if isinstance(entry, dict) else entry:
            if not isinstance(entry, str):
                yield from names(part)

    return {*names(yaml.load(configuration.read_text("utf-8"), _Loader)["nav"])}


def check_navigation(pages: Path, configuration: Path) -> None:
    """Refuse pages that no reader finds, and entries without a page.

    Raises:
        SystemExit: the navigation and the pages differ.
    """
    there = {str(path.relative_to(pages)) for path in pages.rglob("*.md")}
    named = in_navigation(configuration)
    faults = [
        *(f"{name}: there is no such page" for name in sorted(named - there)),
        *(
            f"{name}: no entry names this page"
            for name in sorted(there - named)
            if not name.startswith("repository/")
        ),
    ]
    if faults:
        raise SystemExit("\n".join(["mkdocs.yml, nav:", *faults]))


def main() -> int:
    """Build the site; return the exit status."""
    rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    put_together(PAGES)
    check_navigation(PAGES, CONFIGURATION)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=staging.ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
