"""The loop that executes the program of any plan, row by row.

A plan is a table of instructions (`compiled.instructions`), so a new pipeline of known ops
needs no compiler: this loop is compiled once per host, and calls the compiled draws and kernels of
the ops by their addresses. It allocates nothing, and touches no memory but what the tables point
to. Imports numba; only `stoker.pipeline.compiled.machine` imports it, when a plan is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from stoker.jit import compiled, handwritten
from stoker.pipeline.compiled.by_address import (
    as_float,
    as_word,
    call_draw,
    call_fold,
    call_kernel,
    copy_bytes,
    load_word,
    prefetch,
    store_word,
)
from stoker.pipeline.compiled.instructions import CODES, DECISIONS_AT, ELEMENTS
from stoker.pipeline.compiled.support import floordiv, key_of, mod
from stoker.rng.row import VIEW_MASK

KERNEL, FOLD, RULE = (CODES[n] for n in ("kernel", "fold", "rule"))
DRAW, DRAW_FROM = CODES["draw"], CODES["draw_from"]
UNLESS, GOTO, GIVEN = (CODES[n] for n in ("unless", "goto", "given"))
TAKE, SAME_SIZE, SIZE, FRAME = (CODES[n] for n in ("take", "same_size", "size", "frame"))
RESCALE = CODES["rescale"]
BOX, COUNT, ROOM = (CODES[n] for n in ("box", "count", "room"))
REMARK, EXTENT = CODES["note"], CODES["extent"]
SLOT, SIDES, JOIN, COPY = (CODES[n] for n in ("slot", "sides", "join", "copy"))
STORE, PUT, WRITE = (CODES[n] for n in ("store", "put", "write"))
LOAD, FIELD = CODES["load"], CODES["field"]
ID, EPOCH, VIEW = (CODES[n] for n in ("id", "epoch", "view"))
SIDE, MOVE, TO_FLOAT = (CODES[n] for n in ("side", "move", "to_float"))
TRUTH, TRUTH_F, NOT = (CODES[n] for n in ("truth", "truth_f", "not"))
NEG, NEG_F, AND, OR = (CODES[n] for n in ("neg", "neg_f", "and", "or"))
ADD, SUB, MUL, FLOORDIV, MOD = (CODES[n] for n in ("add", "sub", "mul", "floordiv", "mod"))
LT, LE, GT, GE, EQ = (CODES[n] for n in ("lt", "le", "gt", "ge", "eq"))
ADD_F, SUB_F, MUL_F, DIV_F = (CODES[f"{n}_f"] for n in ("add", "sub", "mul", "div"))
LT_F, LE_F, GT_F, GE_F, EQ_F = (CODES[f"{n}_f"] for n in ("lt", "le", "gt", "ge", "eq"))

VIEWS = np.uint64(VIEW_MASK)
WORDS = ELEMENTS.index("int64")
KEY_AT = 18
AHEAD = 2
"""Rows after the one that is computed whose samples are on their way to the cache."""
MAP_RANKS = 9
ITEM_RANKS = 17


@handwritten
def refuse(found, row, left, right):  # type: ignore[no-untyped-def]
    """Note which row does not fit, and one or two sizes that it has."""
    found[0] = row
    found[1], found[2] = left
    found[3], found[4] = right


@handwritten
def fits(words, line, code, at, first, rank):  # type: ignore[no-untyped-def]
    """Whether the first sides of a value are within pairs of bounds, from operand `first` on."""
    good = True
    for axis in range(rank):
        side = words[line, 1 + axis]
        low = first + 2 * axis
        good = good and code[at, low] <= side <= code[at, low + 1]
    return good


@handwritten
def size_of_elements(words, line, rank, item):  # type: ignore[no-untyped-def]
    """Return the bytes of a value."""
    size = item
    for axis in range(rank):
        size *= words[line, 1 + axis]
    return size


@handwritten
def ask(function, size, parts, note):  # type: ignore[no-untyped-def]
    """Ask a rule about a size: the answer stands in the note."""
    note[0], note[1] = size
    last = (note.ctypes.data, note.shape[0], 8)
    none = (note.ctypes.data, 1)
    call_kernel(function, MAP_RANKS, none, none, parts, last)


@handwritten
def after(function, size, parts, note):  # type: ignore[no-untyped-def]
    """Note a size, and what an op makes of it; without a function, the same."""
    note[0], note[1] = size
    note[2], note[3] = size
    if function != 0:
        ask(function, size, parts, note)


@handwritten
def rescale(code, at, words, parts, note):  # type: ignore[no-untyped-def]
    """Carry the record of a decision over to another size; return whether there is one."""
    left, right = code[at, 4], code[at, 5]
    decision, source = code[at, 2], code[at, 3]
    copy_bytes(parts[decision, 1], parts[source, 1], code[at, 7])
    note[2], note[3] = words[right, 1], words[right, 2]
    note[5] = 1
    size = (words[left, 1], words[left, 2])
    if size != (words[right, 1], words[right, 2]):
        ask(code[at, 1], size, (parts[decision, 0], parts[decision, 1]), note)
    return note[5] != 0


@handwritten
def measure(code, at, row, words, parts, note, found):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912 - one branch for each instruction
    """Execute an instruction about sizes; return 0, or the status of a size that does not fit."""
    op, a, b, c = code[at, 0], code[at, 1], code[at, 2], code[at, 3]
    if op == SIZE:
        after(a, (words[c, 1], words[c, 2]), (parts[code[at, 5], 0], parts[code[at, 5], 1]), note)
        for axis in range(code[at, 10]):
            words[b, 1 + axis] = note[2 + axis]
        if not fits(words, b, code, at, 6, code[at, 10]):
            refuse(found, row, (note[2], note[3]), (0, 0))
            return code[at, 4]
    elif op == SAME_SIZE:
        left, right = (words[a, 1], words[a, 2]), (words[b, 1], words[b, 2])
        if left != right:
            refuse(found, row, left, right)
            return c
    elif op == RESCALE:
        if not rescale(code, at, words, parts, note):
            left, right = code[at, 4], code[at, 5]
            refuse(found, row, (words[left, 1], words[left, 2]), (words[right, 1], words[right, 2]))
            return code[at, 6]
    elif op == FRAME:
        after(a, (words[b, 1], words[b, 2]), (parts[c, 0], parts[c, 1]), note)
        note[4] = code[at, 4]
        words[code[at, 5], 1] = code[at, 6]
    elif op == COUNT:
        if note[5] < 0 or note[5] > words[b, 1]:
            refuse(found, row, (note[5], words[b, 1]), (0, 0))
            return c
        words[a, 1] = note[5]
    elif op == ROOM:
        if note[5] == 0:
            left, right = (words[a, 1], words[a, 2]), (words[b, 1], words[b, 2])
            refuse(found, row, left, right)
            return c
    else:  # BOX
        ask(a, (words[c, 1], words[c, 2]), (parts[code[at, 4], 0], parts[code[at, 4], 1]), note)
        bottom, right_ = note[5] + note[7], note[6] + note[8]
        if code[at, 5] != 0:
            words[b, 1], words[b, 2], words[b, 3], words[b, 4] = note[5], note[6], bottom, right_
        words[b, 1], words[b, 2] = min(words[b, 1], note[5]), min(words[b, 2], note[6])
        words[b, 3], words[b, 4] = max(words[b, 3], bottom), max(words[b, 4], right_)
    return 0


@handwritten
def place(code, at, row, words, outs, note):  # type: ignore[no-untyped-def]  # noqa: C901 - as above
    """Execute an instruction about where values lie."""
    op, a, b, c, d = code[at, 0], code[at, 1], code[at, 2], code[at, 3], code[at, 4]
    if op == JOIN:
        for word in range(words.shape[1]):
            words[a, word] = words[b, word]
    elif op == SLOT:
        words[a, 0] = outs[b, 0] + row * outs[b, 1]
        for axis in range(c):
            words[a, 1 + axis] = outs[b, 2 + axis]
    elif op == REMARK:
        note[a] = b
    elif op == EXTENT:
        to = outs[a, 0] + row * outs[a, 1] + 8 * d
        store_word(to, WORDS, words[b, 1 + c], 0)
    elif op == SIDES:
        words[a, 1], words[a, 2] = words[b, 1], words[b, 2]
    elif op == COPY:
        copy_bytes(words[a, 0], words[b, 0], size_of_elements(words, b, c, d))
    elif op == STORE:
        to = outs[a, 0] + row * outs[a, 1]
        copy_bytes(to, words[b, 0], size_of_elements(words, b, c, d))
    elif op == PUT:
        store_word(outs[a, 0] + row * outs[a, 1], c, words[b, 0], d)
    else:  # WRITE
        store_word(words[a, 0], c, words[b, 0], d)


@handwritten
def read(code, at, rows, row, words, parts):  # type: ignore[no-untyped-def]
    """Return the word that an instruction reads."""
    op, b, c = code[at, 0], code[at, 2], code[at, 3]
    if op == LOAD:
        return load_word(words[b, 0], c)
    if op == FIELD:
        return load_word(parts[b, 1] + c, code[at, 4])
    if op == ID:
        return np.int64(rows[row, 1])
    if op == EPOCH:
        return np.int64(rows[row, 2])
    if op == VIEW:
        return np.int64(rows[row, 3] & VIEWS)
    return words[b, 1 + c]  # SIDE


@handwritten
def of_one(op, word):  # type: ignore[no-untyped-def]  # noqa: PLR0911 - one for each instruction
    """Return what an instruction makes of a word."""
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
    """Return what an instruction makes of two int64."""
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
    """Return the word that an instruction makes of two float64."""
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
def run_kernel(code, at, words, parts, arena, note):  # type: ignore[no-untyped-def]
    """Call a kernel with scratch memory, or a rule with the note."""
    lines, line = words.ctypes.data, 8 * words.shape[1]
    src, dst = (lines + code[at, 3] * line, code[at, 6]), (lines + code[at, 2] * line, code[at, 7])
    both = (parts[code[at, 5], 0], parts[code[at, 5], 1])
    last = (note.ctypes.data, note.shape[0], 8)
    if code[at, 0] != RULE:
        last = (arena + code[at, 8], code[at, 9], 1)
    if code[at, 0] == FOLD:
        call_fold(code[at, 1], code[at, 4], src, (code[at, 10], code[at, 11]), dst, both, last)
    else:
        call_kernel(code[at, 1], code[at, 4], src, dst, both, last)


@handwritten
def draw(code, at, key, words, parts, note):  # type: ignore[no-untyped-def]
    """Fill the record of a decision; one that looks at items finds the key in the note."""
    decision, of = code[at, 2], code[at, 3]
    if code[at, 1] == 0:  # nothing is drawn
        return
    size = (words[of, 1], words[of, 2])
    if code[at, 0] == DRAW:
        call_draw(code[at, 1], key, size, (parts[decision, 0], parts[decision, 1]))
        return
    note[0], note[1] = size
    for word in range(5):
        note[KEY_AT + word] = np.int64(key[word])
    items = (words.ctypes.data + 8 * code[at, 4] * words.shape[1], 4)
    last = (note.ctypes.data, note.shape[0], 8)
    none = (note.ctypes.data, 1)
    call_kernel(
        code[at, 1], ITEM_RANKS, items, none, (parts[decision, 0], parts[decision, 1]), last
    )


@handwritten
def take(code, at, row, words, samples, sides):  # type: ignore[no-untyped-def]
    """Take a sample's field; return whether its sides are within their bounds."""
    line, column, rank = code[at, 1], code[at, 2], code[at, 3]
    words[line, 0] = samples[column, row]
    for axis in range(rank):
        words[line, 1 + axis] = sides[column, axis]
    return fits(words, line, code, at, 5, rank)


