"""Custom ops that draw from generators other than their key."""

import random
import secrets
from dataclasses import dataclass
from random import randint
from typing import Any, ClassVar

import numpy as np
from numpy.random import default_rng, normal

from stoker.jit import kernel
from stoker.ops import Kernel, Op
from stoker.rng.draws import uniform

GENERATOR = default_rng(3)


@kernel
def draw_by_key(key, params, height, width, record):
    record["x"] = uniform(key, 0)


@kernel
def draw_imported(key, params, height, width, record):
    record["x"] = randint(0, 3)  # here


@kernel
def run_numpy(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        dst[y] = src[y] + np.random.randint(0, 256)  # here


def plain_copy(src, dst, params, record, scratch):
    dst[...] = src


def plain_python(src, dst, params, record, scratch):
    dst[...] = src + random.random()  # here


def plain_nested(src, dst, params, record, scratch):
    dst[...] = [[normal() for _ in row] for row in src]  # here


def plain_helper(src, dst, params, record, scratch):
    dst[...] = src + helper()


def helper():
    return GENERATOR.integers(3)  # here


@dataclass(frozen=True)
class ByKey(Op):
    """Draws as an op does."""

    name: ClassVar[str] = "by_key"
    random: ClassVar[bool] = True
    record: ClassVar[np.dtype] = np.dtype([("x", "f8")])
    draw: ClassVar[Any] = staticmethod(draw_by_key)
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(plain_copy, plain_copy)}


class DrawImported(ByKey):
    """A function of `random`, by its own name."""

    draw = staticmethod(draw_imported)


class RunNumpy(ByKey):
    """numpy.random in compiled code."""

    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(run_numpy, plain_copy)}


class PlainPython(ByKey):
    """The module `random` in the plain form."""

    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(plain_copy, plain_python)}


class PlainNested(ByKey):
    """A function of `numpy.random` inside a comprehension."""

    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(plain_copy, plain_nested)}


class PlainHelper(ByKey):
    """A generator that a helper keeps."""

    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(plain_copy, plain_helper)}


class RandomParameters(ByKey):
    """Parameters that differ from process to process."""

    def params(self):
        """Never the same."""
        return np.array((secrets.randbelow(3),), self.parameters)  # here
