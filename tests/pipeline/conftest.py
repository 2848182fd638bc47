"""Custom ops, as a user would write them, photographs, and a way to run one row by each engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from skimage import data

from stoker.jit import kernel
from stoker.ops.contract import registry
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.engine.stage_clock import StageClock
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.plan import Plan
from stoker.rng.draws import bernoulli, integers, uniform
from stoker.rng.row import Row


@kernel
def toy_flip_draw(key, params, height, width, record):
    record["flip"] = bernoulli(key, 0, params["p"])


@kernel
def toy_flip_run(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            dst[y, x] = src[y, src.shape[1] - 1 - x] if record["flip"] else src[y, x]


@kernel
def toy_flip_run_rgb(src, dst, params, record, scratch):
    last = src.shape[1] - 1
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            for c in range(src.shape[2]):
                dst[y, x, c] = src[y, last - x, c] if record["flip"] else src[y, x, c]


def toy_flip_plain(src, dst, params, record, scratch):
    dst[...] = src[:, ::-1] if record["flip"] else src


@dataclass(frozen=True)
class ToyFlip(Op):
    """Mirror left and right."""

    name: ClassVar[str] = "toy_flip"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype] = np.dtype([("p", "f8")])
    record: ClassVar[np.dtype] = np.dtype([("flip", "u1")])
    draw: ClassVar[Any] = staticmethod(toy_flip_draw)
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(toy_flip_run_rgb, toy_flip_plain),
        "mask": Kernel(toy_flip_run, toy_flip_plain),
    }
    p: float = 0.5

    def params(self) -> np.ndarray:
        return np.array((self.p,), self.parameters)


@kernel
def toy_crop_draw(key, params, height, width, record):
    record["top"] = integers(key, 0, height - params["side"] + 1)
    record["left"] = integers(key, 1, width - params["side"] + 1)


@kernel
def toy_crop_run(src, dst, params, record, scratch):
    for y in range(dst.shape[0]):
        dst[y] = src[record["top"] + y, record["left"] : record["left"] + dst.shape[1]]


def toy_crop_plain(src, dst, params, record, scratch):
    top, left = int(record["top"]), int(record["left"])
    dst[...] = src[top : top + dst.shape[0], left : left + dst.shape[1]]


@kernel
def toy_crop_size(params, record, height, width):
    return params["side"], params["side"]


@dataclass(frozen=True)
class ToyCrop(Op):
    """Cut out a square."""

    name: ClassVar[str] = "toy_crop"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype] = np.dtype([("side", "i8")])
    record: ClassVar[np.dtype] = np.dtype([("top", "i8"), ("left", "i8")])
    draw: ClassVar[Any] = staticmethod(toy_crop_draw)
    out_size: ClassVar[Any] = staticmethod(toy_crop_size)
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(toy_crop_run, toy_crop_plain),
        "mask": Kernel(toy_crop_run, toy_crop_plain),
    }
    side: int

    def params(self) -> np.ndarray:
        return np.array((self.side,), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        self.require_kinds(states)
        side = self.side
        return tuple(s.resized(side, side, (side, side)) for s in states), 0


@kernel
def toy_trim_draw(key, params, height, width, record):
    record["rows"] = integers(key, 0, height // 2)


@kernel
def toy_trim_size(params, record, height, width):
    return height - record["rows"], width


def toy_trim_plain(src, dst, params, record, scratch):
    dst[...] = src[: dst.shape[0]]


@kernel
def toy_trim_run(src, dst, params, record, scratch):
    for y in range(dst.shape[0]):
        dst[y] = src[y]


@dataclass(frozen=True)
class ToyTrim(Op):
    """Cut off a random number of rows: a size that differs from sample to sample."""

    name: ClassVar[str] = "toy_trim"
    random: ClassVar[bool] = True
    record: ClassVar[np.dtype] = np.dtype([("rows", "i8")])
    draw: ClassVar[Any] = staticmethod(toy_trim_draw)
    out_size: ClassVar[Any] = staticmethod(toy_trim_size)
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(toy_trim_run, toy_trim_plain),
        "mask": Kernel(toy_trim_run, toy_trim_plain),
    }

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        self.require_kinds(states)
        return tuple(s.resized(None, s.shape[1], s.bound[:2]) for s in states), 0


@kernel
def toy_shift_draw(key, params, height, width, record):
    record["by"] = np.uint8(uniform(key, 0) * params["most"])


@kernel
def toy_shift_run(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            for c in range(src.shape[2]):
                dst[y, x, c] = np.uint8(src[y, x, c] + record["by"])


def toy_shift_plain(src, dst, params, record, scratch):
    dst[...] = src + np.full((), record["by"], np.uint8)


@dataclass(frozen=True)
class ToyShift(Op):
    """Add a random number to an image, modulo 256; may run in place."""

    name: ClassVar[str] = "toy_shift"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype] = np.dtype([("most", "f8")])
    record: ClassVar[np.dtype] = np.dtype([("by", "u1")])
    draw: ClassVar[Any] = staticmethod(toy_shift_draw)
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(toy_shift_run, toy_shift_plain, in_place=True)
    }
    most: float = 100.0

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        self.require_pixels(states)
        return states, 0

    def params(self) -> np.ndarray:
        return np.array((self.most,), self.parameters)


@kernel
def toy_scale_run(src, dst, params, record, scratch):
    s = src.reshape(src.size)
    d = dst.reshape(dst.size)
    total = scratch.view(np.float32)
    for i in range(total.size):
        total[i] = np.float32(i)
    for i in range(s.size):
        d[i] = np.float32(s[i]) * total[2]


def toy_scale_plain(src, dst, params, record, scratch):
    dst[...] = src.astype(np.float32) * np.float32(2)


@dataclass(frozen=True)
class ToyScale(Op):
    """Image to float32 times 2; draws nothing; uses scratch."""

    name: ClassVar[str] = "toy_scale"
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(toy_scale_run, toy_scale_plain)}

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        self.require_kinds(states)
        return tuple(State(s.kind, "float32", s.shape, s.bound) for s in states), 100


TOYS = (ToyFlip, ToyCrop, ToyTrim, ToyShift, ToyScale)


class Toys:
    """The custom ops, by their Python names."""

    Flip, Crop, Trim, Shift, Scale = TOYS

    @staticmethod
    def flip(*values, p=0.5, stream=None):
        return ToyFlip(p)(*values, stream=stream)

    @staticmethod
    def crop(*values, side=32, stream=None):
        return ToyCrop(side)(*values, stream=stream)

    @staticmethod
    def trim(*values, stream=None):
        return ToyTrim()(*values, stream=stream)

    @staticmethod
    def shift(*values, most=100.0, stream=None):
        return ToyShift(most)(*values, stream=stream)

    @staticmethod
    def scale(*values):
        return ToyScale()(*values)


@pytest.fixture(scope="module", autouse=True)
def registered_toys():
    """Register the toys for a module's tests; tests over all registered ops never meet them."""
    for toy in TOYS:
        register(toy)
    yield
    for name, op in list(registry._OPS.items()):
        if not op.__module__.startswith("stoker."):
            del registry._OPS[name]


