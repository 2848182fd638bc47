"""A plan as text, for people: what runs, on which states, where it lies, and what it draws from.

Both the steps and the memory plan are shown; the generated source is a file of its own
(`Executor.source`). numba-free.
"""

from __future__ import annotations

from stoker.pipeline.plan import Plan
from stoker.pipeline.steps import (
    ApplyStep,
    ConstStep,
    ContextStep,
    ConvertStep,
    DrawStep,
    ExprStep,
    IfStep,
    InputStep,
    RecordStep,
    SameSizeStep,
    Step,
    StoreStep,
)


def explain(plan: Plan) -> str:
    """Return the plan as text, one line for each step."""
    lines = [
        f"pipeline {plan.pipeline_id}",
        f"streams: {', '.join(plan.streams) or 'none'}",
        f"scratch arena: {plan.arena_bytes} bytes",
        "steps:",
        *_lines(plan, plan.steps, "  "),
        "outputs:",
    ]
    lines += [f"  {o.name}: {o.kind} {o.dtype} {o.shape}" for o in plan.outputs]
    return "\n".join(lines) + "\n"


def _lines(plan: Plan, steps: tuple[Step, ...], pad: str) -> list[str]:
    lines: list[str] = []
    for step in steps:
        if isinstance(step, IfStep):
            lines.append(f"{pad}if v{step.cond}:")
            for word, block, side in (("", step.then, "then"), ("else:", step.orelse, "orelse")):
                lines += [pad + word] if word else []
                lines += _lines(plan, block, pad + "  ")
                lines += [f"{pad}  v{j.dst} = v{getattr(j, side)}" for j in step.joins]
        else:
            lines.append(pad + _line(plan, step))
    return lines


def _line(plan: Plan, step: Step) -> str:
    match step:
        case InputStep():
            return f"v{step.dst} = field {plan.fields[step.column]!r}{_about(plan, step.dst)}"
        case DrawStep(decision=d):
            of = "" if d.of is None else f" for v{d.of}"
            stream = "no randomness" if d.stream is None else f"stream {d.stream!r}"
            return f"d{d.index} = draw {d.op.name}{of}, {stream} ({d.site})"
        case SameSizeStep():
            return f"check: v{step.left} and v{step.right} have one size"
        case ApplyStep(decision=d):
            return f"v{step.dst} = {d.op.name} d{d.index} of v{step.src}{_about(plan, step.dst)}"
        case StoreStep():
            return f"output {plan.outputs[step.output].name!r} = v{step.src}"
    return _scalar_line(plan, step)


def _scalar_line(plan: Plan, step: Step) -> str:
    match step:
        case ConvertStep():
            return f"v{step.dst} = v{step.src}{_about(plan, step.dst)}"
        case ConstStep():
            return f"v{step.dst} = {step.value!r}"
        case ContextStep():
            return f"v{step.dst} = the row's {step.name}"
        case RecordStep(decision=d):
            return f"v{step.dst} = {step.name} of d{d.index}"
        case ExprStep():
            return f"v{step.dst} = {step.op} {', '.join(f'v{arg}' for arg in step.args)}"
    raise TypeError(f"no line for {step}")


def _about(plan: Plan, value: int) -> str:
    place = plan.places[value]
    if place.kind == "output":
        where = f"in the row of output {plan.outputs[place.index].name!r}"
    else:
        names = {"input": "in the input", "register": "in a register", "join": "in its branch"}
        where = names.get(place.kind, f"at byte {place.index}")
    return f": {plan.states[value]}, {where}"
