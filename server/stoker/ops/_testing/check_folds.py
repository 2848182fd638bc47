"""Tests of what the op contract promises for folds; `check_op` calls them.

Every kernel of a fold runs over several noise values, with margins around all of its memory and
with two paints below it, and must give the result of the plain form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stoker.jit import compiled
from stoker.ops._testing.memory import OTHER_PAINT, PAINT, structured
from stoker.ops._testing.painted import PaintedMemory
from stoker.ops.contract.op import Op
from stoker.ops.contract.states import State, StateError, storage
from stoker.rng.streams import make_key, stream_key

COUNTS: Final = range(2, 17)
SHAPES: Final[dict[str, list[tuple[int, ...]]]] = {
    "image": [(17, 13, 3), (1, 9, 1), (40, 33, 4)],
    "mask": [(17, 13), (1, 9)],
    "array": [(3, 17, 13), (5,)],
    "label": [()],
    "scalar": [()],
}
DTYPES: Final = {
    "image": ("uint8", "float32"),
    "array": ("float16",),
    "label": ("int64",),
    "scalar": ("float64",),
}

Hold = Callable[[bool, Op, str], None]


def check_folds(op: Op, hold: Hold, rows: int) -> None:
    """Prove the folds of an op, if it has any.

    Args:
        op: the op.
        hold: `hold(good, op, what)` raises the error of a broken contract.
        rows: the number of rows to try.
    """
    for kind in op.folds:
        tried = [
            State.fixed(kind, dtype, shape)
            for dtype in DTYPES.get(kind, ("uint8",))
            for shape in SHAPES[kind]
        ]
        taken = [(state, count) for state in tried if (count := accepted(op, state))]
        hold(bool(taken), op, f"it refuses every {kind} it was tried on")
        for key in range(max(rows, len(taken))):
            _check_row(op, *taken[key % len(taken)], key, hold)


def accepted(op: Op, state: State) -> int:
    """Return the maximum number of values of a state that a fold takes; 0: none."""
    most = 0
    for count in COUNTS:
        try:
            op.declare((state,) * count)
        except StateError:
            continue
        most = count
    return most


def _check_row(op: Op, state: State, count: int, key: int, hold: Hold) -> None:
    noise = np.random.default_rng(key)  # noqa: TID251 - of its own
    kind, shape, dtype = state.kind, state.bound, np.dtype(state.dtype)
    values = [
        noise.integers(0, 200, shape or (1,)).astype(dtype).view(storage(dtype.name))
        for _ in range(count)
    ]
    states, scratch_bytes = op.declare((state,) * count)
    hold(len(states) == 1, op, f"it declares {len(states)} states, expected one")
    params, record = structured(op.parameters, op.params()), structured(op.record)
    op.draw(make_key(3, stream_key(op.name), key, 1), params, *(*shape, 1, 1)[:2], record)
    expected = np.empty(states[0].bound or (1,), storage(states[0].dtype))
    op.fold_of(kind, state.dtype).plain(values, expected, params, record)
    for paint in (PAINT, OTHER_PAINT):
        given = params.copy(), record.copy()
        got = _folded(op, state, values, states[0], scratch_bytes, (params, record), paint, hold)
        hold((params, record) == given, op, f"the {kind} fold changed its parameters or record")
        hold(
            got.tobytes() == expected.tobytes(),
            op,
            f"the {kind} fold gives other bytes than its plain form for {count} values of {shape} "
            f"and key {key}, or reads uninitialized memory",
        )


def _folded(
    op: Op,
    state: State,
    values: Sequence[np.ndarray],
    after: State,
    scratch_bytes: int,
    decided: tuple[Any, Any],
    paint: int,
    hold: Hold,
) -> np.ndarray:
    """Run the compiled fold between guards."""
    kind, dtype = state.kind, storage(after.dtype)
    memory = PaintedMemory.painted("dst", int(np.prod(after.bound)) * dtype.itemsize, paint)
    scratch = PaintedMemory.painted("scratch", scratch_bytes, paint)
    dst = memory.inner.view(dtype).reshape(after.bound or (1,))
    for place, value in enumerate(values):
        before = value.copy()
        run = op.fold_of(kind, state.dtype).run
        compiled(run)(value, place, len(values), dst, *decided, scratch.inner)
        hold(value.tobytes() == before.tobytes(), op, f"the {kind} fold changed its source")
    hold(not memory.fault(), op, f"the {kind} fold wrote outside of dst")
    hold(not scratch.fault(), op, f"the {kind} fold wrote outside of scratch: declare more bytes")
    return dst
