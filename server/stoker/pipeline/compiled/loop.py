"""The loop that executes the program of any plan, row by row.

A plan is a table of instructions (`compiled.loop_instructions`), so a new pipeline of known ops
needs no compiler: this loop is compiled once per host, and calls the compiled draws and kernels of
the ops by their addresses. It allocates nothing, and touches only the memory that the tables point
to. Imports numba; only `stoker.pipeline.compiled.machine` imports it, when a plan is compiled.
"""

from __future__ import annotations

from time import CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID
from typing import Any

import numpy as np
from numba import types

from stoker.jit import compiled, handwritten
from stoker.pipeline.compiled.by_address import (
    as_float,
    call_draw,
    call_fold,
    call_kernel,
    copy_bytes,
    load_word,
    prefetch,
    read_clock,
    show_word,
    store_word,
)
from stoker.pipeline.compiled.loop_arrays import each
from stoker.pipeline.compiled.loop_instructions import (
    AFTER,
    ANSWER,
    BEFORE,
    DECISIONS_AT,
    ELEMENTS,
    GIVEN_RECORD,
    KEY,
    VISIBLE,
    instruction,
)
from stoker.pipeline.compiled.loop_scalars import LAST_READ, compute, read
from stoker.pipeline.compiled.support import key_of
from stoker.pipeline.engine.stage_clock import (
    COST,
    CPU,
    FUNCTION,
    MOST_COST_NS,
    ROW,
    SHOWN,
    SPLIT,
    STAGE,
    TOTALS,
    WALL,
)

KERNEL, FOLD, RULE = (instruction(n) for n in ("kernel", "fold", "rule"))
DRAW, DRAW_FROM = instruction("draw"), instruction("draw_from")
UNLESS, GOTO, MARK = (instruction(n) for n in ("unless", "goto", "mark"))
TAKE, GIVEN, SAME_SIZE = (instruction(n) for n in ("take", "given", "same_size"))
RESCALE, SIZE, FRAME = (instruction(n) for n in ("rescale", "size", "frame"))
BOX, COUNT, ROOM = (instruction(n) for n in ("box", "count", "room"))
ELEMENT, EACH = (instruction(n) for n in ("element", "each"))
FITS, WITHIN = (instruction(n) for n in ("fits", "within"))
SLOT, NOTE_WORD, SIDES, JOIN = (instruction(n) for n in ("slot", "note", "sides", "join"))
COPY, STORE, PUT = (instruction(n) for n in ("copy", "store", "put"))
EXTENT, WRITE = instruction("extent"), instruction("write")

WORDS = ELEMENTS.index("int64")
AHEAD = 2
"""How many rows ahead of the current one samples are prefetched."""
LEFT, RIGHT = (instruction("add").left, instruction("add").right)
"""Operands of every scalar instruction; an instruction with one value has it on the left."""
MAP_RANKS = 8 * 1 + 1
"""Both arrays of a rule or map have rank 1; `call_kernel` says how ranks are packed."""
ITEM_RANKS = 8 * 2 + 1
"""Items of a draw have rank 2."""


@handwritten
def refuse(found, row, left, right):  # type: ignore[no-untyped-def]
    """Record the row that does not fit, and one or two of its sizes."""
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
    """Call a rule with a size: the answer is in the note."""
    note[BEFORE], note[BEFORE + 1] = size
    last = (note.ctypes.data, note.shape[0], 8)
    none = (note.ctypes.data, 1)
    call_kernel(function, MAP_RANKS, none, none, parts, last)


@handwritten
def after(function, size, parts, note):  # type: ignore[no-untyped-def]
    """Write a size and an op's output size for it to the note; without a function, the same."""
    note[BEFORE], note[BEFORE + 1] = size
    note[AFTER], note[AFTER + 1] = size
    if function != 0:
        ask(function, size, parts, note)


