"""The gallery: a page with the picture of every op, by what the op changes.

The pictures are those of docs/ops.md, which docs/images/ops.py and docs/images/batch_ops.py draw on
a photograph of scikit-image; each leads to its op's section there.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import batch_ops, folds, registered

ROOMS: Final = {
    "geometry": "Geometry",
    "color": "Color",
    "filters": "Filters and noise",
    "values": "Values",
    "mixes": "Several images",
}
"""Folder of an op's file -> heading."""
BEFORE: Final = """# Op gallery

Each picture shows a photograph (coffee of scikit-image, by Rachel Michetti, CC0) and what the op
makes of it, with one fixed draw. A click leads to the op's parameters. An op that is called with an
image and its mask, boxes or keypoints makes one decision for all of them.

"""


def page(docs: Path) -> str:
    """Return the page.

    Args:
        docs: the folder of the pages and pictures.

    Raises:
        FileNotFoundError: an op's folder is not a room, or no op has a picture.
    """
    cards = defaultdict[str, list[str]](list)
    for name, op in sorted({**registered(), **folds(), **batch_ops()}.items()):
        for folder in ("ops", "batch_ops"):
            picture = Path("images", folder, f"{name}.jpg")
            if (docs / picture).exists():
                cards[op.__module__.split(".")[-2]].append(card(name, op, picture))
    if not cards or cards.keys() - ROOMS.keys():
        raise FileNotFoundError(f"expected pictures of ops of {[*ROOMS]}, got {[*cards]}")
    return BEFORE + "\n".join(part for room in ROOMS for part in _part(room, cards[room]))


def _part(room: str, cards: list[str]) -> Iterator[str]:
    if cards:
        yield f'## {ROOMS[room]}\n\n<div class="gallery" markdown>\n'
        yield from cards
        yield "</div>\n"


def card(name: str, op: type[Op], picture: Path) -> str:
    """Return the picture of an op with its name and the first sentence about it."""
    about = " ".join((op.__doc__ or "").split()).split(". ")[0].rstrip(".")
    link = f"ops.md#{name}"
    shown = f"[![A photograph before and after {name}]({picture})]({link})"
    text = f"[`{name}`]({link}): {about}."
    return f'<div class="card" markdown>\n\n{shown}\n\n{text}\n\n</div>\n'
