"""Build the documentation site, and refuse a page or a link that is wrong.

    python tools/site/build_site.py

Puts the pages together in build/site/pages, and has Zensical write build/site/html in its strict
mode. Pages, pictures and docstrings of the repository are the only sources; nothing comes from the
web.
"""

import subprocess
import sys
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Final

import assistants
import gallery
import navigation
import reference
import staging
import yaml
from diagrams import Drawings

BUILD: Final = staging.ROOT / "build" / "site"
PAGES: Final = BUILD / "pages"


def put_together(pages: Path) -> None:
    """Write all pages of the site into an empty folder."""
    staging.stage(pages, Drawings(BUILD / "drawings"))
    (pages / "gallery.md").write_text(gallery.page(staging.DOCS), "utf-8")
    (pages / "reference").mkdir()
    for name, text in reference.pages().items():
        (pages / "reference" / name).write_text(text, "utf-8")
    copyfile(Path(__file__).with_name("site.css"), pages / "site.css")
    assistants.write_index(pages)


def main() -> int:
    """Build the site; return the exit status."""
    rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    put_together(PAGES)
    settings = Path(__file__).with_name("mkdocs.yml").read_text("utf-8")
    listed = navigation.of_index((staging.DOCS / "README.md").read_text("utf-8"))
    shown = yaml.safe_dump({"nav": listed}, allow_unicode=True, sort_keys=False)
    (BUILD / "mkdocs.yml").write_text(f"{settings}{shown}", "utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    status = subprocess.run(command, cwd=BUILD, check=False).returncode
    if status == 0:
        assistants.copy_pages(PAGES, BUILD / "html")
    return status


if __name__ == "__main__":
    sys.exit(main())
