"""What the glue of a plan calls, and which op is at fault when numba refuses it.

After a failure every draw, size rule and kernel of the plan is compiled alone, with the types it
would be called with; the first that fails is named, with the user's line, the states, and the last
line of numba's message. Imports numba; used while a plan is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from numba import types

from stoker.ops.contract import State, no_draw
from stoker.ops.points import MOVERS
from stoker.pipeline.plan import Plan
from stoker.pipeline.signature import (
    MAP,
    SCRATCH,
    SIZES,
    draw_types,
    record_type,
    store_types,
    view_type,
)
from stoker.pipeline.steps import (
    ApplyStep,
    Decision,
    FoldStep,
    IfStep,
    ItemsStep,
    Step,
    StoreSizedStep,
)
from stoker.pipeline.support import store_packed, store_padded
from stoker.protocol.errors import BuildError, StokerError
from stoker.rng.jit import compiled

Part = tuple[Decision, str, Callable[..., Any], tuple[Any, ...], str]


def calls_apart(plan: Plan) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Yield the draws and kernels that the glue of a plan calls, with the types of each call.

    Rules of a few lines, such as those of sizes, are left out: they are copied into the glue.
    """
    for _, what, fn, args, _ in _parts(plan):
        if fn is not no_draw and (what in ("draw", "forward") or what.endswith("kernel")):
            yield fn, args
    for step in _applies(plan.steps):
        if isinstance(step, ItemsStep) and step.kernel is None:
            view = view_type(plan.states[step.src])
            yield MOVERS[step.kind], (view, view, MAP, SIZES, types.int64)
    for store in plan.steps:
        if isinstance(store, StoreSizedStep):
            args = (view_type(plan.states[store.src]), *store_types(plan, store), types.int64)
            fill = types.float64 if args[1].dtype in types.real_domain else types.int64
            pads = store.form.form == "pad"
            yield (store_padded, (*args, fill)) if pads else (store_packed, args)


def explain_failure(plan: Plan, error: Exception) -> BuildError:
    """Return the error that says which op's function cannot be compiled, and why."""
    for decision, what, fn, args, states in _parts(plan):
        try:
            compiled(fn).compile(args)
        except StokerError:
            raise
        except Exception as fault:  # numba lets KeyError and others of its own through
            code, site = fn.__code__, decision.site
            return BuildError(
                f"{site}: op {decision.op.name!r}{states}: its {what} "
                f"({code.co_filename}:{code.co_firstlineno}) cannot be compiled: {reason(fault)}. "
                f"A kernel uses numbers, loops and views of its arguments only",
                op=decision.op.name,
                file=site.file,
                line=site.line,
            )
    return BuildError(f"the pipeline cannot be compiled: {reason(error)}")


def reason(error: Exception) -> str:
    """Return what numba says, in one line, without its path through the compiler."""
    if isinstance(error, KeyError):
        return f"there is no field {error}"
    lines = [line.strip() for line in str(error).splitlines()]
    useful = [
        line
        for line in lines
        if line
        and not line.startswith(("During:", "File ", "def ", "<source", "^", "-", "Failed in"))
        and "np.ndarray pipeline" not in line
    ]
    return (useful[0] if useful else type(error).__name__).rstrip(".")


def _parts(plan: Plan) -> Iterator[Part]:
    for decision in plan.decisions:
        op = type(decision.op)
        params, record = record_type(op.parameters), record_type(op.record)
        yield decision, "draw", op.draw, draw_types(op), ""
        sizes = (params, record, types.int64, types.int64)
        yield decision, "out_size", op.out_size, sizes, ""
    for step in _applies(plan.steps):
        op = type(step.decision.op)
        dst = plan.states[step.dst]
        if isinstance(step, ItemsStep):
            yield _items_part(step, plan.states[step.src], dst)
            continue
        counts = (types.int64, types.int64) if isinstance(step, FoldStep) else ()
        records = record_type(op.parameters), record_type(op.record)
        for src in dict.fromkeys(plan.states[value] for value in step.srcs):
            args = (view_type(src), *counts, view_type(dst), *records, SCRATCH)
            states = f" on {src} to {dst}"
            yield step.decision, f"{step.kind} kernel", step.kernel.run, args, states


def _items_part(step: ItemsStep, src: State, dst: State) -> Part:
    """Return what an op says of boxes or keypoints: a kernel, or where points come to lie."""
    op = type(step.decision.op)
    records = record_type(op.parameters), record_type(op.record)
    on = f" on {src} to {dst}"
    if step.kernel is not None:
        told = (types.int64,) if step.kernel.visible else ()
        args = (view_type(src), view_type(dst), *records, SIZES, *told)
        return step.decision, f"{step.kind} kernel", step.kernel.run, args, on
    return step.decision, "forward", step.forward, (*records, SIZES), on


def _applies(steps: tuple[Step, ...]) -> Iterator[ApplyStep | FoldStep | ItemsStep]:
    for step in steps:
        if isinstance(step, ApplyStep | FoldStep | ItemsStep):
            yield step
        elif isinstance(step, IfStep):
            yield from _applies(step.then)
            yield from _applies(step.orelse)
