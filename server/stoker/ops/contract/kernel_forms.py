"""The compiled parts of an op: one form for images and arrays, one for items, one for folds.

Each part is a plain function marked with `stoker.jit.kernel`, and names the plain NumPy reference
that gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.jit import kernel

RunKernel = Callable[[np.ndarray, np.ndarray, Any, Any, Any], None]


@dataclass(frozen=True)
class Kernel:
    """The code that transforms an image, mask or array.

    Attributes:
        run: compiled form, `run(src, dst, params, record, scratch)`; the views have the sizes of
            this sample; `scratch` is `(bytes,) uint8`, 64-byte aligned, contents undefined.
        plain: NumPy reference of the same signature; `scratch` may be None. Same bits as `run`.
        in_place: whether `src` and `dst` may be the same memory.
    """

    run: RunKernel
    plain: RunKernel
    in_place: bool = False


@dataclass(frozen=True)
class ItemsKernel:
    """The code that transforms boxes or keypoints, if a map of points (`Op.forward`) is not enough.

    Attributes:
        run: `run(src, dst, params, record, sizes) -> count`: writes the first `count` items of
            `dst`, at most as many as `src` has, and returns how many. `src` is (n, words) uint32,
            `dst` (bound, words) uint32; `sizes` are height and width of the image before and after
            the op, four numbers, 0 if the op was not called with an image. It is plain Python, and
            the interpreter runs it without compiling.
        visible: whether `run` takes one more argument: the index of the word in an item that holds
            a box's field `visible_part`, or 0; for kernels that move boxes themselves.
    """

    run: Callable[..., int]
    visible: bool = False


@dataclass(frozen=True)
class FoldKernel:
    """The code that makes one value of several; in `bases.folds` of one kind, dtype and shape.

    Attributes:
        run: compiled form, `run(src, place, count, dst, params, record, scratch)`: called once for
            each of the `count` values, with `place` counting from 0 and always the same `dst` and
            `scratch`, which keep what earlier calls wrote. After the last call all of `dst` is
            written.
        plain: NumPy reference, `plain(srcs, dst, params, record)`: all values at once. Same bits.
    """

    run: Callable[[np.ndarray, int, int, np.ndarray, Any, Any, Any], None]
    plain: Callable[[Sequence[np.ndarray], np.ndarray, Any, Any], None]


@kernel
def same_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    """Output size of an op that keeps its input's size."""
    return height, width


@kernel
def no_draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    """Draw of an op without randomness."""
    return
