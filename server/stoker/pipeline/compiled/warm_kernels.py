"""Kernels compiled ahead of their first use, for the disk cache.

`op_calls` lists how pipelines call the registered ops: for each op its draw, and its kernels on an
RGB or gray image of uint8 or float32, on a mask of each dtype, and on an int64 label. Sizes and
parameters are not part of compiled code, so one instance represents an op; only a different `dtype`
of the result needs another. The calls are those of pipelines' programs. `batch_calls` lists the
kernels of batch ops. Imports numba.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from numba import float32, float64, int32, int64

from stoker.jit import activity, compiled
from stoker.jit.compiling_processes import compile_in_processes
from stoker.jit.diskcache import is_compiled
from stoker.ops.contract.examples import smallest_of
from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import batch_ops, folds, registered
from stoker.ops.contract.rules import FLOAT, MASK_DTYPES
from stoker.ops.contract.states import VECTORS, ParameterError, State, StateError
from stoker.ops.kernels.means import blend_bytes, blend_floats, blend_halves
from stoker.ops.kernels.paste import paste
from stoker.ops.kernels.points import MOVERS
from stoker.ops.kernels.warp import warp_affine
from stoker.pipeline.compiled.kernel_calls import (
    draw_of,
    fold_of,
    forward_of,
    items_of,
    kernel_of,
    move_of,
    reads_of,
    size_of,
    turn_of,
)
from stoker.pipeline.compiled.loop import compile_loop
from stoker.pipeline.compiled.signature import (
    ITEMS,
    MAP,
    PAIR,
    SIZES,
    STEPS,
    call_types,
    draw_types,
    view_type,
)
from stoker.protocol.item_fields import COORDINATES, WORD

Call = tuple[Callable[..., Any], tuple[Any, ...]]

STATES: Final = (
    State.fixed("image", "uint8", (64, 64, 3)),
    State.fixed("image", "float32", (64, 64, 3)),
    *(State.fixed("mask", dtype, (64, 64)) for dtype in MASK_DTYPES),
    State.fixed("label", "int64", ()),
)
RAGGED: Final = {
    kind: State(kind, WORD, (None, words), (1, words)) for kind, (_, words) in COORDINATES.items()
}
OF_VECTORS: Final = tuple(
    State.fixed(kind, "float32", (64, 64, count)) for kind, count in VECTORS.items()
)
LOOKED_AT: Final = {
    **{kind: (state,) for kind, state in RAGGED.items()},
    "mask": tuple(State.fixed("mask", dtype, (1, 1)) for dtype in MASK_DTYPES),
}
"""Kinds that a draw may read -> its states."""
RESULT_DTYPES: Final = ("float32", "float16", "uint8")


class Warmed(NamedTuple):
    """Numbers of functions that were compiled, and that were already in the cache."""

    compiled: int
    found: int


def op_calls(ops: Iterable[type[Op]] | None = None) -> Iterator[Call]:
    """Yield the functions of ops with their argument types.

    Args:
        ops: the ops; all that are registered by default.
    """
    for cls in [*registered().values(), *folds().values()] if ops is None else ops:
        looked_at = LOOKED_AT[cls.draws_from] if cls.draws_from else (None,)
        calls = [*(draw_of(cls, items=state) for state in looked_at), size_of(cls)]
        if cls.reads is not None:
            calls.append(reads_of(cls))
        if cls.forward is not None:
            calls += [forward_of(cls), *(move_of(kind, RAGGED[kind]) for kind in MOVERS)]
        if cls.affine and cls.forward is not None:
            calls += [turn_of(state.kind, state, state) for state in OF_VECTORS]
        calls += [items_of(cls, kind, RAGGED[kind], RAGGED[kind]) for kind in cls.items]
        for op in _instances(cls):
            for state in STATES:
                after = _after(op, state)
                if after is not None:
                    one = fold_of if op.folds else kernel_of
                    calls.append(one(cls, state.kind, state, after))
        yield from ((call.function, call_types(call)) for call in calls if call is not None)


def batch_calls() -> Iterator[Call]:
    """Yield the functions that batch ops use, with their argument types."""
    for cls in batch_ops().values():
        yield cls.draw, draw_types(cls)
    for run, dtype, weights in (
        (blend_bytes, "uint8", (int32,)),
        (blend_floats, "float32", (float32, float32)),
        (blend_floats, "float64", (float64, float64)),
        (blend_halves, "float16", (float32, float32)),
    ):
        flat = view_type(State.fixed("array", dtype, (1,)))
        yield run, (flat, flat, flat, *weights)
    for shape in ((1, 1), (1, 1, 1)):
        pixels = view_type(State.fixed("array", "uint8", shape))
        yield paste, (pixels, pixels, pixels, int64, PAIR, SIZES)
    for dtype in ("uint8", "float32"):
        pixels = view_type(State.fixed("array", dtype, (1, 1, 1)))
        fill = view_type(State.fixed("array", FLOAT, (1,)))
        yield warp_affine, (pixels, pixels, STEPS, int64, fill)
    for move in MOVERS.values():
        yield move, (ITEMS, ITEMS, MAP, SIZES, int64)


def warm(calls: Iterable[Call], processes: int = 1) -> Warmed:
    """Compile functions into the kernel cache, unless they are already there.

    Args:
        calls: the functions, with their argument types.
        processes: how many compile at once.

    Raises:
        ResourceError: the kernel cache cannot be written.
    """
    wanted = dict.fromkeys(calls)
    missing = [(fn, types) for fn, types in wanted if not is_compiled(compiled(fn), types)]
    tasks: dict[Hashable, Callable[[], Any]] = {"loop": compile_loop}
    tasks |= {call: partial(_compile, *call) for call in missing}
    activity.expect(tasks)
    compile_in_processes(tasks, processes)
    compile_loop()
    activity.finished("loop")
    for call in wanted:  # loads all, and compiles what is damaged or could not be compiled
        _compile(*call)
        activity.finished(call)
    return Warmed(len(missing), len(wanted) - len(missing))


def _compile(fn: Callable[..., Any], types: tuple[Any, ...]) -> None:
    compiled(fn).compile(types)


def _instances(cls: type[Op]) -> Iterator[Op]:
    """Yield an instance for each possible dtype of the result."""
    needed = smallest_of(cls)
    if not any(field.name == "dtype" for field in dataclasses.fields(cls)):
        yield cls(**needed)
        return
    for dtype in RESULT_DTYPES:
        try:
            yield cls(**{**needed, "dtype": dtype})
        except ParameterError:
            continue


def _after(op: Op, state: State) -> State | None:
    """Return the state of the result, or None if the op has no rule."""
    if state.kind not in {*op.kernels, *op.folds}:
        return None
    try:
        return op.declare((state, state) if op.folds else (state,))[0][0]
    except StateError:
        return None
