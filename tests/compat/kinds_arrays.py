"""Operations on arrays as public FFCV code has them: scratch memory, helpers that draw, batch ops.

Only their import lines would differ. The classes are our own; what they do with FFCV's contract is
what such code does with it.
"""

import random
from dataclasses import replace

import numpy as np
from numba import njit
from numpy.random import rand, randint

from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation

U1 = np.dtype("uint8")


class Alike(Operation):
    """Base: the same form out as in."""

    def declare_state_and_memory(self, previous_state):
        return (
            replace(previous_state, jit_mode=True),
            AllocationQuery(previous_state.shape, previous_state.dtype),
        )


class InPlace(Operation):
    """Base: works in place."""

    def declare_state_and_memory(self, previous_state):
        return replace(previous_state, jit_mode=True), None


class PaddedShift(Operation):
    """Shifts by a padded copy, whose border is never written; draws in the loop."""

    def __init__(self, padding=2):
        super().__init__()
        self.padding = padding

    def generate_code(self):
        my_range, pad = Compiler.get_iterator(), self.padding

        def shift(images, dst):
            n, h, w, _ = images.shape
            dst[:, pad : pad + h, pad : pad + w] = images
            for i in my_range(n):
                y = randint(low=0, high=2 * pad + 1)
                x = randint(low=0, high=2 * pad + 1)
                images[i] = dst[i, y : y + h, x : x + w]
            return images

        shift.is_parallel = True
        return shift

    def declare_state_and_memory(self, previous_state):
        h, w, c = previous_state.shape
        assert previous_state.jit_mode
        wide = (h + 2 * self.padding, w + 2 * self.padding, c)
        return previous_state, AllocationQuery(wide, previous_state.dtype)


class PaddedShiftOfArrays(PaddedShift):
    """The same, with one draw for each row before the loop."""

    def generate_code(self):
        my_range, pad = Compiler.get_iterator(), self.padding

        def shift(images, dst):
            n, h, w, _ = images.shape
            ys = randint(low=0, high=2 * pad + 1, size=(n,))
            xs = randint(low=0, high=2 * pad + 1, size=(n,))
            for i in my_range(n):
                dst[i] = 7
                dst[i, pad : pad + h, pad : pad + w] = images[i]
                images[i] = dst[i, ys[i] : ys[i] + h, xs[i] : xs[i] + w]
            return images

        shift.is_parallel = True
        return shift


class Stretched(Operation):
    """Stretches levels in scratch memory of floats; the result is in the first memory of two."""

    def generate_code(self):
        my_range = Compiler.get_iterator()

        def stretch(images, memory):
            dst, scratch = memory
            for i in my_range(images.shape[0]):
                low = np.random.uniform(0, 50)
                scratch[i] = images[i] - np.float32(low)
                dst[i] = np.clip(scratch[i] * np.float32(1.2), 0, 255).astype(np.uint8)
            return dst

        stretch.is_parallel = True
        return stretch

    def declare_state_and_memory(self, previous_state):
        shape = previous_state.shape
        return previous_state, (
            AllocationQuery(shape, U1),
            AllocationQuery(shape, np.dtype("float32")),
        )


@njit
def looked_up(levels, table, out):
    for c in range(out.shape[2]):
        for y in range(out.shape[0]):
            for x in range(out.shape[1]):
                out[y, x, c] = table[c, int(levels[y, x, c])]


class Equalized(Operation):
    """Four memories as a list, of three dtypes and ranks; a table for each channel."""

    def __init__(self, times=2):
        super().__init__()
        self.times = times

    def generate_code(self):
        my_range, times = Compiler.get_iterator(), self.times

        def equalize(images, mem):
            dst, scratch, table, floats = mem
            for i in my_range(images.shape[0]):
                for _ in range(times):
                    scratch[i, 0] = images[i]
                    table[i, :, :] = np.arange(256)
                    if np.random.rand() < 0.5:
                        table[i, :, :] = 255 - np.arange(256)
                    floats[i, 0] = scratch[i, 0]
                    looked_up(floats[i, 0], table[i], images[i])
                dst[i] = images[i]
            return dst

        equalize.is_parallel = True
        return equalize

    def declare_state_and_memory(self, previous_state):
        assert previous_state.jit_mode
        h, w, c = previous_state.shape
        return replace(previous_state, shape=previous_state.shape), [
            AllocationQuery(previous_state.shape, dtype=U1),
            AllocationQuery((1, h, w, c), dtype=U1),
            AllocationQuery((c, 256), dtype=np.dtype("int16")),
            AllocationQuery((1, h, w, c), dtype=np.dtype("float32")),
        ]