@handwritten
def fetch(row, samples, ahead):  # type: ignore[no-untyped-def]
    """Have the samples of a row brought into the cache, if there is such a row."""
    if row < samples.shape[1]:
        for column in range(samples.shape[0]):
            prefetch(samples[column, row], ahead[column])


@handwritten
def execute(code, words, sides, ahead, outs, streams, parts, arena, note, found, rows, samples):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0913, PLR0917 - one branch for each kind of instruction, one argument for each table
    """Compute rows.

    Args:
        code: the program, (n, WIDTH) int64.
        words: the value table, (values, LINE) int64; constants and places in the arena are there.
        sides: (fields, MAX_RANK) int64, the sides of all samples.
        ahead: (fields,) int64, how many bytes of a sample are fetched before its row is computed.
        outs: (outputs, 2 + MAX_RANK) int64: address, bytes from row to row, sides of a row.
        streams: see `stoker.pipeline.planning.tables.streams_table`.
        parts: (decisions, 3) int64: addresses of parameters and of the first row's record, and
            bytes from there to the next row's; the second is moved on.
        arena: address of the scratch arena.
        note: (NOTE,) int64, see `stoker.pipeline.compiled.instructions`.
        found: int64; of a row that does not fit its number and sizes; behind these, for each
            decision, 1 more than the last row that made it.
        rows: (r, 4) uint64: seed, id, epoch, visit * 2**16 + view.
        samples: (fields, r) int64, the address of each row's sample.

    Returns:
        0, or the status of the first row that does not fit.
    """
    for row in range(1, AHEAD):
        fetch(row, samples, ahead)
    for row in range(rows.shape[0]):
        fetch(row + AHEAD, samples, ahead)
        if row != 0 and parts[0, 2] != 0:
            for decision in range(parts.shape[0]):
                parts[decision, 1] += parts[decision, 2]
        line = 0
        while line < code.shape[0]:
            at, op, dst = line, code[line, 0], code[line, 1]
            line += 1
            if op <= RULE:
                run_kernel(code, at, words, parts, arena, note)
            elif op <= DRAW_FROM:
                decision = code[at, 2]
                draw(code, at, key_of(rows[row], streams[decision]), words, parts, note)
                found[DECISIONS_AT + decision] = row + 1
            elif op == UNLESS:
                if words[code[at, 1], 0] == 0:
                    line = code[at, 2]
            elif op == GOTO:
                line = code[at, 1]
            elif op == TAKE:
                if not take(code, at, row, words, samples, sides):
                    refuse(found, row, (words[dst, 1], words[dst, 2]), (0, 0))
                    return code[at, 4]
            elif op == GIVEN:
                where = samples[code[at, 2], row] + 16 * code[at, 3]
                words[dst, 1], words[dst, 2] = load_word(where, WORDS), load_word(where + 8, WORDS)
            elif op <= ROOM:
                status = measure(code, at, row, words, parts, note, found)
                if status != 0:
                    return status
            elif op <= WRITE:
                place(code, at, row, words, outs, note)
            elif op <= SIDE:
                words[dst, 0] = read(code, at, rows, row, words, parts)
            elif op <= NEG_F:
                words[dst, 0] = of_one(op, words[code[at, 2], 0])
            elif op < ADD_F:
                words[dst, 0] = of_integers(op, words[code[at, 2], 0], words[code[at, 3], 0])
            else:
                left, right = as_float(words[code[at, 2], 0]), as_float(words[code[at, 3], 0])
                words[dst, 0] = of_floats(op, left, right)
    return 0


def compile_loop() -> Any:
    """Return the loop, compiled or loaded; calls with other types than these are refused."""
    table, list_ = types.Array(types.int64, 2, "C"), types.Array(types.int64, 1, "C")
    keys = types.Array(types.uint64, 2, "C")
    given = (
        *(table, table, table, list_, table, keys, table),
        types.int64,
        *(list_, list_, keys, table),
    )
    fast = compiled(execute)
    if given not in fast.overloads:
        fast.compile(given)
    fast.disable_compile()
    return fast
