"""Drawings (SVG) of the Mermaid diagrams of the pages, made once for each text.

They are drawn while the site is built, so that a page needs no script, and a diagram that Mermaid
does not understand ends the build.
"""

import hashlib
import re
from importlib.metadata import version
from pathlib import Path


class Drawings:
    """Draws diagrams, and keeps the drawings in a folder.

    Args:
        folder: where they are kept from build to build.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, text: str) -> str:
        """Return the drawing of a diagram.

        Raises:
            RuntimeError: Mermaid does not understand the text.
        """
        key = hashlib.blake2b(f"{version('mermaidx')}\n{text}".encode(), digest_size=16)
        kept = self._folder / f"{key.hexdigest()}.svg"
        if not kept.exists():
            import mermaidx  # noqa: PLC0415 - it starts threads

            kept.write_text(sized(mermaidx.render(text).svg()), "utf-8")
        return kept.read_text("utf-8")


def sized(drawing: str) -> str:
    """Return a drawing with its own width, where Mermaid writes that of the page."""
    width = re.search(r'viewBox="\S+ \S+ ([\d.]+) [\d.]+"', drawing)
    return drawing.replace('width="100%"', f'width="{width[1]}"', 1) if width else drawing