class Summed(Operation):
    """A new shape and dtype in place of the image, from scratch memory of another dtype."""

    def generate_code(self):
        def sums(images, dst):
            for i in range(images.shape[0]):
                dst[i] = images[i]
            return dst.sum(axis=2)

        return sums

    def declare_state_and_memory(self, previous_state):
        h, w, c = previous_state.shape
        state = replace(previous_state, shape=(h, c), dtype=np.dtype("int64"))
        return state, AllocationQuery((h, w, c), np.dtype("int64"))


class SometimesWritten(Alike):
    """Writes its memory for some rows only; the others are what was there: nothing."""

    def generate_code(self):
        def some(images, dst):
            chosen = rand(images.shape[0]) < 0.5
            for i in range(images.shape[0]):
                if chosen[i]:
                    dst[i] = images[i]
            return dst

        return some


def box_of(height, width, part):
    """A random box, by a plain helper."""
    high, wide = int(height * np.sqrt(part)), int(width * np.sqrt(part))
    top = np.random.randint(0, height - high + 1)
    left = np.random.randint(0, width - wide + 1)
    return top, left, high, wide


class Erased(InPlace):
    """Erases a box that a helper of the module draws."""

    def generate_code(self):
        my_range = Compiler.get_iterator()

        def erase(images, dst):
            for i in my_range(images.shape[0]):
                top, left, high, wide = box_of(images.shape[1], images.shape[2], 0.25)
                images[i, top : top + high, left : left + wide] = 0
            return images

        erase.is_parallel = True
        return erase


@njit(parallel=False, fastmath=True, inline="always")
def share_of(alpha, chance):
    share = 1.0
    if np.random.rand() < chance:
        share = np.random.beta(alpha, alpha)
    return share


@njit
def two_shares(alpha):
    return share_of(alpha, 0.9), share_of(alpha, 0.9)


class Dimmed(Alike):
    """Dims by shares that compiled helpers draw, one through another."""

    def generate_code(self):
        my_range = Compiler.get_iterator()

        def dim(images, dst):
            for i in my_range(images.shape[0]):
                one, two = two_shares(0.4)
                dst[i] = (images[i] * one * two).astype(np.uint8)
            return dst

        dim.is_parallel = True
        return dim


class Boxed(InPlace):
    """Draws in a function inside the function."""

    def generate_code(self):
        my_range = Compiler.get_iterator()

        def boxed(images, *_):
            def corner(most):
                return np.random.randint(most), np.random.randint(most)

            for i in my_range(images.shape[0]):
                y, x = corner(8)
                images[i, y : y + 4, x : x + 4] = 255
            return images

        boxed.is_parallel = True
        return boxed


def jittered(image, most):
    image[:] = image // 2 + np.uint8(np.random.randint(0, most))


class Jittered(InPlace):
    """A helper that is compiled by `Compiler.compile` draws."""

    def generate_code(self):
        my_range = Compiler.get_iterator()
        jitter = Compiler.compile(jittered)

        def jitters(images, _):
            for i in my_range(images.shape[0]):
                jitter(images[i], 100)
            return images

        jitters.is_parallel = True
        return jitters


class TurnedByPython(Alike):
    """Quarter turns by Python's `random`."""

    def __init__(self, p=0.5, steps=(0, 1, 2, 3)):
        super().__init__()
        self.p, self.steps = p, steps

    def generate_code(self):
        my_range = Compiler.get_iterator()
        p, steps = self.p, np.array(self.steps, dtype=np.int32)

        def turn(images, dst):
            for i in my_range(images.shape[0]):
                if random.uniform(0, 1) < p:
                    dst[i] = np.rot90(images[i], steps[random.randint(0, len(steps) - 1)])
                else:
                    dst[i] = images[i]
            return dst

        turn.is_parallel = True
        return turn