@handwritten
def rescale(code, at, words, parts, note):  # type: ignore[no-untyped-def]
    """Carry the record of a decision over to another size; return whether that is possible."""
    left, right = code[at, RESCALE.left], code[at, RESCALE.right]
    decision, source = code[at, RESCALE.decision], code[at, RESCALE.source]
    copy_bytes(parts[decision, 1], parts[source, 1], code[at, RESCALE.bytes])
    note[AFTER], note[AFTER + 1] = words[right, 1], words[right, 2]
    note[ANSWER] = 1
    size = (words[left, 1], words[left, 2])
    if size != (words[right, 1], words[right, 2]):
        ask(code[at, RESCALE.function], size, (parts[decision, 0], parts[decision, 1]), note)
    return note[ANSWER] != 0


@handwritten
def size_at(words, line):  # type: ignore[no-untyped-def]
    """Return the height and width of a value."""
    return words[line, 1], words[line, 2]


@handwritten
def parts_of(parts, decision):  # type: ignore[no-untyped-def]
    """Return the addresses of a decision's parameters and record."""
    return parts[decision, 0], parts[decision, 1]


@handwritten
def resize(code, at, row, words, parts, note, found):  # type: ignore[no-untyped-def]
    """Compute the size of an op's result; return 0, or the status of one that does not fit."""
    dst, sides = code[at, SIZE.dst], code[at, SIZE.sides]
    both = parts_of(parts, code[at, SIZE.decision])
    after(code[at, SIZE.function], size_at(words, code[at, SIZE.src]), both, note)
    for axis in range(sides):
        words[dst, 1 + axis] = note[AFTER + axis]
    if fits(words, dst, code, at, SIZE.low0, sides):
        return np.int64(0)
    refuse(found, row, (note[AFTER], note[AFTER + 1]), (0, 0))
    return code[at, SIZE.check]


@handwritten
def surround(code, at, words, parts, note):  # type: ignore[no-untyped-def]
    """Widen a box (top, left, bottom, right) by the one that a decision reads."""
    dst = code[at, BOX.dst]
    both = parts_of(parts, code[at, BOX.decision])
    ask(code[at, BOX.function], size_at(words, code[at, BOX.src]), both, note)
    top, left = note[ANSWER], note[ANSWER + 1]
    bottom, right = top + note[ANSWER + 2], left + note[ANSWER + 3]
    if code[at, BOX.first] != 0:
        words[dst, 1], words[dst, 2], words[dst, 3], words[dst, 4] = top, left, bottom, right
    words[dst, 1], words[dst, 2] = min(words[dst, 1], top), min(words[dst, 2], left)
    words[dst, 3], words[dst, 4] = max(words[dst, 3], bottom), max(words[dst, 4], right)


@handwritten
def element(code, at, row, words, found):  # type: ignore[no-untyped-def]
    """Read an element of an array; return 0, or the status of an index that is out of bounds."""
    src, place = code[at, ELEMENT.src], np.int64(0)
    for axis in range(code[at, ELEMENT.rank]):
        side = words[src, 1 + axis]
        index = words[code[at, ELEMENT.index0 + axis], 0]
        if index < -side or index >= side:
            refuse(found, row, (index, side), (0, 0))
            return code[at, ELEMENT.check]
        place = place * side + (index + side if index < 0 else index)
    address = words[src, 0] + place * code[at, ELEMENT.item]
    words[code[at, ELEMENT.dst], 0] = load_word(address, code[at, ELEMENT.dtype])
    return np.int64(0)


