"""What the site has for programs that read it: llms.txt, and each page as Markdown.

llms.txt lists the pages as docs/README.md does; docs/SKILL.md says how Stoker is used. A page's
Markdown stands beside its HTML.
"""

from pathlib import Path
from shutil import copyfile
from typing import Final

BEFORE: Final = """# Stoker

> A data-loader server for deep learning: a daemon decodes and augments images with compiled
> pipelines, and hands batches to PyTorch or NumPy through shared memory. The same seed always gives
> the same bytes. For Linux and Python 3.11 or newer.

Begin with [SKILL.md](SKILL.md): how to use Stoker, with the mistakes that code often makes. The API
reference of each public module is in reference/, such as
[stoker.client](reference/stoker.client.md). All pages are Markdown.

"""


def write_index(pages: Path) -> None:
    """Write llms.txt into the folder of the pages."""
    contents = (pages / "contents.md").read_text("utf-8")
    (pages / "llms.txt").write_text(BEFORE + contents[contents.index("## ") :], "utf-8")


def copy_pages(pages: Path, site: Path) -> None:
    """Put the Markdown of each page beside its HTML."""
    for page in sorted(pages.rglob("*.md")):
        copy = site / page.relative_to(pages)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copyfile(page, copy)
