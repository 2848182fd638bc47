"""The Huffman tables that files share, against tables for each file.

    python benchmarks/jpeg_tables.py [FOLDER_OF_JPEGS]

Stoker's own decoder keeps the lookup tables of shared sets, so files that have one save it the time
to build them; but their codes are longer. Packs the photographs of `jpeg_decoding.py` both ways,
and prints the share of files with a shared set, the bytes, and the least CPU time of a random
resized crop and of a whole image, in microseconds. Compare ratios, not times of different runs.
"""

import sys
from pathlib import Path

from jpeg_decoding import FILES, QUALITIES, Crop, contenders, crops_of, measured, photographs

from stoker.dataset.images.jpeg import table_choice
from stoker.dataset.images.jpeg.shared_tables import SETS


def packed(files: list[bytes], most_growth_percent: int) -> tuple[list[Crop], list[Crop]]:
    """Return crops and whole images of files that may grow by so much."""
    usual, table_choice.MOST_GROWTH_PERCENT = table_choice.MOST_GROWTH_PERCENT, most_growth_percent
    try:
        return crops_of(files)
    finally:
        table_choice.MOST_GROWTH_PERCENT = usual


def size_of(crops: list[Crop]) -> int:
    """Return the bytes of files and grids."""
    return sum(len(crop.data) + len(crop.grid) for crop in crops)


def main() -> None:
    """Print two lines for each set of files."""
    own = contenders()["stoker"]
    sets = {f"quality {quality}": photographs(quality) for quality in QUALITIES}
    if len(sys.argv) > 1:
        files = sorted(Path(sys.argv[1]).rglob("*.jp*g"))
        files = files[:: max(1, len(files) // FILES)][:FILES]
        sets = {sys.argv[1]: [file.read_bytes() for file in files]}
    print(f"{'':24}{'each us':>10}{'shared us':>10}{'ratio':>8}{'bytes':>8}{'files':>8}")
    for name, files in sets.items():
        each = packed(files, -100)
        shared = packed(files, table_choice.MOST_GROWTH_PERCENT)
        size = size_of(shared[1]) / size_of(each[1])
        count = sum(any(tables in crop.data.tobytes() for tables in SETS) for crop in shared[1])
        for what, a, b in zip(("crops", "whole"), each, shared, strict=True):
            best = measured(
                [*zip(a, b, strict=True)],
                {"each": lambda pair: own(pair[0]), "shared": lambda pair: own(pair[1])},
            )
            row = f"{best['each']:10.1f}{best['shared']:10.1f}{best['shared'] / best['each']:8.3f}"
            print(f"{name + ', ' + what:24}{row}{size:8.3f}{count / len(files):8.2f}", flush=True)


if __name__ == "__main__":
    main()
