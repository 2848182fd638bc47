"""Ops that divide by what their sample holds, as a user would write them."""

import numpy as np

from stoker.jit import kernel
from stoker.ops import Kernel, Op, define


@kernel
def quotient(left, right):
    return left // right


@define()
def by_level(src, dst, params, record, scratch):
    """A helper function divides a Python number, a side, by NumPy's."""
    dst[:] = src
    dst[0, 0, 0] = np.uint8(quotient(src.shape[0], np.int64(src[0, 0, 0])))


@define(zero=0)
def by_side(src, dst, params, record, scratch):
    """Nothing but Python numbers."""
    dst[:] = src
    dst[0, 0, 0] = np.uint8(src.shape[0] % (src.shape[1] - 9))


@define()
def by_real(src, dst, params, record, scratch):
    """Floats of NumPy's: zero by zero, where the level is 0."""
    dst[:] = src
    level = np.float64(src[0, 0, 0])
    dst[0, 0, 0] = np.uint8(level / level)


@define()
def drawn(src, dst, params, record, scratch):
    """The draw divides by a size."""
    dst[:] = src


@drawn.draws(part=int)
def decide(key, params, height, width, record):
    record["part"] = 7 // (width - 9)


@kernel
def halved(params, record, height, width):
    return 12 // (height - 8), width


@kernel
def no_number(params, record, height, width):
    return height * np.float64(np.nan), width


@kernel
def copied(src, dst, params, record, scratch):
    dst[:] = src[: dst.shape[0], : dst.shape[1]]


class Sized(Op):
    """Sides that differ, up to those of the source."""

    name = "sized"
    kernels = {"image": Kernel(copied, copied)}  # noqa: RUF012 - of a class, as `Op` says

    def declare(self, states):
        state = states[0]
        return (state.resized(None, None, state.bound[:2]),), 0


class ByHeight(Sized):
    """Its size is made by a division."""

    out_size = staticmethod(halved)


class NoNumber(Sized):
    """Its height is NaN."""

    out_size = staticmethod(no_number)


@kernel
def where(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            for c in range(src.shape[2]):
                level = np.int32(src[y, x, c])
                dst[y, x, c] = np.uint8(np.int32(255) // level) if level else np.uint8(0)


def plainly(src, dst, params, record, scratch):
    """By whole arrays: zeros among the divisors, whose results are not used."""
    dst[...] = np.where(src > 0, np.uint8(255) // src, 0)


class Careful(Op):
    """Tests before it divides, and is right."""

    name = "careful"
    kernels = {"image": Kernel(where, plainly)}  # noqa: RUF012 - of a class, as `Op` says