@handwritten
def measure(code, at, row, words, parts, note, found):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0911, PLR0912 - one branch for each instruction
    """Execute an instruction about sizes; return 0, or the status of a size that does not fit."""
    op = code[at, 0]
    if op == SIZE.code:
        return resize(code, at, row, words, parts, note, found)
    if op == SAME_SIZE.code:
        left = size_at(words, code[at, SAME_SIZE.left])
        right = size_at(words, code[at, SAME_SIZE.right])
        if left != right:
            refuse(found, row, left, right)
            return code[at, SAME_SIZE.check]
    elif op == RESCALE.code:
        if not rescale(code, at, words, parts, note):
            left, right = code[at, RESCALE.left], code[at, RESCALE.right]
            refuse(found, row, size_at(words, left), size_at(words, right))
            return code[at, RESCALE.check]
    elif op == FRAME.code:
        both = parts_of(parts, code[at, FRAME.decision])
        after(code[at, FRAME.function], size_at(words, code[at, FRAME.frame]), both, note)
        note[VISIBLE] = code[at, FRAME.visible]
        words[code[at, FRAME.dst], 1] = code[at, FRAME.most]
    elif op == COUNT.code:
        most = words[code[at, COUNT.src], 1]
        if note[ANSWER] < 0 or note[ANSWER] > most:
            refuse(found, row, (note[ANSWER], most), (0, 0))
            return code[at, COUNT.check]
        words[code[at, COUNT.dst], 1] = note[ANSWER]
    elif op == ELEMENT.code:
        return element(code, at, row, words, found)
    elif op == FITS.code:
        number = words[code[at, FITS.src], 0]
        if number < code[at, FITS.low0] or number > code[at, FITS.high0]:
            refuse(found, row, (number, 0), (0, 0))
            return code[at, FITS.check]
    elif op == WITHIN.code:
        number = as_float(words[code[at, WITHIN.src], 0])
        low, high = as_float(code[at, WITHIN.low0]), as_float(code[at, WITHIN.high0])
        if not low <= number <= high:  # NaN is not
            refuse(found, row, (words[code[at, WITHIN.src], 0], 0), (0, 0))
            return code[at, WITHIN.check]
    elif op == ROOM.code:
        if note[ANSWER] == 0:
            left, right = code[at, ROOM.left], code[at, ROOM.right]
            refuse(found, row, size_at(words, left), size_at(words, right))
            return code[at, ROOM.check]
    else:  # BOX
        surround(code, at, words, parts, note)
    return np.int64(0)


@handwritten
def row_of_output(outs, output, row):  # type: ignore[no-untyped-def]
    """Return the address of a row of an output."""
    return outs[output, 0] + row * outs[output, 1]


@handwritten
def locate(code, at, row, words, outs, note):  # type: ignore[no-untyped-def]
    """Execute an instruction about the places of values."""
    op = code[at, 0]
    if op == JOIN.code:
        for word in range(words.shape[1]):
            words[code[at, JOIN.dst], word] = words[code[at, JOIN.src], word]
    elif op == SLOT.code:
        dst, output = code[at, SLOT.dst], code[at, SLOT.output]
        words[dst, 0] = row_of_output(outs, output, row)
        for axis in range(code[at, SLOT.rank]):
            words[dst, 1 + axis] = outs[output, 2 + axis]
    elif op == NOTE_WORD.code:
        note[code[at, NOTE_WORD.at]] = code[at, NOTE_WORD.word]
    elif op == EXTENT.code:
        to = row_of_output(outs, code[at, EXTENT.output], row) + 8 * code[at, EXTENT.place]
        store_word(to, WORDS, words[code[at, EXTENT.src], 1 + code[at, EXTENT.axis]], 0)
    elif op == SIDES.code:
        dst, src = code[at, SIDES.dst], code[at, SIDES.src]
        words[dst, 1], words[dst, 2] = words[src, 1], words[src, 2]
    else:
        write(code, at, row, words, outs)


@handwritten
def write(code, at, row, words, outs):  # type: ignore[no-untyped-def]
    """Execute an instruction that copies a value or writes a scalar."""
    op = code[at, 0]
    if op == COPY.code:
        src = code[at, COPY.src]
        size = size_of_elements(words, src, code[at, COPY.rank], code[at, COPY.item])
        copy_bytes(words[code[at, COPY.dst], 0], words[src, 0], size)
    elif op == STORE.code:
        src = code[at, STORE.src]
        size = size_of_elements(words, src, code[at, STORE.rank], code[at, STORE.item])
        copy_bytes(row_of_output(outs, code[at, STORE.output], row), words[src, 0], size)
    elif op == PUT.code:
        to = row_of_output(outs, code[at, PUT.output], row)
        store_word(to, code[at, PUT.dtype], words[code[at, PUT.src], 0], code[at, PUT.float])
    else:  # WRITE
        to, word = words[code[at, WRITE.dst], 0], words[code[at, WRITE.src], 0]
        store_word(to, code[at, WRITE.dtype], word, code[at, WRITE.float])


