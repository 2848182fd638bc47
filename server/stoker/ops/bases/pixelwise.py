"""The base of ops that change levels, keep sizes, and happen with probability p.

Draw 0 decides: applied if uniform < p. The record's `apply` is 0 or 1; if it is 0 the image is
copied. Loops run in place on the output, because loops over two arrays that may overlap are not
vectorized; `begin` copies the levels there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.wide_floats import WideKernel, as_floats, float_room
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameters import Probability
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import WIDE
from stoker.ops.contract.states import State
from stoker.ops.kernels.lookup import map_colors, map_levels
from stoker.ops.kernels.runs import copy_run
from stoker.rng.draws import bernoulli

APPLY: Final = ("apply", "u1")
LEVELS: Final = 256


@kernel
def draw_apply(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    """Decide with draw 0 whether the op is applied.

    Ops with more parameters put `p` last, and `apply` last in their records: numba treats a record
    that begins with all fields of another one as its subtype, if both reach one function.
    """
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0


@kernel
def begin(src: Any, dst: Any) -> Any:
    """Copy the source to the output unless they are the same memory; return the output, flat."""
    image, source = dst.reshape(dst.size), src.reshape(src.size)
    if src.ctypes.data != dst.ctypes.data:
        for i in range(np.uint64(source.size)):
            image[i] = source[i]
    return image


@kernel
def bring(src: Any, dst: Any, at: int, count: int) -> None:
    """Copy `count` values of the source, from index `at` on, as `begin` does.

    A loop that works on such parts, one after the other, finds them in the nearest cache.
    """
    if src.ctypes.data != dst.ctypes.data:
        copy_run(src.reshape(src.size), at, dst.reshape(dst.size), at, count)


@kernel
def look_up_all(source: Any, image: Any, table: Any) -> None:
    """Write `table[x]` to a flat image for every level x of a flat source; both may be the same."""
    blocks = source.size // 64
    map_levels(source, image, blocks, table)
    for i in range(np.uint64(64 * blocks), np.uint64(source.size)):
        image[i] = table[source[i]]


@kernel
def look_up(image: Any, tables: Any, channels: int) -> None:
    """Replace every level x of channel c by `tables[256 * c + x]`, in a flat image."""
    if channels == 1:
        look_up_all(image, image, tables)
        return
    done = 0
    if channels == 3:
        done = image.size // 192 * 192
        map_colors(image, image, done // 192, tables)
    for c in range(np.uint64(channels)):
        base = np.uint64(LEVELS) * np.uint64(c)
        for i in range(np.uint64(done // channels), np.uint64(image.size // channels)):
            k = np.uint64(channels) * i + np.uint64(c)
            image[k] = tables[base + np.uint64(image[k])]


def plain_floats(change: Callable[[np.ndarray, Any, Any], np.ndarray]) -> Callable[..., None]:
    """Return the plain kernel of images of floats: `change(image, params, record)` if applied."""

    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        with np.errstate(all="ignore"):
            dst[...] = change(src, params, record) if record["apply"] else src

    return plain


@dataclass(frozen=True)
class PixelOp(Op):
    """Base of ops that keep every state and happen with probability p."""

    random = True
    record = np.dtype([APPLY])
    draw = staticmethod(draw_apply)
    rescale: ClassVar[Callable[..., bool] | None] = staticmethod(keep_record)

    def scratch(self, state: State) -> int:
        """Return the scratch bytes that a kernel needs for a state."""
        return 0

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_pixels(states)
        return states, max(self._room(state) for state in states)

    def _room(self, state: State) -> int:
        wide = self.wide.get(state.kind) if state.dtype == WIDE else None
        if isinstance(wide, WideKernel):
            return float_room(state, wide) + self.scratch(as_floats(state))
        return self.scratch(state)


@dataclass(frozen=True)
class ByChance(PixelOp):
    """Base of ops whose only parameter is the probability."""

    p: Probability = 0.5

    examples = ({"p": 0.5}, {"p": 1})
