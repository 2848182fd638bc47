"""The loop's work on arrays: one operation on every element.

Every element is computed as a word, as scalars are (`compiled.loop_scalars`): an int64, or the bits
of a float64. float32 is computed in float64 and rounded: for one +, -, * or / of two float32 that
gives the same bits, as float64 has more than twice as many. Imports numba; only `compiled.loop`
imports it.
"""

from __future__ import annotations

import numpy as np

from stoker.jit import handwritten
from stoker.pipeline.compiled.by_address import as_float, as_word, load_word, store_word
from stoker.pipeline.compiled.loop_instructions import ELEMENTS, KINDS, instruction
from stoker.pipeline.compiled.loop_scalars import ADD_F, DIV_F, NEG_F, compute

EACH = instruction("each")
INTEGERS, SINGLE = KINDS.index("int64"), KINDS.index("float32")
FIRST_FLOAT = ELEMENTS.index("float32")
NAN = np.int64(0x7FF8 << 48)


@handwritten
def address_of(words, line, item):  # type: ignore[no-untyped-def]
    """Return the address of an operand: its elements, or the word of a number (`item` is 0)."""
    if item == 0:
        return words.ctypes.data + 8 * line * words.shape[1]
    return words[line, 0]


@handwritten
def operand(address, dtype, kind):  # type: ignore[no-untyped-def]
    """Return a number at an address as a word of the kind that is computed."""
    word = load_word(address, dtype)
    if kind == INTEGERS:
        return word
    number = as_float(word) if dtype >= FIRST_FLOAT else np.float64(word)
    if kind == SINGLE:
        number = np.float64(np.float32(number))
    return as_word(number)


@handwritten
def each(code, at, words):  # type: ignore[no-untyped-def]
    """Compute every element of an array."""
    dst, op, kind = code[at, EACH.dst], code[at, EACH.op], code[at, EACH.kind]
    left_dtype, left_item = code[at, EACH.left_dtype], code[at, EACH.left_item]
    right_dtype, right_item = code[at, EACH.right_dtype], code[at, EACH.right_item]
    left = address_of(words, code[at, EACH.left], left_item)
    right = address_of(words, code[at, EACH.right], right_item)
    to, into, dtype = words[dst, 0], code[at, EACH.into], code[at, EACH.dtype]
    gives_floats = np.int64(op == NEG_F or ADD_F <= op <= DIV_F)
    count = np.int64(1)
    for axis in range(code[at, EACH.rank]):
        count *= words[dst, 1 + axis]
    for n in range(count):
        one = operand(left + n * left_item, left_dtype, kind)
        other = operand(right + n * right_item, right_dtype, kind)
        word = compute(op, one, other)
        if gives_floats != 0:
            number = as_float(word)
            word = word if number == number else NAN  # noqa: PLR0124 - NaN
        store_word(to + n * into, dtype, word, gives_floats)
