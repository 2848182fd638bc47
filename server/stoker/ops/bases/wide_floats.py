"""Images of uint16 in ops that compute with floats: as images of floats, then rounded to levels.

A level x becomes float32(x / 65535), as by `to_float`. The op's kernel of floats changes these
numbers, and each result y becomes floor(65535 y + 0.5), y clipped to [0, 1] and the product in
float64, where it is exact. A level that the op does not change is restored exactly.

`through_floats` makes both forms from those of floats: `widened`, the kernel of floats, `narrow`. A
kernel of floats that does not work in place needs a second image. `float_room` counts the scratch:
each image is aligned to 64 bytes, and what the kernel of floats needs comes after them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel, RunKernel, no_draw
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.color_floats import WIDE_PART
from stoker.ops.kernels.float_levels import plain_unit, unit
from stoker.ops.kernels.resample import padded

MOST: Final = np.float64(65535)
HALF: Final = np.float64(0.5)
rule: Any = no_draw
"""The op's kernel of floats, in the templates `_in_place` and `_apart`."""


@dataclass(frozen=True)
class WideKernel(Kernel):
    """A kernel of images of uint16 that uses the op's kernel of floats.

    Attributes:
        images: how many images of floats it needs.
    """

    images: int = 1


@kernel
def image_like(src: Any, scratch: Any) -> Any:
    """Return room for an image of floats of a source's shape, and the rest of the scratch."""
    image = scratch[: 4 * src.size].view(np.float32).reshape(src.shape)
    return image, scratch[padded(4 * src.size) :]


@kernel
def widened(src: Any, scratch: Any) -> Any:
    """Return an image of uint16 as floats from 0 to 1, and the rest of the scratch."""
    image, rest = image_like(src, scratch)
    levels, values = src.reshape(src.size), image.reshape(src.size)
    for i in range(np.uint64(levels.size)):
        values[i] = np.float32(np.float64(levels[i]) * WIDE_PART)
    return image, rest


@kernel
def narrow(image: Any, dst: Any) -> None:
    """Write an image of floats as levels of uint16, clipped and rounded, halves up."""
    values, levels = image.reshape(image.size), dst.reshape(dst.size)
    for i in range(np.uint64(levels.size)):
        levels[i] = np.uint16(np.int32(np.float64(unit(values[i])) * MOST + HALF))


def plain_narrow(image: np.ndarray) -> np.ndarray:
    """Return an image of floats as levels of uint16, with NumPy."""
    levels: np.ndarray = (plain_unit(image).astype(np.float64) * MOST + HALF).astype(np.uint16)
    return levels


@kernel
def _in_place(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, rest = widened(src, scratch)
    rule(image, image, params, record, rest)
    narrow(image, dst)


@kernel
def _apart(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, more = widened(src, scratch)
    made, rest = image_like(src, more)
    rule(image, made, params, record, rest)
    narrow(made, dst)


def through_floats(floats: Kernel) -> dict[str, Kernel]:
    """Return the kernels of images of uint16 of an op, from its kernel of images of floats."""
    run = adapted(_in_place if floats.in_place else _apart, floats.run)
    return {"image": WideKernel(run, _plain_of(floats.plain), True, 1 if floats.in_place else 2)}


def _plain_of(run: RunKernel) -> Callable[..., None]:
    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        image = (src * WIDE_PART).astype(np.float32)
        made = np.empty_like(image)
        run(image, made, params, record, scratch)
        dst[...] = plain_narrow(made)

    return plain


def as_floats(state: State) -> State:
    """Return the state of an image as floats."""
    return State(state.kind, FLOAT, state.shape, state.bound)


def float_room(state: State, wide: Kernel | None) -> int:
    """Return the scratch bytes for the images of floats of a wide kernel; 0 for other kernels."""
    images = wide.images if isinstance(wide, WideKernel) else 0
    return images * int(padded(4 * int(np.prod(state.bound))))
