"""Tests of what the op contract promises for boxes and keypoints; `check_op` calls them.

The pixels decide: every pixel of a mask gets its own number, and the source point that `forward`
gives for the center of an output pixel must be inside the pixel that the mask kernel took.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stoker.jit import compiled
from stoker.ops.contract.kernel_forms import ItemsKernel
from stoker.ops.contract.machine_records import machine_record
from stoker.ops.contract.op import Op
from stoker.ops.contract.rules import visible_word
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.points import inverse
from stoker.protocol.item_fields import COORDINATES, ItemField
from stoker.protocol.ragged import pack_items
from stoker.rng.streams import make_key, stream_key

SIZES: Final = ((24, 33), (61, 40), (90, 90), (37, 81))
FIRST: Final = 1000
"""Number of the first pixel: above the fills that a test would choose."""
EDGE: Final = 1e-3
"""A point closer than this to a pixel's edge proves nothing."""
PAINT: Final = 0xA5A5A5A5

Hold = Callable[[bool, Op, str], None]
Decision = tuple[Any, Any, tuple[int, int, int, int]]
"""Parameters, record, and the sizes before and after."""


def check_items(op: Op, hold: Hold, rows: int) -> None:
    """Prove the rules of an op for boxes and keypoints, if it has any.

    Args:
        op: the op.
        hold: `hold(good, op, what)` raises the error of a broken contract.
        rows: the number of rows to try.
    """
    seen, tried = 0, 0
    for key in range(rows):
        decided = decide(op, SIZES[key % len(SIZES)], key)
        for kind, kernel in op.items.items():
            _check_kernel(op, kind, kernel, decided, hold, key)
        if op.forward is not None:
            _check_forward(op, decided, hold)
            found = _compare_pixels(op, decided)
            if found is not None:
                hold(not found[1], op, f"forward and the mask kernel disagree: {found[1]}")
                seen, tried = seen + found[0], tried + 1
    hold(not tried or seen > 0, op, "forward says that no pixel comes from inside of the image")


def decide(op: Op, size: tuple[int, int], key: int) -> Decision:
    """Return an op's decision for an image of that size; `key` makes its own key."""
    params = np.zeros(1, machine_record(op.parameters))
    params[0] = op.params()[()]
    record = np.zeros(1, machine_record(op.record))
    looked_at = looked_at_by(op, size, key)
    op.draw(make_key(3, stream_key(op.name), key, 1), params[0], *size, record[0], *looked_at)
    after = op.out_size(params[0], record[0], *size)
    return params[0], record[0], (*size, int(after[0]), int(after[1]))


def looked_at_by(op: Op, size: tuple[int, int], number: int) -> tuple[np.ndarray, ...]:
    """Return the extra arguments of `draw`: random items, none for every fourth number.

    A mask is mostly 0, and all 0 for every fourth number.
    """
    if op.draws_from == "mask":
        noise = np.random.default_rng(number)  # noqa: TID251 - of its own
        rare = noise.random(size) < (0.02 if number % 4 != 3 else 0.0)
        return (np.where(rare, noise.integers(1, 4, size), 0).astype(np.uint8),)
    return (_items(_state(op.draws_from), size, number),) if op.draws_from else ()


def _check_forward(op: Op, decided: Decision, hold: Hold) -> None:
    plain = np.array(op.forward(*decided), np.float64)  # type: ignore[misc]
    hold(plain.shape == (9,), op, f"forward gives {plain.size} numbers, expected nine")
    hold(bool(np.isfinite(plain).all()), op, f"forward gives numbers that are not finite: {plain}")
    bent = op.affine and bool(plain[6:8].any())
    hold(not bent, op, f"affine is True, but forward is projective: its last row is {plain[6:]}")
    fast = np.array(compiled(op.forward)(*decided), np.float64)  # type: ignore[arg-type]
    hold(plain.tobytes() == fast.tobytes(), op, "the compiled forward gives other numbers")


