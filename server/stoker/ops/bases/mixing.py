"""Weighted sums of whole images in fixed point: the arithmetic of folds that mix.

Weights are integers in units of 2**-16, and their sum is 2**16; a level is (the sum of weight times
level + 2**15) >> 16: rounded once, halves up. So a mix of equal images is the same image, and no
level leaves the range of its inputs. Sums are kept in int32 scratch between the calls.
Floats are added in float64, first image first, and rounded to float32 once; nothing is clipped,
and every NaN is written as the same NaN.

The rule of an op is a kernel `weights(params, record)`: where its weights are.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.folds import Fold
from stoker.ops.contract.kernel_forms import FoldKernel, no_draw
from stoker.ops.contract.rules import FLOAT, require_image
from stoker.ops.contract.states import State
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.float_levels import plain_number, settle

MOST: Final = 16
"""Maximum number of images of one mix."""
BITS: Final = 16
WHOLE: Final = 1 << BITS
PART: Final = 2.0**-BITS
"""Unit of a weight."""
HALF: Final = np.int32(1 << (BITS - 1))
SHIFT: Final = np.int32(BITS)
WEIGHTS: Final = ("weights", "i4", (MOST,))
"""Field of weights, 0 after the last."""
Weights = Callable[[Any, Any], Any]
rule: Any = no_draw
"""`weights(params, record)` of the op, in the templates."""


@kernel
def begin_mix(image: Any, weight: Any, sums: Any) -> None:
    """Set sums to weighted levels; all flat."""
    for i in range(np.uint64(image.size)):
        sums[i] = np.int32(weight * np.int32(image[i]))


@kernel
def add_mix(image: Any, weight: Any, sums: Any) -> None:
    """Add weighted levels to sums."""
    for i in range(np.uint64(image.size)):
        sums[i] = np.int32(sums[i] + np.int32(weight * np.int32(image[i])))


@kernel
def end_mix(image: Any, weight: Any, sums: Any, result: Any) -> None:
    """Add the last weighted levels to sums and write the rounded results."""
    for i in range(np.uint64(image.size)):
        total = np.int32(sums[i] + np.int32(weight * np.int32(image[i])))
        result[i] = np.uint8(np.int32(total + HALF) >> SHIFT)


@kernel
def begin_floats(image: Any, weight: Any, sums: Any) -> None:
    """Set sums to weighted floats; all flat."""
    for i in range(np.uint64(image.size)):
        sums[i] = np.float64(image[i]) * weight


@kernel
def add_floats(image: Any, weight: Any, sums: Any, result: Any) -> None:
    """Write sums and weighted floats; `result` may be the sums."""
    for i in range(np.uint64(image.size)):
        result[i] = sums[i] + np.float64(image[i]) * weight


@kernel
def mix(src: Any, place: int, count: int, dst: Any, weights: Any, scratch: Any) -> None:
    """Take one image of a mix; the last call writes `dst`.

    Args:
        src: image number `place` of `count`.
        place: from 0.
        count: at least 2.
        dst: an image of the same size.
        weights: at least `count` integers of sum 2**16.
        scratch: at least 4 bytes for each level; holds the sums from call to call.
    """
    image, sums = src.reshape(src.size), scratch[: 4 * src.size].view(np.int32)
    weight = np.int32(weights[place])
    if place == 0:
        begin_mix(image, weight, sums)
    elif place < count - 1:
        add_mix(image, weight, sums)
    else:
        end_mix(image, weight, sums, dst.reshape(dst.size))


def plain_mix(srcs: Sequence[np.ndarray], dst: np.ndarray, weights: np.ndarray) -> None:
    """Mix with NumPy; the reference of `mix`."""
    total = sum(
        int(weight) * src.astype(np.int64) for weight, src in zip(weights, srcs, strict=False)
    )
    dst[...] = (total + int(HALF)) >> BITS


@kernel
def mix_floats(src: Any, place: int, count: int, dst: Any, weights: Any, scratch: Any) -> None:
    """Take one image of floats of a mix; like `mix`, with 8 bytes of scratch for each value."""
    image, sums = src.reshape(src.size), scratch[: 8 * src.size].view(np.float64)
    weight = np.float64(weights[place]) * PART
    if place == 0:
        begin_floats(image, weight, sums)
    elif place < count - 1:
        add_floats(image, weight, sums, sums)
    else:
        add_floats(image, weight, sums, dst.reshape(dst.size))
        settle(dst.reshape(dst.size), np.uint64(0), np.uint64(dst.size))


def plain_mix_floats(srcs: Sequence[np.ndarray], dst: np.ndarray, weights: np.ndarray) -> None:
    """Mix with NumPy; the reference of `mix_floats`."""
    parts = np.asarray(weights).astype(np.float64) * PART
    with np.errstate(all="ignore"):
        total = srcs[0].astype(np.float64) * parts[0]
        for src, part in zip(srcs[1:], parts[1:], strict=False):
            total = total + src.astype(np.float64) * part
        dst[...] = plain_number(total.astype(np.float32))


@kernel
def _mix(
    src: Any, place: int, count: int, dst: Any, params: Any, record: Any, scratch: Any
) -> None:
    mix(src, place, count, dst, rule(params, record), scratch)


@kernel
def _mix_floats(
    src: Any, place: int, count: int, dst: Any, params: Any, record: Any, scratch: Any
) -> None:
    mix_floats(src, place, count, dst, rule(params, record), scratch)


def mix_folds(weights: Weights) -> dict[str, FoldKernel]:
    """Return the folds of images of levels that mix by weights."""
    return {"image": FoldKernel(adapted(_mix, weights), _plain(weights, plain_mix))}


def mix_float_folds(weights: Weights) -> dict[str, FoldKernel]:
    """Return the folds of images of floats that mix by weights."""
    return {"image": FoldKernel(adapted(_mix_floats, weights), _plain(weights, plain_mix_floats))}


def _plain(weights: Weights, how: Callable[..., None]) -> Callable[..., None]:
    def plain(srcs: Sequence[np.ndarray], dst: np.ndarray, params: Any, record: Any) -> None:
        how(srcs, dst, weights(params, record))

    return plain


def declare_mix(fold: Fold, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
    """Return the state of a mix of images, and the bytes of its sums.

    Raises:
        StateError: they are not images of levels or of floats, or differ.
    """
    fold.require_alike(states)
    for state in states:
        require_image(fold.name, state, fold.image_dtypes)
    # float64 sums next to float32, or int32 next to uint8.
    each = 2 if states[0].dtype == FLOAT else 4
    return states[:1], each * max(state.bound_bytes for state in states)
