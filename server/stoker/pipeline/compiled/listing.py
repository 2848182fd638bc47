"""A program as text, for people: one line per instruction, with its operands by name.

`v` marks a line of the value table; the first ones are the plan's values under their own
numbers. Operands that are 0 and mean nothing are omitted.
"""

from __future__ import annotations

from stoker.pipeline.compiled.emitter import Program
from stoker.pipeline.compiled.loop_instructions import ELEMENTS, FORMS

_LINES = ("dst", "src", "left", "right", "frame", "of")
_NAMES = tuple(FORMS)


def listing(program: Program) -> str:
    """Return a program as text."""
    return "\n".join(_line(program, number) for number in range(len(program.code))) + "\n"


def _line(program: Program, number: int) -> str:
    code, *operands = program.code[number].tolist()
    name = _NAMES[code]
    words = []
    for operand, value in zip(FORMS[name], operands, strict=False):
        if operand == "function":
            call = program.calls.get(number)
            words += [str(call)] if call else []
        elif operand in _LINES:
            words.append(f"{operand} v{value}")
        elif operand.endswith("dtype"):
            words.append(ELEMENTS[value])
        elif operand == "op":
            words.append(_NAMES[value])
        elif not operand.startswith(("low", "high")):
            words.append(f"{operand} {value}")
    bounds = [
        f"{operands[FORMS[name].index(f'low{axis}')]}..{operands[place]}"
        for axis in range(len(FORMS[name]))
        if (place := _place(name, f"high{axis}")) is not None and operands[place]
    ]
    if bounds:
        words.append("sides " + " x ".join(bounds))
    return f"{number:4} {name:10} {', '.join(words)}".rstrip()


def _place(name: str, operand: str) -> int | None:
    return FORMS[name].index(operand) if operand in FORMS[name] else None
