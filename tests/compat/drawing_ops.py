"""Operations that draw by every law, and that draw wrongly."""

import random
from dataclasses import replace
from typing import ClassVar

import numpy as np
from ffcv_ops import Same
from torch import int64

from stoker.compat.ffcv.pipeline import AllocationQuery, Compiler, Operation


class Laws(Operation):
    """Draws of each kind, in columns: see `COLUMNS`."""

    COLUMNS: ClassVar = {
        "beta": 1,
        "betas": 1,
        "distinct": 3,
        "weighted": 2,
        "permutation": 4,
        "shuffle": 4,
        "choice": 1,
        "later": 1,
    }

    def generate_code(self):
        parallel_range = Compiler.get_iterator()
        again = False
        chances = np.array([0.1, 0.2, 0.3, 0.4])

        def laws(labels, dst):
            betas = np.random.beta(0.3, b=0.4, size=labels.shape[0])
            for i in parallel_range(labels.shape[0]):
                dst[i, 0] = np.random.beta(2.0, 5)
                dst[i, 1] = betas[i]
                dst[i, 2:5] = np.random.choice(5, size=3, replace=False)
                dst[i, 5:7] = np.random.choice(np.arange(10, 14), 2, again, chances)
                dst[i, 7:11] = np.random.permutation(4)
                kept = np.arange(4)
                np.random.shuffle(kept)
                dst[i, 11:15] = kept
                dst[i, 15] = np.random.choice(4, p=chances)
                dst[i, 16] = np.random.rand()
            return dst

        laws.is_parallel = True
        return laws

    def declare_state_and_memory(self, previous_state):
        state = replace(previous_state, shape=(17,), dtype=np.dtype("float64"))
        return state, AllocationQuery((17,), np.dtype("float64"))


class Pythons(Operation):
    """The functions of Python's `random`, in columns: nine numbers, then three in an order."""

    def generate_code(self):
        values = np.array([1.5, 2.5, 9.0])

        def pythons(labels, dst):
            for i in range(labels.shape[0]):
                dst[i, 0] = random.random()
                dst[i, 1] = random.uniform(2, b=5)
                dst[i, 2] = random.randint(3, 4)
                dst[i, 3] = random.gauss(10.0, 2.0)
                dst[i, 4] = random.normalvariate(mu=0.0, sigma=1.0)
                dst[i, 5] = random.betavariate(2.0, beta=5.0)
                dst[i, 6] = random.choice(values)
                kept = np.arange(3)
                random.shuffle(kept)
                dst[i, 7:10] = kept
            return dst

        return pythons

    def declare_state_and_memory(self, previous_state):
        state = replace(previous_state, shape=(10,), dtype=np.dtype("float64"))
        return state, AllocationQuery((10,), np.dtype("float64"))


class Misused(Same):
    """Runs a function that draws with arguments that NumPy refuses too."""

    def __init__(self, function):
        self.function = function

    def generate_code(self):
        return self.function


def chances(labels, dst):
    labels[:] = np.random.choice(3, p=[0.3, 0.3, 0.3])
    return labels


def negative(labels, dst):
    labels[:] = np.random.choice(3, p=[0.8, 0.4, -0.2])
    return labels


def few(labels, dst):
    labels[:] = np.random.choice(3, 4, replace=False)[0]
    return labels


def few_likely(labels, dst):
    labels[:] = np.random.choice(3, 2, replace=False, p=[0.0, 1.0, 0.0])[0]
    return labels


def table(labels, dst):
    labels[:] = np.random.choice(np.ones((2, 2)))
    return labels


def shapes(labels, dst):
    labels[:] = np.random.beta(0.0, 1.0)
    return labels


def empty(labels, dst):
    labels[:] = np.random.randint(5, 5)
    return labels


def unknown(labels, dst):
    labels[:] = np.random.choice(3, 2, replace=labels[0, 0] > 0)[0]
    return labels


class Sums(Same):
    """Draws in loops, a fixed number each: reads only its own row."""

    def generate_code(self):
        def sums(images, dst):
            for i in range(images.shape[0]):
                points = np.random.rand(2)
                channels = np.random.randint(0, 5, size=(3,))
                dst[i] = images[i] + np.uint8(points.sum() + channels.sum())
            return dst

        return sums


class SumsInList(Same):
    """The same in a list that is built in place."""

    def generate_code(self):
        def sums(images, dst):
            added = [np.random.rand(2).sum() for _ in range(images.shape[0])]
            for i in range(images.shape[0]):
                dst[i] = images[i] + np.uint8(10 * added[i])
            return dst

        return sums


class OfTensors(Same):
    """Asks for a tensor, although it makes arrays."""

    def generate_code(self):
        def same(images, dst):
            return images

        return same

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, int64)


class Turns(Operation):
    """An operation on tensors: turns a batch by a number that is drawn, or writes sample ids."""

    def __init__(self, source=None, *, ids=False, fails=False):
        self.source, self.ids, self.fails = source, ids, fails

    def generate_code(self):
        source, fails = self.source, self.fails

        def turns(images, _):
            if fails:
                raise ValueError("no such turn")
            if source is None:
                return images
            return images.roll(int(source.random() * images.shape[1]), dims=1)

        def with_ids(images, _, ids):
            images = images.to(int64)
            for row, number in zip(images, ids, strict=True):
                row[0, 0, 0] = int(number)
            return images

        with_ids.with_indices = True
        return with_ids if self.ids else turns

    def declare_state_and_memory(self, previous_state):
        dtype = int64 if self.ids else previous_state.dtype
        return replace(previous_state, dtype=dtype), None
