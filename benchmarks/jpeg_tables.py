"""One set of Huffman tables for all gridded JPEGs of a dataset, against tables for each file.

    python benchmarks/jpeg_tables.py [FOLDER_OF_JPEGS]

Stoker's own decoder keeps the tables of the file before, so files with the same tables save it the
time to build them; but their codes are longer. Packs the photographs of `jpeg_decoding.py` both
ways, and prints the bytes and the least CPU time of a random resized crop and of a whole image, in
microseconds. Compare ratios, not times of different runs.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jpeg_decoding import FILES, QUALITIES, Crop, contenders, crops_of, measured, photographs

from stoker.dataset.images.jpeg import grid_rewrite
from stoker.dataset.images.jpeg.huffman import best_table
from stoker.dataset.images.jpeg.segments import HuffmanTable

Tables = Callable[[np.ndarray], HuffmanTable]


@contextmanager
def tables_by(make: Tables) -> Iterator[None]:
    """Let `make` choose the tables of files that are rewritten, in the order DC, AC, DC, AC."""
    grid_rewrite.best_table = make
    try:
        yield
    finally:
        grid_rewrite.best_table = best_table


def counted(files: list[bytes]) -> np.ndarray:
    """Return how often each symbol occurs in files of three components, (4, 256)."""
    found: list[np.ndarray] = []

    def note(frequencies: np.ndarray) -> HuffmanTable:
        found.append(frequencies.copy())
        return best_table(frequencies)

    with tables_by(note):
        crops_of(files)
    return np.sum(np.reshape(found, (-1, 4, 256)), axis=0)


def shared(counts: np.ndarray) -> Tables:
    """Return what gives every file the same tables, with a code for each baseline symbol."""
    every = np.zeros((4, 256), np.int64)
    every[::2, :12] = 1
    every[1::2] = (np.arange(256) & 15 > 0) & (np.arange(256) & 15 <= 10)
    every[1::2, [0x00, 0xF0]] = 1
    tables = [best_table(row) for row in 1000 * counts + every]
    calls = iter(range(1 << 62))
    return lambda _: tables[next(calls) % 4]


def size_of(crops: list[Crop]) -> int:
    """Return the bytes of files and grids."""
    return sum(len(crop.data) + len(crop.grid) for crop in crops)


def main() -> None:
    """Print a line for each set of files."""
    own = contenders()["stoker"]
    sets = {f"quality {quality}": photographs(quality) for quality in QUALITIES}
    if len(sys.argv) > 1:
        files = sorted(Path(sys.argv[1]).glob("*.jp*g"))[:FILES]
        sets = {sys.argv[1]: [file.read_bytes() for file in files]}
    print(f"{'':24}{'each us':>10}{'one us':>10}{'ratio':>8}{'bytes':>8}")
    for name, files in sets.items():
        each = crops_of(files)
        with tables_by(shared(counted(files))):
            one = crops_of(files)
        size = size_of(one[1]) / size_of(each[1])
        for what, a, b in zip(("crops", "whole"), each, one, strict=True):
            best = measured(
                [*zip(a, b, strict=True)],
                {"each": lambda pair: own(pair[0]), "one": lambda pair: own(pair[1])},
            )
            row = f"{best['each']:10.1f}{best['one']:10.1f}{best['one'] / best['each']:8.3f}"
            print(f"{name + ', ' + what:24}{row}{size:8.3f}", flush=True)


if __name__ == "__main__":
    main()