@handwritten
def run_kernel(code, at, words, parts, arena, note):  # type: ignore[no-untyped-def]
    """Call a kernel with scratch memory, or a rule with the note.

    The first operands of `kernel`, `fold` and `rule` are the same.
    """
    lines, line = words.ctypes.data, 8 * words.shape[1]
    src = (lines + code[at, KERNEL.src] * line, code[at, KERNEL.item])
    dst = (lines + code[at, KERNEL.dst] * line, code[at, KERNEL.into])
    both = parts_of(parts, code[at, KERNEL.decision])
    function, ranks = code[at, KERNEL.function], code[at, KERNEL.ranks]
    last = (note.ctypes.data, note.shape[0], 8)
    if code[at, 0] != RULE.code:
        last = (arena + code[at, KERNEL.at], code[at, KERNEL.bytes], 1)
    if code[at, 0] == FOLD.code:
        turn = (code[at, FOLD.place], code[at, FOLD.count])
        call_fold(function, ranks, src, turn, dst, both, last)
    else:
        call_kernel(function, ranks, src, dst, both, last)


@handwritten
def draw(code, at, key, words, parts, note):  # type: ignore[no-untyped-def]
    """Fill the record of a decision; one that reads items or a mask finds the key in the note."""
    function = code[at, DRAW.function]
    if function == 0:  # nothing is drawn
        return
    size = size_at(words, code[at, DRAW.of])
    both = parts_of(parts, code[at, DRAW.decision])
    if code[at, 0] == DRAW.code:
        call_draw(function, key, size, both)
        return
    note[BEFORE], note[BEFORE + 1] = size
    for word in range(5):
        note[KEY + word] = np.int64(key[word])
    line = 8 * code[at, DRAW_FROM.src] * words.shape[1]
    items = (words.ctypes.data + line, code[at, DRAW_FROM.item])
    last = (note.ctypes.data, note.shape[0], 8)
    none = (note.ctypes.data, 1)
    call_kernel(function, ITEM_RANKS, items, none, both, last)


@handwritten
def take(code, at, row, words, samples, sides):  # type: ignore[no-untyped-def]
    """Take a sample's field; return whether its sides are within their bounds."""
    line, column, rank = code[at, TAKE.dst], code[at, TAKE.column], code[at, TAKE.rank]
    words[line, 0] = samples[column, row]
    for axis in range(rank):
        words[line, 1 + axis] = sides[column, axis]
    return fits(words, line, code, at, TAKE.low0, rank)


@handwritten
def fetch(row, samples, ahead):  # type: ignore[no-untyped-def]
    """Prefetch the samples of a row into the cache, if there is such a row."""
    if row < samples.shape[1]:
        for column in range(samples.shape[0]):
            prefetch(samples[column, row], ahead[column])


@handwritten
def mark(stage, times):  # type: ignore[no-untyped-def]
    """Count the time from now on for a stage; see `StageClock.enter`."""
    wall = read_clock(times[FUNCTION], CLOCK_MONOTONIC)
    cpu = read_clock(times[FUNCTION], CLOCK_PROCESS_CPUTIME_ID)
    before = TOTALS + 2 * times[STAGE]
    if before >= TOTALS:
        times[before] += wall - times[WALL]
        times[before + 1] += max(cpu - times[CPU] - times[COST], 0)
    times[STAGE], times[CPU] = stage, cpu
    times[WALL] = read_clock(times[FUNCTION], CLOCK_MONOTONIC)
    times[COST] = min(times[WALL] - wall, MOST_COST_NS)


