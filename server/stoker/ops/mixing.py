"""Weighted sums of whole images in fixed point: what folds that mix share.

Weights are integers in units of 2**-16, and their sum is 2**16; a level is (the sum of weight times
level + 2**15) >> 16: rounded once, halves up. So images that are equal give themselves, and no
level leaves the range of those it is made of. Sums stand in int32 scratch between the calls.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stoker.ops.contract import State
from stoker.ops.folds import Fold
from stoker.ops.rules import require_image
from stoker.rng.jit import kernel

MOST: Final = 16
"""Most images of one mix."""
BITS: Final = 16
WHOLE: Final = 1 << BITS
HALF: Final = np.int32(1 << (BITS - 1))
SHIFT: Final = np.int32(BITS)
WEIGHTS: Final = ("weights", "i4", (MOST,))
"""Field of weights, 0 behind the last."""


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


def declare_mix(fold: Fold, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
    """Return the state of images' mix, and the bytes of its sums.

    Raises:
        StateError: they are no uint8 images, or differ.
    """
    fold.require_alike(states)
    for state in states:
        require_image(fold.name, state)
    return states[:1], 4 * max(state.bound_bytes for state in states)