@pytest.fixture(scope="session")
def toys():
    return Toys


@pytest.fixture(scope="session")
def photo():
    """A photograph (300, 451, 3) uint8 and a segmentation of it (300, 451) uint8."""

    image = np.ascontiguousarray(data.chelsea())
    return image, (image[..., 0] // 37).astype(np.uint8)


@pytest.fixture(scope="session")
def varied():
    """States of an image and a mask whose sizes differ from sample to sample, and a label."""
    return {
        "image": State("image", "uint8", (None, None, 3), (512, 512, 3)),
        "mask": State("mask", "uint8", (None, None), (512, 512)),
        "label": State.fixed("label", "int64", ()),
        "is_night": State.fixed("scalar", "bool", ()),
        "weight": State.fixed("scalar", "float32", ()),
    }


def _outputs(plan: Plan) -> list[np.ndarray]:
    return [np.full(o.shape, 77, o.dtype) for o in plan.outputs]


@pytest.fixture(scope="session")
def interpret():
    """interpret(plan, row, inputs, freeze=None) -> outputs."""

    def run(plan, row, inputs, freeze=None):
        outputs = _outputs(plan)
        Interpreter(plan, freeze).run(row, inputs, outputs)
        return outputs

    return run


@pytest.fixture(scope="session")
def both():
    """both(plan, rows, inputs, freeze=None) -> outputs per row; both engines, compared.

    The compiled one computes each row once more, timed.
    """

    def timed(fast, row, inputs, outputs):
        fast.clock = StageClock()
        fast.clock.begin()
        fast.run(row, inputs, outputs)
        fast.clock = None

    def run(plan, rows, inputs, freeze=None):
        plain, fast = Interpreter(plan, freeze), compile_plan(plan, freeze)
        results = []
        for row in rows:
            expected, got = _outputs(plan), _outputs(plan)
            plain.run(row, inputs, expected)
            fast.run(row, inputs, got)
            for output, left, right in zip(plan.outputs, expected, got, strict=True):
                assert left.tobytes() == right.tobytes(), (output.name, row)
            again = _outputs(plan)
            timed(fast, row, inputs, again)
            assert [one.tobytes() for one in again] == [one.tobytes() for one in got], row
            results.append(got)
        return results

    return run


@pytest.fixture(scope="session")
def rows():
    """Twelve rows: other seeds, ids, epochs, visits, views."""
    return [Row(2**64 - 1 if k % 3 else 5, 10**6 * k + 3, k // 4, k % 2, k % 5) for k in range(12)]
