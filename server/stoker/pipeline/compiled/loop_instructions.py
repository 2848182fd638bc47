"""The instructions of a program: their names, and the meaning of their numbers.

A program is an array (n, WIDTH) of int64, one instruction per line: its code, then its operands in
the order of `FORMS`, then zeros. Writers and the loop both use the names: a writer adds `"size"`
with its operands, and the loop reads `code[at, SIZE.check]`. `compiled.emitter` writes programs,
`compiled.loop` executes them, `compiled.listing` shows them.

Operands: `dst`, `src`, `left`, `right`, `frame` and `of` are lines of the value table; a line is an
address and up to MAX_RANK sides, or, for a scalar, its int64 or the bits of its float64.
`function` is the address of a compiled function; `decision` and `source` index streams, parameters
and records; `check` is the status of a row that does not fit; `low0`, `high0`, ... bound the sides;
`ranks` is 8 times the rank of the source plus that of the destination; `item` and `into` are the
bytes of their elements; `place` and `count` give the index of a fold's value and the number of
values; `most` bounds the items of `dst`; `index0`, ... are lines of indices; `op` is the code of a
scalar instruction, and `kind` in KINDS is how its numbers are computed; an `item` of 0 marks a
number in a word; `dtype` is an index in ELEMENTS; `float` marks a float
scalar; `within` has bits of floats as bounds; `to` is the next line of the program to execute;
`stage` is one of `stoker.pipeline.engine.stage_clock`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

from stoker.pipeline.planning.op_declarations import MAX_RANK

WIDTH: Final = 5 + 2 * MAX_RANK
LINE: Final = 1 + MAX_RANK
"""Words of a line of the value table."""
DECISIONS_AT: Final = 5
"""Index in `found` of the first decision; before it, a row that does not fit and two sizes."""
GIVEN_RECORD: Final = -1
"""In `found`, for a decision whose record was drawn before the program runs."""
NOTE: Final = 32
"""Words of the note, which passes sizes to rules and numbers back."""
BEFORE: Final = 0
"""Words of the note: height and width before an op (0, 1) and after it (2, 3)."""
AFTER: Final = 2
VISIBLE: Final = 4
"""The word of an item that holds its `visible_part`."""
ANSWER: Final = 5
"""Up to four results of a rule; a 3x3 map starts at word 9."""
KEY: Final = 18
"""The five words of a key."""

ELEMENTS: Final = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32",
    "float64",
)  # fmt: skip

_BOUNDS: Final = tuple(f"{word}{axis}" for axis in range(MAX_RANK) for word in ("low", "high"))
_KERNEL: Final = ("function", "dst", "src", "ranks", "decision", "item", "into")
_INDICES: Final = tuple(f"index{axis}" for axis in range(MAX_RANK))
_EACH: Final = ("left_dtype", "left_item", "right_dtype", "right_item", "dtype", "into", "rank")
_ONE: Final = ("dst", "src")
_TWO: Final = ("dst", "left", "right")

KINDS: Final = ("int64", "float64", "float32")
"""Types in which arrays are computed; a float32 is computed as float64, then rounded: same bits."""

FORMS: Final[dict[str, tuple[str, ...]]] = {
    # Calls of kernels and draws.
    "kernel": (*_KERNEL, "at", "bytes"),
    "fold": (*_KERNEL, "at", "bytes", "place", "count"),
    "rule": _KERNEL,
    "draw": ("function", "decision", "of"),
    "draw_from": ("function", "decision", "of", "src", "item"),
    # Flow.
    "unless": ("src", "to"),
    "goto": ("to",),
    "mark": ("stage",),
    # Sizes; a row may not fit.
    "take": ("dst", "column", "rank", "check", *_BOUNDS),
    "given": ("dst", "column", "place"),
    "same_size": ("left", "right", "check"),
    "rescale": ("function", "decision", "source", "left", "right", "check", "bytes"),
    "size": ("function", "dst", "src", "check", "decision", *_BOUNDS[:4], "sides"),
    "frame": ("function", "frame", "decision", "visible", "dst", "most"),
    "box": ("function", "dst", "src", "decision", "first"),
    "count": ("dst", "src", "check"),
    "element": ("dst", "src", "check", "dtype", "item", "rank", *_INDICES),
    "fits": ("src", "check", "low0", "high0"),
    "within": ("src", "check", "low0", "high0"),
    "room": ("left", "right", "check"),
    # Arithmetic on arrays.
    "each": ("dst", "left", "right", "op", "kind", *_EACH),
    # Places.
    "slot": ("dst", "output", "rank"),
    "note": ("at", "word"),
    "sides": _ONE,
    "join": _ONE,
    "copy": (*_ONE, "rank", "item"),
    "store": ("output", "src", "rank", "item"),
    "put": ("output", "src", "dtype", "float"),
    "extent": ("output", "src", "axis", "place"),
    "write": (*_ONE, "dtype", "float"),
    # Scalars that are read.
    "load": (*_ONE, "dtype"),
    "field": ("dst", "decision", "offset", "dtype"),
    "id": ("dst",),
    "epoch": ("dst",),
    "view": ("dst",),
    "side": (*_ONE, "axis"),
    # Scalars computed from one value, from two integers, from two floats.
    **dict.fromkeys(("move", "to_float", "truth", "truth_f", "not", "neg", "neg_f"), _ONE),
    **dict.fromkeys(("and", "or", "add", "sub", "mul", "floordiv", "mod"), _TWO),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), _TWO),
    **dict.fromkeys(("add_f", "sub_f", "mul_f", "div_f"), _TWO),
    **dict.fromkeys(("lt_f", "le_f", "gt_f", "ge_f", "eq_f", "ne_f"), _TWO),
}
"""Name of an instruction -> its operands; the loop relies on the order of the groups."""

CODES: Final = {name: code for code, name in enumerate(FORMS)}


def instruction(name: str) -> Any:
    """Return the columns of an instruction: `code` is its code, then one column per operand.

    A named tuple of integers, which numba treats as constants.
    """
    operands = FORMS[name]
    make: Any = namedtuple  # numba supports named tuples; mypy only those with constant names
    return make(name, ("code", *operands))(CODES[name], *range(1, 1 + len(operands)))
