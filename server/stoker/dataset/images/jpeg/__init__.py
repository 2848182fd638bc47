"""Crop-indexed JPEG: files rewritten on a grid of restart intervals, and windows cut out of them.

`rewrite` converts a JPEG to one with the same pixels whose scan can be entered every few MCUs.
`Splicer` builds a smaller valid JPEG from the intervals that a window touches. `images`, `format`,
previews and builders import it. Nothing is decoded to pixels here, and it must not know schemas or
files. The only room of `dataset` that uses numba.
"""

from stoker.dataset.images.jpeg.checksums import check_all_parts
from stoker.dataset.images.jpeg.grid import Grid
from stoker.dataset.images.jpeg.grid_rewrite import Rewritten, rewrite
from stoker.dataset.images.jpeg.segments import UnindexableError
from stoker.dataset.images.jpeg.splice import CutJpeg, Splicer

__all__ = [
    "CutJpeg",
    "Grid",
    "Rewritten",
    "Splicer",
    "UnindexableError",
    "check_all_parts",
    "rewrite",
]