@handwritten
def execute(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one branch for each kind of instruction, one argument for each table
    code, words, sides, ahead, outs, streams, parts, arena, note, found, rows, samples, times
):
    """Compute rows.

    Args:
        code: the program and its timed copy, (n, WIDTH) int64.
        words: the value table, (values, LINE) int64; constants and places in the arena are set.
        sides: (fields, MAX_RANK) int64, the sides of all samples.
        ahead: (fields,) int64, bytes of a sample to prefetch before its row is computed.
        outs: (outputs, 2 + MAX_RANK) int64: address, bytes from row to row, sides of a row.
        streams: see `stoker.pipeline.planning.engine_tables.streams_table`.
        parts: (decisions, 3) int64: addresses of parameters and of the first row's record, and
            bytes to the next row's record; the second is advanced.
        arena: address of the scratch arena.
        note: (NOTE,) int64, see `stoker.pipeline.compiled.loop_instructions`.
        found: int64; number and sizes of a row that does not fit; then, for each decision, 1 plus
            the last row that made it, or `GIVEN_RECORD` if its record is already there.
        rows: (r, 4) uint64: seed, id, epoch, visit * 2**16 + view.
        samples: (fields, r) int64, the address of each row's sample.
        times: the table of `stoker.pipeline.engine.stage_clock`.

    Returns:
        0, or the status of the first row that does not fit.
    """
    shown = times[SHOWN]
    for row in range(1, AHEAD):
        fetch(row, samples, ahead)
    for row in range(rows.shape[0]):
        fetch(row + AHEAD, samples, ahead)
        if row != 0 and parts[0, 2] != 0:
            for decision in range(parts.shape[0]):
                parts[decision, 1] += parts[decision, 2]
        show_word(shown + 8, row)
        line, end = np.int64(0), times[SPLIT]
        if row == times[ROW]:
            line, end = end, code.shape[0]
        while line < end:
            at, op, dst = line, code[line, 0], code[line, 1]
            show_word(shown, at)
            line += 1
            if op <= RULE.code:
                run_kernel(code, at, words, parts, arena, note)
            elif op <= DRAW_FROM.code:
                decision = code[at, DRAW.decision]
                if found[DECISIONS_AT + decision] != GIVEN_RECORD:
                    draw(code, at, key_of(rows[row], streams[decision]), words, parts, note)
                found[DECISIONS_AT + decision] = row + 1
            elif op == UNLESS.code:
                if words[code[at, UNLESS.src], 0] == 0:
                    line = code[at, UNLESS.to]
            elif op == GOTO.code:
                line = code[at, GOTO.to]
            elif op == MARK.code:
                mark(dst, times)
            elif op == TAKE.code:
                if not take(code, at, row, words, samples, sides):
                    refuse(found, row, size_at(words, dst), (0, 0))
                    return code[at, TAKE.check]
            elif op == GIVEN.code:
                where = samples[code[at, GIVEN.column], row] + 16 * code[at, GIVEN.place]
                words[dst, 1], words[dst, 2] = load_word(where, WORDS), load_word(where + 8, WORDS)
            elif op <= ROOM.code:
                status = measure(code, at, row, words, parts, note, found)
                if status != 0:
                    return status
            elif op == EACH.code:
                each(code, at, words)
            elif op <= WRITE.code:
                locate(code, at, row, words, outs, note)
            elif op <= LAST_READ:
                words[dst, 0] = read(code, at, rows, row, words, parts)
            else:
                left, right = code[at, LEFT], code[at, RIGHT]
                words[dst, 0] = compute(op, words[left, 0], words[right, 0])
    return 0


def compile_loop() -> Any:
    """Return the loop, compiled or loaded; calls with other types than these are refused."""
    table, list_ = types.Array(types.int64, 2, "C"), types.Array(types.int64, 1, "C")
    keys = types.Array(types.uint64, 2, "C")
    given = (
        *(table, table, table, list_, table, keys, table),
        types.int64,
        *(list_, list_, keys, table, list_),
    )
    fast = compiled(execute)
    if given not in fast.overloads:
        fast.compile(given)
    fast.disable_compile()
    return fast
