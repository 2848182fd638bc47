"""A plan as text, for people: its steps, their states, their memory, and their draws.

Steps, memory plan and conditions are shown; `stoker.pipeline.compiled.listing` shows the program
that they become.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from stoker.ops.geometry.resize_center_crop import ResizeCenterCrop
from stoker.pipeline.graph.frame_sampling import FrameSampling
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import Form, If, Node
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.steps import (
    ApplyStep,
    ArrayStep,
    ConstStep,
    ContextStep,
    ConvertStep,
    DrawStep,
    ElementStep,
    ExprStep,
    FoldStep,
    IfStep,
    InputStep,
    ItemsStep,
    OpStep,
    ParameterStep,
    RecordStep,
    SameSizeStep,
    Step,
    StoreSizedStep,
    StoreStep,
    VectorsStep,
    walk,
)
from stoker.protocol.slot_layout import Output


def explain(plan: Plan) -> str:
    """Return the plan as text: one line for each step, then memory, conditions and outputs."""
    lines = [
        f"pipeline {plan.pipeline_id}",
        f"streams: {', '.join(plan.streams) or 'none'}",
        *([] if plan.clip is None else [_clip(plan.clip)]),
        "steps:",
        *_lines(plan, plan.steps, "  "),
        "memory:",
        *_memory(plan),
        "conditions:",
        *(_conditions(plan) or ["  none: every step runs for every row"]),
        *_mixes(plan),
        "outputs:",
    ]
    lines += [f"  {o.name}: {o.kind} {o.dtype} {_shape(o)}" for o in plan.delivered]
    return "\n".join(lines) + "\n"


def _clip(clip: FrameSampling) -> str:
    """Return a line about which frames of a clip the steps are run for."""
    start = f"drawn from {clip.stream!r}" if clip.stream else str(clip.start)
    return (
        f"rows: {clip.frames} frames of a clip (rows of one {clip.by!r}), stride {clip.stride}, "
        f"start {start}; too short: {clip.short}. The steps are those of each frame"
    )


def joined(plan: Plan) -> list[str]:
    """Return lines about steps that a plan with shortcuts merges."""
    return [
        f"{d.op.by} and center_crop: only what is kept is computed"
        for d in plan.decisions
        if isinstance(d.op, ResizeCenterCrop)
    ] or ["nothing"]


def _mixes(plan: Plan) -> list[str]:
    """Return lines about what batch ops do to the outputs of rows, and with which rows."""
    lines = ["batch ops, on finished rows:"] * bool(plan.mixes)
    for mix in plan.mixes:
        names = ", ".join(plan.outputs[place].name for place in mix.states)
        others = "a row of its group"
        if mix.op.of_dataset:
            others = f"{mix.op.others} samples of the dataset"
        lines.append(f"  {mix.op.name} d{mix.decision.index} of {names}: with {others}")
    return lines


def graph_text(graph: Graph) -> str:
    """Return the normal form of a graph as text: one line for each node, values by number."""
    lines, _ = _nodes(graph.nodes, 0, "")
    forms = {form.output: f", {_form(form)}" for form in graph.forms}
    lines += [f"output {name!r} = {value}{forms.get(name, '')}" for name, value in graph.outputs]
    return "\n".join(lines) + "\n"


def _nodes(nodes: tuple[Node, ...], number: int, pad: str) -> tuple[list[str], int]:
    lines: list[str] = []
    for node in nodes:
        if isinstance(node, If):
            lines.append(f"{pad}if {node.cond}:")
            for word, block in (("", node.then), (f"{pad}else:", node.orelse)):
                lines += [word] if word else []
                inner, number = _nodes(block.nodes, number, pad + "  ")
                lines += [*inner, f"{pad}  gives {_numbers(block.results)}"]
        else:
            made = range(number, number + node.width)
            data = msgspec.to_builtins(node)
            kind = data.pop("node")
            rest = ", ".join(f"{key} {_plain(value)}" for key, value in data.items() if value != "")
            lines.append(f"{pad}{_numbers(made)} = {kind} {rest}")
        number += node.width
        if isinstance(node, If) and node.width:
            made = range(number - node.width, number)
            lines.append(f"{pad}{_numbers(made)} = what the block that ran gives")
    return lines, number


def _numbers(values: Iterable[int]) -> str:
    return ", ".join(map(str, values)) or "nothing"


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"({_numbers(value)})"
    return repr(value)


def _memory(plan: Plan) -> list[str]:
    """Return lines about a row's memory besides inputs and outputs, and about shared bytes."""
    held: dict[int, list[int]] = {}
    for value, place in plan.places.items():
        if place.kind == "arena":
            held.setdefault(place.index, []).append(value)
    lines = [f"  scratch arena: {plan.arena_bytes} bytes, made once; nothing grows with the pixels"]
    for start, values in sorted(held.items()):
        most = max(plan.states[value].bound_bytes for value in values)
        names = ", ".join(f"v{value}" for value in sorted(values))
        shared = ", one after the other" if len(values) > 1 else ""
        lines.append(f"  bytes {start} to {start + most}: {names}{shared}")
    lines += [
        f"  from byte {start}: scratch of the kernel that makes v{value}"
        for value, start in sorted(plan.scratch.items(), key=lambda item: item[1])
    ]
    direct = [value for value, place in plan.places.items() if place.kind == "output"]
    if direct:
        names = ", ".join(f"v{value}" for value in sorted(direct))
        lines.append(f"  written straight into the slot: {names}")
    return lines


