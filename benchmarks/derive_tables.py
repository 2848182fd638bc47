"""Derive the shared Huffman tables of `stoker pack` from photographs, and print them.

    python benchmarks/derive_tables.py FOLDER... [--sets 3] [--check]

FOLDER has photographs as JPEG or PNG, larger than 640x480. Cuts of each are coded at several
qualities and samplings and rewritten on a grid; their symbols are counted. Files are grouped by
k-means, in which the distance of a file from a set is how much it grows with these tables.
`--check` derives from three quarters of the photographs, and prints how much files of the others
grow.

The tables of `shared_tables.py` come from 44 photographs in Debian's packages
lomiri-wallpapers-16.04, lomiri-wallpapers-20.04 (names with `_by_`), mate-backgrounds (nature and
Elephants_3840x2160) and plasma-workspace-wallpapers (2560x1600.jpg). A set is never changed there,
since decoders recognize it by its bytes, and fingerprints depend on it: others are added behind.
"""

import argparse
import io
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from PIL import Image

from stoker.dataset.images.jpeg import grid_rewrite, rewrite
from stoker.dataset.images.jpeg.huffman import best_table, body_of, codes_of
from stoker.dataset.images.jpeg.segments import HuffmanTable

SIZES: Final = ((500, 375), (375, 500), (640, 480), (320, 240))
QUALITIES: Final = (60, 75, 85, 90, 95)
SAMPLINGS: Final = ("4:2:0", "4:2:0", "4:2:0", "4:2:2", "4:4:4")
GRAINS: Final = (0, 0, 3, 6)
"""Deviations of noise that is added: a photograph that was made smaller has little of its own."""
CUTS: Final = 8
ROUNDS: Final = 25
BOUNDS: Final = (0.02, 0.03, 0.04)
_NUMBERS: Final = np.arange(256)
VALID: Final = np.array(
    [
        _NUMBERS <= 11,
        (_NUMBERS & 15 > 0) & (_NUMBERS & 15 <= 10) | np.isin(_NUMBERS, (0x00, 0xF0)),
    ]
    * 2
)
"""The symbols that baseline files can have, (4, 256): DC, AC, DC, AC."""


class Counted(NamedTuple):
    """What is known of the files; n is their number.

    Attributes:
        symbols: (n, 4, 256), how often each symbol occurs.
        bits: (n,), of all codes with the tables of each file.
        heads: (n,), bytes of these tables.
        sizes: (n,), bytes.
        photographs: (n,), number of its photograph.
    """

    symbols: np.ndarray
    bits: np.ndarray
    heads: np.ndarray
    sizes: np.ndarray
    photographs: np.ndarray

    def growth(self, lengths: np.ndarray) -> np.ndarray:
        """Return by which part each file grows with the codes of a set, (4, 256) lengths."""
        bits = np.einsum("ntk,tk->n", self.symbols, lengths.astype(float))
        head = 4 * 17 + VALID.sum()
        growth: np.ndarray = ((bits - self.bits) / 8 + head - self.heads) / self.sizes
        return growth


def cuts(photograph: Image.Image, rng: np.random.Generator) -> list[bytes]:
    """Return JPEGs of cuts of a photograph."""
    found = []
    for number in range(CUTS):
        width, height = SIZES[number % len(SIZES)]
        most = max(1.01, min(photograph.width / width, photograph.height / height))
        scale = np.exp(rng.uniform(0, np.log(most)))
        across = min(photograph.width, round(width * scale))
        down = min(photograph.height, round(height * scale))
        left = int(rng.integers(0, photograph.width - across + 1))
        top = int(rng.integers(0, photograph.height - down + 1))
        box = (left, top, left + across, top + down)
        pixels = np.asarray(photograph.resize((width, height), Image.Resampling.LANCZOS, box))
        noise = rng.normal(0, 1, pixels.shape[:2])[..., None] * GRAINS[number % len(GRAINS)]
        cut = Image.fromarray((pixels + noise).clip(0, 255).round().astype(np.uint8))
        for quality in QUALITIES:
            out = io.BytesIO()
            sampling = SAMPLINGS[int(rng.integers(len(SAMPLINGS)))]
            cut.save(out, "JPEG", quality=quality, subsampling=sampling)
            found.append(out.getvalue())
    return found


