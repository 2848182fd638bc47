"""Checks a program against its plan before it may run: its loop trusts every number in it.

The loop calls machine code by address and makes arrays from addresses and sides, so no compiler
checks that a call matches the types its code was compiled for. This module checks that once, when
an engine is made: dtype, rank and element size of both arrays of each call, and of arrays that are
computed; parameters and record of its decision; that values and scratch are inside the arena; that
outputs' rows have room for what is written there; and that a call does not overwrite what it reads.
Only sides and indices are left to each row: `take` and `size` refuse sides beyond their bounds, and
`element` refuses such indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from stoker.ops.contract.states import State
from stoker.pipeline.compiled.emitter import Program
from stoker.pipeline.compiled.kernel_calls import Call
from stoker.pipeline.compiled.loop_instructions import CODES, ELEMENTS, FORMS
from stoker.pipeline.planning.engine_tables import physical, physical_rank
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.slot_layout import ALIGN

_CALLED: Final = tuple(CODES[name] for name in ("kernel", "fold", "rule"))
_NAMES: Final = tuple(FORMS)
_Span = tuple[int, int]


def prove(plan: Plan, program: Program) -> None:
    """Compare a program with the plan that it was written from.

    Raises:
        TypeError: they differ, which is a bug in Stoker; names line and reason.
    """
    for reason in _places(plan, program):
        raise TypeError(f"program: {reason}")
    for line in range(len(program.code)):
        for reason in _faults(plan, program, line):
            raise TypeError(f"program, line {line}, {program.calls.get(line)}: {reason}")


def _faults(plan: Plan, program: Program, line: int) -> Iterator[str]:
    """Yield what is wrong with an instruction."""
    call, given = program.calls.get(line), _operands(program, line)
    if call is not None and call.op:
        yield from _decided(plan, call, given["decision"])
    if program.code[line, 0] in _CALLED:
        if call is None:
            yield "nothing is called"
        else:
            yield from _called(plan, program, call, given)
    elif program.code[line, 0] == CODES["write"] and given["dst"] in program.parameters:
        yield from _parameter(plan, *program.parameters[given["dst"]], ELEMENTS[given["dtype"]])
    elif program.code[line, 0] == CODES["slot"]:
        yield from _stored(plan, given["dst"], given["output"])
    elif program.code[line, 0] == CODES["element"]:
        yield from _elements(plan, given["src"], given["dtype"], given["item"], given["rank"])
    elif program.code[line, 0] == CODES["each"]:
        yield from _computed(plan, program, given)


def _operands(program: Program, line: int) -> dict[str, int]:
    code, *numbers = program.code[line].tolist()
    return dict(zip(FORMS[_NAMES[code]], numbers, strict=False))


def _places(plan: Plan, program: Program) -> Iterator[str]:
    """Yield every value outside of the arena."""
    for line in program.arena:
        first, stop = _span(plan, program, line)
        if first % ALIGN or not 0 <= first <= stop <= plan.arena_bytes:
            yield f"value {line} is in bytes {first} to {stop} of {plan.arena_bytes}"


def _called(plan: Plan, program: Program, call: Call, given: dict[str, int]) -> Iterator[str]:
    """Yield what is wrong with the call of a kernel, fold or rule."""
    if given["ranks"] != 8 * physical_rank(call.src) + physical_rank(call.dst):
        yield f"its arrays have other ranks than {call.src} and {call.dst}"
    for word, line, state in (("item", "src", call.src), ("into", "dst", call.dst)):
        if given[word] != np.dtype(physical(state.dtype)).itemsize:
            yield f"elements of {state} do not have {given[word]} bytes"
        held = plan.states.get(given[line])
        if held is None and given[line] <= max(plan.states):
            yield f"value {given[line]} has no memory"
        if held is not None and not _same(held, state):
            yield f"it was compiled for {state}, value {given[line]} is {held}"
    scratch = given.get("at", 0), given.get("at", 0) + given.get("bytes", 0)
    if call.form == "note":
        scratch = 0, 0
    if not 0 <= scratch[0] <= scratch[1] <= plan.arena_bytes:
        yield f"its scratch is in bytes {scratch[0]} to {scratch[1]} of {plan.arena_bytes}"
    spans = [_span(plan, program, given[line]) for line in ("src", "dst")]
    if _overlap(*spans) and spans[0][0] != spans[1][0]:
        yield f"it reads bytes {spans[0]} of the arena and writes {spans[1]}"
    if any(_overlap(scratch, span) for span in spans):
        yield f"its scratch {scratch} overlaps memory that it reads or writes, {spans}"


def _decided(plan: Plan, call: Call, decision: int) -> Iterator[str]:
    """Yield what is wrong with the parameters and the record of a call."""
    if not 0 <= decision < len(plan.decisions):
        yield f"there is no decision {decision}"
        return
    op = plan.decisions[decision].op
    if (type(op).name, op.parameters, op.record) != (call.op, call.parameters, call.record):
        yield f"decision {decision} is of {op.name}, with other parameters or another record"


def _parameter(plan: Plan, decision: int, offset: int, dtype: str) -> Iterator[str]:
    """Yield what is wrong with a run-time parameter that a row writes."""
    fields: Mapping[str, Any] = plan.decisions[decision].op.parameters.fields or {}
    if (np.dtype(dtype), offset) not in {(kind, at) for kind, at, *_ in fields.values()}:
        yield f"decision {decision} has no {dtype} at byte {offset} of its parameters"


def _stored(plan: Plan, value: int, output: int) -> Iterator[str]:
    """Yield what is wrong with a value in an output's row."""
    if not 0 <= output < len(plan.outputs):
        yield f"there is no output {output}"
        return
    state, row = plan.states.get(value), plan.outputs[output]
    if state is None:  # a line added by the writer: the whole row, which padding fills
        return
    if state.dtype != row.dtype or state.bound_bytes > row.row_bytes:
        yield f"value {value} is {state}, a row of {row.name!r} {row.dtype} {row.shape}"