def _conditions(plan: Plan) -> list[str]:
    """Return lines about decisions made for each row, and the number of steps on either side."""
    lines: list[str] = []
    for step, _ in walk(plan.steps, outer_first=True):
        if isinstance(step, IfStep):
            sides = " or ".join(
                f"{count} step{'' if count == 1 else 's'}" for count in map(len, step.blocks)
            )
            lines.append(
                f"  v{step.cond} at {plan.graph.site(step.cond)}: decided for each row, {sides}; "
                "both are compiled, one runs"
            )
    return lines


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
            return _decided(d)
        case SameSizeStep():
            return f"check: v{step.left} and v{step.right} have one size"
        case ApplyStep() | FoldStep() | ItemsStep() | VectorsStep():
            return _applied(plan, step)
        case StoreStep() | StoreSizedStep():
            form = ""
            if isinstance(step, StoreSizedStep):
                form = f" and its size, {_form(step.form)}"
            return f"output {plan.outputs[step.output].name!r} = v{step.src}{form}"
    return _scalar_line(plan, step)


def _applied(plan: Plan, step: OpStep | VectorsStep) -> str:
    op = f"{step.decision.op.name} d{step.decision.index}"
    op += " on the components" * isinstance(step, VectorsStep)
    of = ", ".join(f"v{src}" for src in step.reads)
    return f"v{step.dst} = {op} of {of}{_about(plan, step.dst)}"


def _decided(d: Decision) -> str:
    if d.source is not None and d.op != d.source.op:
        return f"d{d.index} = d{d.source.index} for v{d.of}, with fill 0: {d.op.name} ({d.site})"
    if d.source is not None:
        whose = f"d{d.source.index} in parts of the sides of v{d.of}"
        return f"d{d.index} = {whose}: {d.op.name} ({d.site})"
    of = "" if d.of is None else f" for v{d.of}"
    of += "" if d.items is None else f", looking at v{d.items}"
    stream = "no randomness" if d.stream is None else f"stream {d.stream!r}"
    more = ", parameters of a schedule" * (d.schedule is not None)
    more += ", the same for all views" * d.shared
    more += f", in Python: {d.op.params_data()['function']}" if d.op.calls_python else ""
    return f"d{d.index} = draw {d.op.name}{of}, {stream}{more} ({d.site})"


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
        case ElementStep() | ArrayStep() | ParameterStep():
            return _element_line(plan, step)
        case ExprStep():
            return f"v{step.dst} = {step.op} {', '.join(f'v{arg}' for arg in step.args)}"
    raise TypeError(f"no line for {step}")


def _element_line(plan: Plan, step: ElementStep | ArrayStep | ParameterStep) -> str:
    if isinstance(step, ParameterStep):
        given = step.parameter
        name = f"d{step.decision.index}.{given.name}"
        return f"{name} = v{given.value}: in each row {given.rule.expected}"
    if isinstance(step, ElementStep):
        return f"v{step.dst} = v{step.src}[{', '.join(f'v{index}' for index in step.indices)}]"
    args = ", ".join(f"v{arg}" for arg in step.args)
    return f"v{step.dst} = {step.op} {args}, element by element{_about(plan, step.dst)}"


def _form(form: Form) -> str:
    more = f" to the {form.to}, a multiple of {form.multiple}, fill {form.fill}"
    more *= form.form == "pad"
    return f"{form.form}{more}"


def _shape(output: Output) -> str:
    """Return the shape of an output's rows; `<=` precedes the sides that differ."""
    if not output.varies:
        return str(output.shape)
    sides = (f"{'<=' * (n in output.varies)}{side}" for n, side in enumerate(output.shape))
    return f"({', '.join(sides)}), {output.form}"


def _about(plan: Plan, value: int) -> str:
    """Return the state of a value and its place in memory: `: state, place`."""
    place = plan.places[value]
    if place.kind == "output":
        where = f"in the row of output {plan.outputs[place.index].name!r}"
    else:
        names = {"input": "in the input", "register": "in a register", "join": "in its branch"}
        where = names.get(place.kind, f"at byte {place.index}")
    return f": {plan.states[value]}, {where}"
