"""Operations in the forms that public FFCV code has; only its import lines would differ.

Each repeats what such code does with the contract: a table from `__init__`, tokens chosen by a
permutation, functions of `numpy.random` imported by name, helpers compiled by `Compiler.compile` or
numba, several views in one array, `*_` for unused arguments, and functions inside the function.
"""

from dataclasses import replace
from typing import Callable, Optional, Tuple  # noqa: UP035

import numba
import numpy as np
from numpy.random import permutation, rand

from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State

Declared = Tuple[State, Optional[AllocationQuery]]  # noqa: UP006, UP045


class RelabelClasses(Operation):
    """New class numbers from a table of floats, in place, although memory is requested."""

    def __init__(self, new_of_old):
        self.table = np.zeros(max(new_of_old) + 1) - 1
        for old, new in new_of_old.items():
            self.table[int(old)] = int(new)

    def generate_code(self):
        parallel_range = Compiler.get_iterator()
        table = self.table

        def relabel(labels, dst):
            for row in parallel_range(labels.shape[0]):
                labels[row] = table[labels[row]]
            return labels

        relabel.is_parallel = True
        return relabel

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


class FixedLabels(Operation):
    """A label for each sample, by its id."""

    def __init__(self, labels):
        self.labels = labels

    def generate_code(self):
        parallel_range = Compiler.get_iterator()
        fixed = self.labels

        def by_id(labels, _, indices):
            for row in parallel_range(labels.shape[0]):
                labels[row] = fixed[indices[row]]
            return labels

        by_id.is_parallel = True
        by_id.with_indices = True
        return by_id

    def declare_state_and_memory(self, previous_state):
        return previous_state, None


class HiddenTokens(Operation):
    """Hides tokens of an image: `count` anywhere, and a block that wraps around."""

    def __init__(self, count: int, high: int, wide: int, side: int):
        super().__init__()
        self.count, self.high, self.wide, self.side = count, high, wide, side

    def generate_code(self) -> Callable:
        parallel_range = Compiler.get_iterator()
        count, high, wide, side = self.count, self.high, self.wide, self.side
        tokens = high * wide

        def hide(_, dst):
            dst.fill(np.int8(0))
            for row in parallel_range(dst.shape[0]):
                scattered = permutation(tokens)[:count]
                for token in scattered:
                    dst[row, token] = 1
                top, left = np.random.randint(high), np.random.randint(wide)
                for y in np.arange(top, top + side):
                    for x in np.arange(left, left + side):
                        dst[row, (wide * y) % tokens + x % wide] += 2
            return dst

        hide.is_parallel = True
        return hide

    def declare_state_and_memory(self, previous_state: State) -> Declared:
        assert previous_state.shape == (1,)
        state = replace(previous_state, shape=(self.high * self.wide,), dtype=np.dtype("int8"))
        return state, AllocationQuery(state.shape, np.int8)


@numba.njit
def gray_of(view):
    out = np.empty_like(view)
    for y in range(view.shape[0]):
        for x in range(view.shape[1]):
            out[y, x, :] = np.float32(view[y, x].sum() / 3)
    return out


class GrayViews(Operation):
    """Two views of each image, each gray with a probability, by a draw for each row and view."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def generate_code(self) -> Callable:
        parallel_range = Compiler.get_iterator()
        p = self.p

        def gray_views(images, dst):
            is_gray = rand(images.shape[0], dst.shape[1]) < p
            for i in parallel_range(images.shape[0]):
                for view in range(dst.shape[1]):
                    if is_gray[i, view]:
                        part = images[i].astype(np.float32) / 255.0
                        dst[i, view] = (gray_of(part) * 255.0).astype(np.uint8)
                    else:
                        dst[i, view] = images[i]
            return dst

        gray_views.is_parallel = True
        return gray_views

    def declare_state_and_memory(self, previous_state: State) -> Declared:
        state = replace(previous_state, jit_mode=True, shape=(2, *previous_state.shape))
        return state, AllocationQuery(state.shape, state.dtype)


def inverted(image):
    for y in range(image.shape[0]):
        image[y] = 255 - image[y]


def upside_down(image):
    image[:] = image[::-1].copy()


def swapped(image):
    image[:] = image[:, :, ::-1].copy()


class SomeOf(Operation):
    """Some of the functions, chosen without replacement for each image, by helpers in a tuple."""

    def __init__(self, functions, count=2):
        self.functions, self.count = functions, count

    def generate_code(self):
        parallel_range = Compiler.get_iterator()
        count, replace_them = self.count, False
        compiled = tuple([Compiler.compile(function) for function in self.functions])

        def some_of(images, dst):
            for i in parallel_range(images.shape[0]):
                image = images[i]
                chosen = np.random.choice(len(compiled), count, replace=replace_them)
                for j in parallel_range(count):
                    if chosen[j] == 0:
                        compiled[0](image)
                    elif chosen[j] == 1:
                        compiled[1](image)
                    else:
                        compiled[2](image)
                dst[i] = image
            return dst

        some_of.is_parallel = True
        return some_of

    def declare_state_and_memory(self, previous_state):
        height, width, channels = previous_state.shape
        return previous_state, AllocationQuery((height, width, channels), previous_state.dtype)


class Quarters(Operation):
    """Turns by quarters, for some images by a number of them from a list."""

    def __init__(self, p: float = 0.5, steps=(1, 2, 3)):
        super().__init__()
        self.p, self.steps = p, steps

    def generate_code(self) -> Callable:
        my_range = Compiler.get_iterator()
        p, steps = self.p, np.array(self.steps, dtype=np.int32)

        def quarters(images, dst):
            should_turn = rand(images.shape[0]) <= p
            for i in my_range(images.shape[0]):
                if should_turn[i]:
                    dst[i] = np.rot90(images[i], steps[np.random.randint(0, len(steps))])
                else:
                    dst[i] = images[i]
            return dst

        quarters.is_parallel = True
        return quarters

    def declare_state_and_memory(self, previous_state: State) -> Declared:
        return replace(previous_state, jit_mode=True), AllocationQuery(
            previous_state.shape, previous_state.dtype
        )


class Glare(Operation):
    """Blends with white, by a function inside the function."""

    def __init__(self, most: float, p=0.5):
        super().__init__()
        self.most, self.p = most, p

    def generate_code(self):
        my_range = Compiler.get_iterator()
        most, p = self.most, self.p

        def glare(images, *_):
            def blend(one, two, part):
                return (part * one + (1 - part) * two).clip(0, 255).astype(one.dtype)

            chosen = np.random.rand(images.shape[0]) < p
            parts = np.random.uniform(max(0, 1 - most), 1, images.shape[0])
            for i in my_range(images.shape[0]):
                if chosen[i]:
                    images[i] = blend(images[i], 255, parts[i])
            return images

        glare.is_parallel = True
        return glare

    def declare_state_and_memory(self, previous_state):
        return replace(previous_state, jit_mode=True), AllocationQuery(
            previous_state.shape, previous_state.dtype
        )