def _elements(plan: Plan, value: int, dtype: int, item: int, rank: int) -> Iterator[str]:
    """Yield what is wrong with the elements that an instruction reads or writes."""
    state, name = plan.states.get(value), ELEMENTS[dtype]
    if state is None or plan.places[value].kind == "register":
        yield f"value {value} has no memory"
        return
    held = physical(state.dtype)
    if (held, len(state.shape), np.dtype(held).itemsize) != (name, rank, item):
        what = f"rank {rank} of {name} with {item} bytes"
        yield f"it takes value {value} for {what}, which is {state}"


def _computed(plan: Plan, program: Program, given: dict[str, int]) -> Iterator[str]:
    """Yield what is wrong with an operation on arrays."""
    yield from _elements(plan, given["dst"], given["dtype"], given["into"], given["rank"])
    made = _span(plan, program, given["dst"])
    for side in ("left", "right"):
        dtype, item = given[f"{side}_dtype"], given[f"{side}_item"]
        if item:
            yield from _elements(plan, given[side], dtype, item, given["rank"])
            if _overlap(_span(plan, program, given[side]), made):
                yield f"it reads value {given[side]} where it writes"
        elif ELEMENTS[dtype] not in ("int64", "float64"):
            yield f"its number is a word, not {ELEMENTS[dtype]}"


def _span(plan: Plan, program: Program, line: int) -> _Span:
    """Return the bytes of the arena that a value may occupy; none if it is stored elsewhere."""
    if line not in program.arena:
        return 0, 0
    first = int(program.values[line, 0])
    return first, first + plan.states[line].bound_bytes


def _overlap(one: _Span, other: _Span) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])


def _same(held: State, state: State) -> bool:
    """Return whether the view of a value has the type for a state."""
    return physical(held.dtype) == physical(state.dtype) and physical_rank(held) == physical_rank(
        state
    )