def counted(paths: list[Path]) -> Counted:
    """Rewrite cuts of all photographs, and count their symbols."""
    found: list[np.ndarray] = []

    def note(counts: np.ndarray) -> list[HuffmanTable]:
        found.append(counts.copy())
        return [best_table(row) for row in counts]

    grid_rewrite.chosen_tables = note
    rng, sizes, photographs = np.random.default_rng(7), [], []
    for number, path in enumerate(paths):
        with Image.open(path) as image:
            photograph = image.convert("RGB")
        for data in cuts(photograph, rng):
            sizes.append(len(rewrite(data).data))
            photographs.append(number)
    symbols = np.array(found, float)
    lengths = [[codes_of(best_table(row))[1] for row in np.int64(file)] for file in symbols]
    bits = np.einsum("ntk,ntk->n", symbols, np.array(lengths, float))
    heads = 4 * 17 + (symbols > 0).sum((1, 2))
    return Counted(symbols, bits, heads, np.array(sizes), np.array(photographs))


def tables_of(weights: np.ndarray) -> list[HuffmanTable]:
    """Return the tables for frequencies, (4, 256), with a code for each valid symbol."""
    shares = weights / weights.sum(1, keepdims=True)
    return [best_table(row) for row in np.int64(1e7 * shares) + VALID]


def derived(files: Counted, which: np.ndarray, sets: int) -> list[list[HuffmanTable]]:
    """Return sets of tables for some of the files, those for the smallest files first.

    A file counts by the root of its size: smooth pictures, of which wallpapers have many, gain
    little by tables of their own, and the largest ones should not decide alone.
    """
    weights = files.symbols[which] / np.sqrt(files.sizes[which])[:, None, None]
    order = np.argsort(files.sizes[which])
    shares = np.cumsum(weights.sum((1, 2))[order])
    groups = np.empty(len(which), int)
    groups[order] = np.minimum(sets * shares // shares[-1], sets - 1)
    for _ in range(ROUNDS):
        found = [tables_of(weights[groups == number].sum(0)) for number in range(sets)]
        groups = np.argmin([files.growth(lengths_of(tables))[which] for tables in found], 0)
    return found


def lengths_of(tables: list[HuffmanTable]) -> np.ndarray:
    """Return the lengths of all codes, (4, 256)."""
    return np.array([codes_of(table)[1] for table in tables])


def check(files: Counted, sets: int) -> None:
    """Print how much files grow with tables that were derived from other photographs."""
    growth = np.empty(len(files.sizes))
    for part in range(4):
        is_other = files.photographs % 4 == part
        found = derived(files, np.flatnonzero(~is_other), sets)
        growth[is_other] = np.min([files.growth(lengths_of(one))[is_other] for one in found], 0)
    for bound in BOUNDS:
        share = growth <= bound
        total = (growth * files.sizes * share).sum() / files.sizes.sum()
        print(f"{sets} sets, bound {bound:.0%}: {share.mean():.0%} of files, bytes +{total:.2%}")


def main() -> None:
    """Print the sets as lines of hexadecimal digits, or with --check what they cost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    names = sorted(path for folder in arguments.folders for path in folder.rglob("*.[jp][pn]*g"))
    files = counted(names)
    if arguments.check:
        check(files, arguments.sets)
        return
    for tables in derived(files, np.arange(len(files.sizes)), arguments.sets):
        text = body_of(tables).hex()
        print("", *[text[at : at + 96] for at in range(0, len(text), 96)], sep="\n")


if __name__ == "__main__":
    main()
