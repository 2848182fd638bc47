"""Adapters for rules of a few lines that an op defines: sizes, boxes, maps, counts.

The machine calls everything as a kernel, `function(src, dst, params, record, last)`. A rule has
another form, so it is wrapped in a kernel: a template below whose `rule` is the op's. For rules
`last` is the note, int64 words that carry numbers in and out (`loop_instructions.NOTE`). The
rule's code is copied into the template, and both are cached under a digest of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import same_size
from stoker.pipeline.compiled import support

copy, padded, whole = support.copy, support.padded, support.whole
rule: Any = same_size
"""The function that a template calls; `adapted` replaces it by the op's rule."""


@kernel
def size_by(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Call an op's `out_size`."""
    height, width = rule(params, record, note[0], note[1])
    note[2], note[3] = whole(height), whole(width)


@kernel
def box_by(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Call an op's `reads`."""
    top, left, height, width = rule(params, record, note[0], note[1])
    note[5], note[6], note[7], note[8] = top, left, height, width


@kernel
def rescale_by(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Call an op's `rescale`."""
    note[5] = rule(params, record, (note[0], note[1], note[2], note[3]))


@kernel
def map_by(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Call an op's `forward`."""
    sizes = (note[0], note[1], note[2], note[3])
    a, b, c, d, e, f, g, h, i = rule(params, record, sizes)
    numbers = note[9:18].view(np.float64)
    numbers[0], numbers[1], numbers[2] = a, b, c
    numbers[3], numbers[4], numbers[5] = d, e, f
    numbers[6], numbers[7], numbers[8] = g, h, i


@kernel
def move_by(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Move items by the map that `map_by` left."""
    n = note[9:18].view(np.float64)
    numbers = (n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8])
    sizes = (note[0], note[1], note[2], note[3])
    note[5] = rule(src, dst, numbers, sizes, note[4])


@kernel
def turn_by(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Turn the components of a vector field by the map that `map_by` left."""
    n = note[9:18].view(np.float64)
    rule(src, dst, (n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]))


@kernel
def items_by(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Run an op's own kernel of boxes or keypoints."""
    sizes = (note[0], note[1], note[2], note[3])
    note[5] = rule(src, dst, params, record, sizes)


@kernel
def items_by_word(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Run an op's own kernel of boxes that moves `visible_part` itself."""
    sizes = (note[0], note[1], note[2], note[3])
    note[5] = rule(src, dst, params, record, sizes, note[4])


@kernel
def draw_by(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Draw for an op that decides from items or a mask."""
    k = note[18:23].view(np.uint64)
    rule((k[0], k[1], k[2], k[3], k[4]), params, note[0], note[1], record, src)


@kernel
def number_by(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Write a statistic of an array."""
    dst[0] = rule(src)


@kernel
def copy_into(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Copy with the dtype of the destination."""
    copy(src, dst)


@kernel
def pad_whole(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Pad with an integer; word 4 of the note has the number of sides."""
    note[5] = padded(src, dst, note[4], note[6])


@kernel
def pad_real(src: Any, dst: Any, params: Any, record: Any, note: Any) -> None:
    """Pad with a float64, whose bits are in word 6 of the note."""
    note[5] = padded(src, dst, note[4], note[6:7].view(np.float64)[0])
