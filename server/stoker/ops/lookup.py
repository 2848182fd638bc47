"""Blocks of levels replaced through tables, 64 or 192 at a time.

Compiled for a processor with byte permutations over 256 entries (AVX-512 VBMI) a table is held in
registers (`stoker.ops.machine.lookup`); elsewhere the twins look up one level after the other.
"""

from typing import Any

from stoker.rng.jit import kernel


@kernel(twin="stoker.ops.machine.lookup:map64")
def map64(image: Any, at: int, tables: Any) -> None:
    """Replace 64 levels x of a flat image, from index `at` on, by `tables[x]`."""
    image[at : at + 64] = tables[image[at : at + 64]]


@kernel(twin="stoker.ops.machine.lookup:map192")
def map192(image: Any, at: int, tables: Any) -> None:
    """Replace 64 pixels of three channels: level x of channel c by `tables[256 * c + x]`."""
    for c in range(3):
        image[at + c : at + 192 : 3] = tables[256 * c : 256 * c + 256][image[at + c : at + 192 : 3]]