def _compare_pixels(op: Op, decided: Decision) -> tuple[int, str] | None:
    """Return how many pixels agree, and the first that does not; None without a mask kernel."""
    size = decided[2][:2]
    mask = np.arange(FIRST, FIRST + size[0] * size[1], dtype=np.int32).reshape(size)
    try:
        (after,), _ = op.declare((State.fixed("mask", "int32", size),))
    except StateError:
        return None
    if after.dtype != "int32" or len(after.shape) != 2:
        return None
    dst = np.zeros(decided[2][2:], np.int32)
    op.kernels["mask"].plain(mask, dst, decided[0], decided[1], None)
    agree, disagree = compare_places(op.forward(*decided), size, dst)  # type: ignore[misc]
    return agree, disagree


def compare_places(
    numbers: Sequence[float], size: tuple[int, int], moved: np.ndarray
) -> tuple[int, str]:
    """Compare the mapped points with the places where numbered pixels went.

    Args:
        numbers: from `forward`.
        size: of the source, whose pixels are numbered from `FIRST` on, row by row.
        moved: the mask kernel's result; lower numbers are fill.

    Returns:
        The number of pixels compared, and what is wrong with the first that disagrees, or "".
    """
    middle = np.indices(moved.shape) + 0.5
    u, v, seen = places(inverse(numbers), middle[1], middle[0])
    sure = (np.abs(u - np.rint(u)) > EDGE) & (np.abs(v - np.rint(v)) > EDGE)
    inside = seen & sure & (u > 0) & (u < size[1]) & (v > 0) & (v < size[0])
    compared = inside & (moved >= FIRST)
    row, column = np.divmod(moved - FIRST, size[1])
    wrong = np.argwhere(compared & ((np.floor(u) != column) | (np.floor(v) != row)))
    if not len(wrong):
        return int(compared.sum()), ""
    at = tuple(int(axis) for axis in wrong[0])
    return int(compared.sum()), (
        f"output pixel {at} is source pixel ({row[at]}, {column[at]}), but its middle comes from "
        f"({v[at]:.3f}, {u[at]:.3f})"
    )


def places(numbers: Sequence[float], x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return x, y and whether the point is finite, of points under a map; with NumPy."""
    a, b, c, d, e, f, g, h, i = numbers
    z = g * x + h * y + i
    seen = z > 0
    z = np.where(seen, z, 1.0)
    return (a * x + b * y + c) / z, (d * x + e * y + f) / z, seen


def _check_kernel(
    op: Op, kind: str, kernel: ItemsKernel, decided: Decision, hold: Hold, key: int
) -> None:
    """Check that the kernel writes what it reports, changes nothing else, and compiles alike."""
    what = f"the {kind} kernel"
    params, record, sizes = decided
    state = _state(kind)
    after = op.declare_items(state)
    src = _items(state, sizes[:2], key)
    given, before = src.copy(), (params.tobytes(), record.tobytes())
    results = []
    more = (visible_word(state),) if kernel.visible else ()
    for run in (kernel.run, compiled(kernel.run)):
        dst = np.full((len(src) + 1, after.bound[1]), PAINT, np.uint32)
        count = int(run(src, dst, params, record, sizes, *more))
        hold(0 <= count <= len(src), op, f"{what} returns {count} for {len(src)} items")
        hold(bool((dst[count:] == PAINT).all()), op, f"{what} writes more items than it says")
        hold(np.array_equal(src, given), op, f"{what} changed its source")
        same = (params.tobytes(), record.tobytes()) == before
        hold(same, op, f"{what} changed its parameters or its record")
        results.append(dst[:count].tobytes())
    hold(results[0] == results[1], op, f"{what}, compiled, gives other items")


def _state(kind: str) -> State:
    name, width = COORDINATES[kind]
    fields = (ItemField(name, "float32", width), ItemField("number", "int64"))
    return State.ragged(kind, fields, 20)


def _items(state: State, size: tuple[int, ...], key: int) -> np.ndarray:
    """Return random items of an image of that size; none for every fourth key."""
    noise = np.random.default_rng(key)  # noqa: TID251 - of its own
    count = 0 if key % 4 == 3 else int(noise.integers(1, 21))
    at = noise.uniform(0, 1, (count, 2, 2)) * [size[1], size[0]]
    columns = {"boxes": np.hstack([at.min(1), at.max(1)]), "keypoints": at[:, 0]}
    coordinates = columns[state.kind].astype(np.float32)
    return pack_items(state.items, {state.items[0].name: coordinates, "number": np.arange(count)})
