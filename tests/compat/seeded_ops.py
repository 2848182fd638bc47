"""Operations that seed their draws, in every way that decides whose draws they are."""

import random

import numba
import numpy as np
from ffcv_ops import Same

from stoker.compat.ffcv.pipeline import Compiler

MOST = 1_000_000


class Seeded(Same):
    """Writes a number that is drawn after a seed into each row."""

    def __init__(self, how, offset=7):
        self.how, self.offset = how, offset

    def generate_code(self):
        chosen = MADE[self.how](Compiler.get_iterator(), self.offset)
        chosen.is_parallel = chosen.with_indices = True
        return chosen


def last(rows, offset):
    def seeded(numbers, dst, indices):
        np.random.seed(indices[-1])
        drawn = np.random.randint(0, MOST, numbers.shape[0])
        for i in rows(numbers.shape[0]):
            dst[i] = drawn[i]
        return dst

    return seeded


def first_in_loop(rows, offset):
    def seeded(numbers, dst, indices):
        for i in rows(numbers.shape[0]):
            np.random.seed(indices[0] + offset)
            dst[i] = np.random.randint(0, MOST)
        return dst

    return seeded


def total(rows, offset):
    def seeded(numbers, dst, indices):
        seed = indices.sum() % 1000
        np.random.seed(seed)
        for i in rows(numbers.shape[0]):
            dst[i] = np.random.randint(0, MOST)
        return dst

    return seeded


def length(rows, offset):
    def seeded(numbers, dst, indices):
        count = len(indices)
        np.random.seed(seed=indices[count - 1])
        for i in rows(count):
            dst[i] = np.random.randint(0, MOST)
        return dst

    return seeded


def constant(rows, offset):
    def seeded(numbers, dst, indices):
        np.random.seed(42)
        dst[:, 0] = np.random.randint(0, MOST, numbers.shape[0])
        return dst

    return seeded


def closed_over(rows, offset):
    def seeded(numbers, dst, indices):
        for i in rows(numbers.shape[0]):
            np.random.seed(offset)
            dst[i] = np.random.randint(0, MOST)
        return dst

    return seeded


@numba.njit(inline="always")
def number_after(seed):
    np.random.seed(seed)
    return np.random.randint(0, MOST)


def helper(rows, offset):
    def seeded(numbers, dst, indices):
        seed = indices[-1]
        number = number_after(seed)
        for i in rows(numbers.shape[0]):
            dst[i] = number
        return dst

    return seeded


def pythons(rows, offset):
    def seeded(numbers, dst, indices):
        random.seed(indices[-1])
        for i in rows(numbers.shape[0]):
            dst[i] = random.randint(0, MOST - 1)
        return dst

    return seeded


def own(rows, offset):
    def seeded(numbers, dst, indices):
        for i in rows(numbers.shape[0]):
            np.random.seed(indices[i])
            dst[i] = np.random.randint(0, MOST)
        return dst

    return seeded


def own_variable(rows, offset):
    def seeded(numbers, dst, indices):
        ids = indices + 0
        for i in rows(numbers.shape[0]):
            place = i
            seed = ids[place]
            np.random.seed(seed)
            dst[i] = np.random.randint(0, MOST)
        return dst

    return seeded


def own_each(rows, offset):
    def seeded(numbers, dst, indices):
        for i, number in enumerate(indices):
            np.random.seed(number)
            dst[i] = np.random.randint(0, MOST)
        return dst

    return seeded


def own_while(rows, offset):
    def seeded(numbers, dst, indices):
        i = 0
        while i < numbers.shape[0]:
            np.random.seed(indices[i])
            dst[i] = np.random.randint(0, MOST)
            i += 1
        return dst

    return seeded


def own_helper(rows, offset):
    def seeded(numbers, dst, indices):
        for i in rows(numbers.shape[0]):
            dst[i] = number_after(indices[i])
        return dst

    return seeded


def own_pythons(rows, offset):
    def seeded(numbers, dst, indices):
        for number, i in zip(indices, range(numbers.shape[0])):  # noqa: B905 - numba has no strict
            random.seed(number)
            dst[i] = random.randint(0, MOST - 1)
        return dst

    return seeded


def own_inside(rows, offset):
    def seeded(numbers, dst, indices):
        def after(number):
            np.random.seed(number)
            return np.random.randint(0, MOST)

        for i in rows(numbers.shape[0]):
            dst[i] = after(indices[i])
        return dst

    return seeded


SHARED = (last, first_in_loop, total, length, constant, closed_over, helper, pythons)
OWN = (own, own_variable, own_each, own_while, own_helper, own_pythons, own_inside)
MADE = {function.__name__: function for function in (*SHARED, *OWN)}


class Generator(Same):
    """Makes a generator from the last id."""

    def __init__(self, how):
        self.how = how

    def generate_code(self):
        def generator(numbers, dst, indices):
            rng = np.random.default_rng(indices[-1])
            dst[:, 0] = rng.integers(0, MOST, numbers.shape[0])
            return dst

        def state(numbers, dst, indices):
            drawn = np.random.RandomState(seed=indices[0]).randint(0, MOST, numbers.shape[0])
            dst[:, 0] = drawn
            return dst

        chosen = {"generator": generator, "state": state}[self.how]
        chosen.with_indices = True
        return chosen
