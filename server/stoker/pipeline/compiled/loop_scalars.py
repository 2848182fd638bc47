"""The loop's work on scalars: it reads words, and computes words from words.

A word is an int64 or the bits of a float64; an instruction that computes floats ends in `_f`.
Imports numba; only `compiled.loop` imports it.
"""

from __future__ import annotations

import numpy as np

from stoker.jit import handwritten
from stoker.pipeline.compiled.by_address import as_float, as_word, load_word
from stoker.pipeline.compiled.loop_instructions import CODES, instruction
from stoker.pipeline.compiled.support import floordiv, mod
from stoker.rng.row import VIEW_MASK

LOAD, FIELD, SIDE = (instruction(n) for n in ("load", "field", "side"))
ID, EPOCH, VIEW = (CODES[n] for n in ("id", "epoch", "view"))
LAST_READ = CODES["side"]
TO_FLOAT = CODES["to_float"]
TRUTH, TRUTH_F, NOT = (CODES[n] for n in ("truth", "truth_f", "not"))
NEG, NEG_F, AND, OR = (CODES[n] for n in ("neg", "neg_f", "and", "or"))
ADD, SUB, MUL, FLOORDIV, MOD = (CODES[n] for n in ("add", "sub", "mul", "floordiv", "mod"))
LT, LE, GT, GE, EQ = (CODES[n] for n in ("lt", "le", "gt", "ge", "eq"))
ADD_F, SUB_F, MUL_F, DIV_F = (CODES[f"{n}_f"] for n in ("add", "sub", "mul", "div"))
LT_F, LE_F, GT_F, GE_F, EQ_F = (CODES[f"{n}_f"] for n in ("lt", "le", "gt", "ge", "eq"))
VIEWS = np.uint64(VIEW_MASK)


@handwritten
def read(code, at, rows, row, words, parts):  # type: ignore[no-untyped-def]
    """Return the word that an instruction reads."""
    op = code[at, 0]
    if op == LOAD.code:
        return load_word(words[code[at, LOAD.src], 0], code[at, LOAD.dtype])
    if op == FIELD.code:
        record = parts[code[at, FIELD.decision], 1]
        return load_word(record + code[at, FIELD.offset], code[at, FIELD.dtype])
    if op == ID:
        return np.int64(rows[row, 1])
    if op == EPOCH:
        return np.int64(rows[row, 2])
    if op == VIEW:
        return np.int64(rows[row, 3] & VIEWS)
    return words[code[at, SIDE.src], 1 + code[at, SIDE.axis]]


@handwritten
def of_one(op, word):  # type: ignore[no-untyped-def]  # noqa: PLR0911 - one for each instruction
    """Return the result of an instruction for one word."""
    if op == TO_FLOAT:
        return as_word(np.float64(word))
    if op == TRUTH:
        return np.int64(word != 0)
    if op == TRUTH_F:
        return np.int64(as_float(word) != 0)
    if op == NOT:
        return np.int64(word == 0)
    if op == NEG:
        return -word
    if op == NEG_F:
        return as_word(-as_float(word))
    return word  # MOVE


@handwritten
def of_integers(op, x, y):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0911 - as above
    """Return the result of an instruction for two int64."""
    if op == ADD:
        return x + y
    if op == SUB:
        return x - y
    if op == MUL:
        return x * y
    if op == FLOORDIV:
        return floordiv(x, y)
    if op == MOD:
        return mod(x, y)
    if op == AND:
        return x & y
    if op == OR:
        return x | y
    if op == LT:
        return np.int64(x < y)
    if op == LE:
        return np.int64(x <= y)
    if op == GT:
        return np.int64(x > y)
    if op == GE:
        return np.int64(x >= y)
    return np.int64(x == y) if op == EQ else np.int64(x != y)


@handwritten
def of_floats(op, x, y):  # type: ignore[no-untyped-def]  # noqa: PLR0911 - as above
    """Return the result word of an instruction for two float64."""
    if op == ADD_F:
        return as_word(x + y)
    if op == SUB_F:
        return as_word(x - y)
    if op == MUL_F:
        return as_word(x * y)
    if op == DIV_F:
        return as_word(x / y)
    if op == LT_F:
        return np.int64(x < y)
    if op == LE_F:
        return np.int64(x <= y)
    if op == GT_F:
        return np.int64(x > y)
    if op == GE_F:
        return np.int64(x >= y)
    return np.int64(x == y) if op == EQ_F else np.int64(x != y)


@handwritten
def compute(op, left, right):  # type: ignore[no-untyped-def]
    """Return the result word of an instruction for one word (`left`) or two."""
    if op <= NEG_F:
        return of_one(op, left)
    if op < ADD_F:
        return of_integers(op, left, right)
    return of_floats(op, as_float(left), as_float(right))