class FlippedSeeded(Alike):
    """Flips, seeded by the last id, so that image and mask decide alike."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def generate_code(self):
        my_range, p = Compiler.get_iterator(), self.p

        def flip(images, dst, indices):
            np.random.seed(indices[-1])
            turned = rand(images.shape[0]) < p
            for i in my_range(images.shape[0]):
                if turned[i]:
                    dst[i] = images[i, :, ::-1]
                else:
                    dst[i] = images[i]
            return dst

        flip.is_parallel = True
        flip.with_indices = True
        return flip


class UpsideDownSeeded(InPlace):
    """The same upside down, in place, by `np.random.random`."""

    def generate_code(self):
        my_range = Compiler.get_iterator()

        def flip(images, _, indices):
            np.random.seed(indices[-1])
            turned = np.random.random(images.shape[0]) < 0.5
            for i in my_range(images.shape[0]):
                if turned[i]:
                    images[i] = np.flipud(images[i])
            return images

        flip.is_parallel = True
        flip.with_indices = True
        return flip


class Framed(Operation):
    """A frame around the image, in a new array."""

    def __init__(self, size=1, level=9):
        self.size, self.level = size, level

    def generate_code(self):
        size, level = self.size, self.level

        def frame(images, *args):
            b, h, w, c = images.shape
            made = np.full((b, h + 2 * size, w + 2 * size, c), level, images.dtype)
            made[:, size:-size, size:-size] = images
            return made

        frame.is_parallel = True
        return frame

    def declare_state_and_memory(self, previous_state):
        h, w, c = previous_state.shape
        return replace(previous_state, shape=(h + 2 * self.size, w + 2 * self.size, c)), None


class Doubled(Operation):
    """Asks for memory on the device of the state."""

    def generate_code(self):
        def double(x, dst):
            dst[: x.shape[0]] = x * 2
            return dst

        return double

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(
            previous_state.shape, previous_state.dtype, previous_state.device
        )


@njit
def drawn_share(alpha, chance):
    share = 1.0
    if np.random.rand() < chance:
        share = np.random.beta(alpha, alpha)
    return share


@njit
def one_hot(labels, classes):
    flat = labels.flatten().astype("uint64")
    made = np.full((flat.size, classes), 0.0)
    for i in range(flat.size):
        made[i, flat[i]] = 1.0
    return made


class EvenMixup(Alike):
    """Mixes the batch with itself in the other order; it asserts that the batch is even."""

    def generate_code(self):
        def mix(x, dst, indices):
            np.random.seed(indices[-1])
            assert len(x) % 2 == 0, "expected an even batch"
            share = drawn_share(0.4, 0.9)
            other = np.flipud(x) * (1.0 - share)
            dst[:, :, :, :] = x * share + other
            return dst

        mix.is_parallel = True
        mix.with_indices = True
        return mix


class EvenLabels(Operation):
    """The labels of `EvenMixup`."""

    def __init__(self, classes=10):
        self.classes = classes

    def generate_code(self):
        classes = self.classes

        def mix(labels, dst, indices):
            np.random.seed(indices[-1])
            assert len(labels) % 2 == 0, "expected an even batch"
            share = drawn_share(0.4, 0.9)
            own, other = one_hot(labels, classes), one_hot(np.flipud(labels), classes)
            dst[:, :] = own * share + other * (1.0 - share)
            return dst

        mix.is_parallel = True
        mix.with_indices = True
        return mix

    def declare_state_and_memory(self, previous_state):
        state = replace(previous_state, shape=(self.classes,), dtype=np.dtype("float32"))
        return state, AllocationQuery(shape=(self.classes,), dtype=np.dtype("float32"))


class Halves(Alike):
    """Exchanges the halves of a batch."""

    def generate_code(self):
        def halves(images, dst):
            half = images.shape[0] // 2
            dst[:half] = images[half:]
            dst[half:] = images[:half]
            return dst

        return halves


class DeniedHalves(Halves):
    is_batch_op = False


class Neighbors(Alike):
    """Mixes each image with the next one, by a share for each row."""

    is_batch_op = True

    def generate_code(self):
        my_range = Compiler.get_iterator()

        def neighbors(images, dst):
            n = images.shape[0]
            shares = np.random.beta(0.4, 0.4, n)
            for i in my_range(n):
                dst[i] = shares[i] * images[i] + (1 - shares[i]) * images[(i + 1) % n]
            return dst

        neighbors.is_parallel = True
        return neighbors


class Permuted(Alike):
    """Mixes by a permutation of the batch, with three numbers for all rows."""

    def generate_code(self):
        my_range = Compiler.get_iterator()

        def permuted(images, dst):
            order = np.random.permutation(images.shape[0])
            share = np.random.beta(0.4, 0.4, (1,))
            gains = np.random.uniform(0.5, 1, 3)
            for i in my_range(images.shape[0]):
                mixed = share[0] * images[i] + (1 - share[0]) * images[order[i]]
                for c in range(3):
                    dst[i, :, :, c] = (mixed[:, :, c] * gains[c]).astype(np.uint8)
            return dst

        permuted.is_parallel = True
        return permuted


class Halved(Alike):
    """Floats, although its state says bytes."""

    def generate_code(self):
        def halve(images, dst):
            return images.astype(np.float32) / np.float32(2)

        return halve


class HalvedInALoop(Alike):
    """The same, one row at a time, in memory of another dtype than its state has."""

    def generate_code(self):
        def halve(images, dst):
            for i in range(images.shape[0]):
                dst[i] = images[i] / np.random.randint(2, 3)
            return dst

        return halve

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, np.dtype("float64"))
