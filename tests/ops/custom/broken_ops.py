"""Ops that break the contract, each in one part; `check_op` must find every one of them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops import ItemsKernel, Kernel, Op, State
from stoker.rng.draws import uniform


@kernel
def copy(src, dst, params, record, scratch):
    dst[...] = src


@kernel
def draw_by(key, params, height, width, record):
    record["by"] = np.uint8(uniform(key, 0) * 9.0)


def plain_copy(src, dst, params, record, scratch):
    dst[...] = src


@dataclass(frozen=True)
class Copy(Op):
    """Right in all: gives back what it gets."""

    name: ClassVar[str] = "copy"
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(copy, plain_copy, in_place=True)}


@kernel
def draw_on(key, params, height, width, record, items):
    record["by"] = 0
    for n in range(items.shape[0]):
        items[n, 0] = 0


class DrawsOnItsBoxes(Copy):
    """Moves what it should look at."""

    record: ClassVar[np.dtype] = np.dtype([("by", "u1")])
    draws_from: ClassVar[str] = "boxes"
    draw: ClassVar[Any] = staticmethod(draw_on)


class ArraysOnly(Copy):
    """Right too, for another kind."""

    kernels: ClassVar[dict[str, Kernel]] = {"array": Kernel(copy, plain_copy)}


@kernel
def most(src, dst, params, record, scratch):
    for y in range(1, src.shape[0]):
        dst[y] = src[y]


def plain_most(src, dst, params, record, scratch):
    dst[1:] = src[1:]


class LeavesAPart(Copy):
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(most, plain_most)}


@kernel
def brighter(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            for c in range(src.shape[2]):
                dst[y, x, c] = min(src[y, x, c] + 3, 255)


def plain_wraps(src, dst, params, record, scratch):
    dst[...] = src + np.uint8(3)


class OtherThanPlain(Copy):
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(brighter, plain_wraps)}


@kernel
def spoil(src, dst, params, record, scratch):
    dst[...] = src
    src[0, 0, 0] ^= 1


class ChangesItsSource(Copy):
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(spoil, plain_copy)}


@kernel
def overrun(src, dst, params, record, scratch):
    dst[...] = src
    scratch[scratch.size] = 1


class WritesBeyondScratch(Copy):
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(overrun, plain_copy)}

    def declare(self, states):
        self.require_kinds(states)
        return states, 16


class DrawsInSecret(Copy):
    record: ClassVar[np.dtype] = np.dtype([("by", "u1")])
    draw: ClassVar[Any] = staticmethod(draw_by)


@kernel
def draw_half(key, params, height, width, record):
    if uniform(key, 0) < 0.5:
        record["by"] = 1


class LeavesAField(DrawsInSecret):
    random: ClassVar[bool] = True
    draw: ClassVar[Any] = staticmethod(draw_half)


class TakesAnyKind(Copy):
    def declare(self, states):
        return states, 0


class DeclaresAnotherSize(Copy):
    def declare(self, states: tuple[State, ...]):
        self.require_kinds(states)
        return tuple(s.resized(5, 5, (5, 5)) for s in states), 0


@kernel
def mirror(src, dst, params, record, scratch):
    last = src.shape[1] - 1
    for x in range(src.shape[1]):
        dst[:, x] = src[:, last - x]


def plain_mirror(src, dst, params, record, scratch):
    dst[...] = src[:, ::-1].copy()


class NotInPlace(Copy):
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(mirror, plain_mirror, in_place=True)}


class ScratchShrinks(Copy):
    def declare(self, states):
        self.require_kinds(states)
        return states, 4096 // states[0].bound[0]


@dataclass(frozen=True)
class ForgetsAParameter(Copy):
    by: int = 1

    def params_data(self):
        return {}


@dataclass(frozen=True)
class ChangesAtZero(Copy):
    p: float = 0.0
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(mirror, plain_mirror)}


@kernel
def mirror(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            dst[y, x] = src[y, src.shape[1] - 1 - x]


def plain_mirror(src, dst, params, record, scratch):
    dst[...] = src[:, ::-1]


@kernel
def mirror_points(params, record, sizes):
    return -1.0, 0.0, float(sizes[1]), 0.0, 1.0, 0.0, 0.0, 0.0, 1.0


@kernel
def off_by_one(params, record, sizes):
    return -1.0, 0.0, float(sizes[1] - 1), 0.0, 1.0, 0.0, 0.0, 0.0, 1.0


@kernel
def six_numbers(params, record, sizes):
    return -1.0, 0.0, float(sizes[1]), 0.0, 1.0, 0.0


@dataclass(frozen=True)
class Mirror(Op):
    """Right: mirrors masks, and boxes and keypoints along with them."""

    name: ClassVar[str] = "mirror"
    kernels: ClassVar[dict[str, Kernel]] = {"mask": Kernel(mirror, plain_mirror)}
    forward = staticmethod(mirror_points)


class PointsElsewhere(Mirror):
    """Counts from the middle of the first pixel."""

    forward = staticmethod(off_by_one)


class TooFewNumbers(Mirror):
    """An affine map alone."""

    forward = staticmethod(six_numbers)


@kernel
def tapering(params, record, sizes):
    return -1.0, 0.0, sizes[1], 0.0, 1.0, 0.0, 0.001, 0.0, 1.0


class OnlyNearlyAffine(Mirror):
    """A map with a vanishing point."""

    forward = staticmethod(tapering)
    affine = True


@kernel
def first_box(src, dst, params, record, sizes):
    count = min(src.shape[0], 1)
    for word in range(src.shape[1] * count):
        dst[0, word] = src[0, word]
    return count


@kernel
def one_more(src, dst, params, record, sizes):
    for n in range(src.shape[0]):
        for word in range(src.shape[1]):
            dst[n, word] = src[n, word]
    return src.shape[0] + 1


@kernel
def all_but_says_less(src, dst, params, record, sizes):
    for n in range(src.shape[0]):
        for word in range(src.shape[1]):
            dst[n, word] = src[n, word]
    return max(src.shape[0] - 1, 0)


@dataclass(frozen=True)
class FirstBox(Op):
    """Right: keeps the first box."""

    name: ClassVar[str] = "first_box"
    kernels: ClassVar[dict[str, Kernel]] = {}
    items: ClassVar[dict[str, ItemsKernel]] = {"boxes": ItemsKernel(first_box)}


class OneMore(FirstBox):
    """Makes a box up."""

    items: ClassVar[dict[str, ItemsKernel]] = {"boxes": ItemsKernel(one_more)}


class SaysLess(FirstBox):
    """Writes more than it says."""

    items: ClassVar[dict[str, ItemsKernel]] = {"boxes": ItemsKernel(all_but_says_less)}
