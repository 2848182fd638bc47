"""Runs of levels replaced through tables, 64 or 192 at a time.

Compiled for a processor with byte permutations over 256 entries (AVX-512 VBMI), the tables are
kept in registers (`simd.lookup`); otherwise the twins look up one level after the other.
Source and image may be the same memory.
"""

from typing import Any

from stoker.jit import kernel


@kernel(twin="stoker.ops.kernels.simd.lookup:map_levels")
def map_levels(source: Any, image: Any, blocks: int, tables: Any) -> None:
    """Write to an image `tables[x]` for each level x of a flat source, in blocks of 64 levels."""
    image[: 64 * blocks] = tables[source[: 64 * blocks]]


@kernel(twin="stoker.ops.kernels.simd.lookup:map_colors")
def map_colors(source: Any, image: Any, blocks: int, tables: Any) -> None:
    """Write `tables[256 * c + x]` for each level x of channel c of three, 64 pixels a block."""
    for c in range(3):
        own = slice(c, 192 * blocks, 3)
        image[own] = tables[256 * c : 256 * c + 256][source[own]]
