"""Fixtures of the tests of stoker.ops: examples of every op, and one way to run an op under guard.

`pytest_generate_tests` hands every registered op to each test that asks for `example`; the examples
are those of `stoker.ops.contract.examples`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image
from skimage import data

from stoker.ops import Op, State, StateError, make, registered
from stoker.ops._testing.runner import OpRunner
from stoker.ops.contract.examples import examples_of
from stoker.ops.testing import structured

WIDE_MASKS = ("uint16", "int32")
"""Other dtypes of masks than uint8; a test of all ops tries one of them on each, in turn."""


def accepts(op: Op, kind: str, dtype: str, shape: tuple[int, ...]) -> bool:
    """Return whether an op has a rule for one value."""
    try:
        op.declare((State.fixed(kind, dtype, shape),))
    except StateError:
        return False
    return True


def image_channels(op: Op, dtype: str) -> list[int]:
    """Channel counts of images of a dtype that an op has a rule for; an op without images: any."""
    if "image" not in op.kernels:
        return [3] if dtype == "uint8" else []
    return [c for c in (1, 2, 3, 4) if accepts(op, "image", dtype, (8, 8, c))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `example` with every example of every registered op.

    Those that ask for `dtype` too get each dtype of images that the example has a rule for; those
    that ask for `kind_in_place` each kind and dtype whose kernel works in place.
    """
    if "example" not in metafunc.fixturenames:
        return
    pairs = [(n, make(n, p)) for n in sorted(registered()) for p in examples_of(registered()[n])]
    of_dtypes = [
        (f"{name}-{i}-{dtype}", example, dtype)
        for i, (name, example) in enumerate(pairs)
        for dtype in ("uint8", "uint16", "float32")
        if "dtype" in metafunc.fixturenames and image_channels(example, dtype)
    ]
    if "kind_in_place" in metafunc.fixturenames:
        found = [
            pytest.param(example, dtype, kind, id=f"{name}-{kind}")
            for name, example, dtype in of_dtypes
            for kind in example.kernels
            if example.kernel_of(kind, dtype).in_place and (kind == "image" or dtype == "uint8")
        ]
        metafunc.parametrize(("example", "dtype", "kind_in_place"), found)
    elif "dtype" in metafunc.fixturenames:
        found = [pytest.param(example, dtype, id=name) for name, example, dtype in of_dtypes]
        metafunc.parametrize(("example", "dtype"), found)
    else:
        names = [f"{name}-{i}" for i, (name, _) in enumerate(pairs)]
        metafunc.parametrize("example", [example for _, example in pairs], ids=names)


@pytest.fixture(scope="session")
def examples() -> dict[str, list[dict[str, Any]]]:
    """Example parameters by op name."""
    return {name: list(examples_of(cls)) for name, cls in sorted(registered().items())}


@pytest.fixture(scope="session")
def every_example(examples: dict[str, list[dict[str, Any]]]) -> list[Op]:
    """Every example of every registered op, for tests that are over in a moment."""
    return [make(name, params) for name, choices in examples.items() for params in choices]


@pytest.fixture(scope="session")
def run_op() -> OpRunner:
    """Run an op: `run_op(op, [("image", array)], key, arithmetic=COMPILED)`."""
    return OpRunner()


@pytest.fixture(scope="session")
def as_record() -> Callable[..., Any]:
    """Make the record (np.void) that kernels take of a 0-d structured array."""
    return structured


@pytest.fixture(scope="session")
def photo() -> np.ndarray:
    """A photograph, (375, 500, 3) uint8."""
    return np.ascontiguousarray(np.asarray(Image.fromarray(data.astronaut()).resize((500, 375))))


@pytest.fixture(scope="session")
def noise() -> Callable[..., np.ndarray]:
    """Make random values: `noise(shape, seed=0, dtype="uint8", classes=256)`."""

    def make_noise(
        shape: tuple[int, ...], seed: int = 0, dtype: str = "uint8", classes: int = 256
    ) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, classes, shape).astype(dtype)

    return make_noise


@pytest.fixture(scope="session")
def values_of(examples: dict[str, Any]) -> Callable[..., list[tuple[str, np.ndarray]]]:
    """Make values of one size: an image, a mask of uint8, and one of uint16 or int32.

    Images are uint8 where the op has a rule for them; floats are in [-0.5, 1.5), levels of uint16
    use all bits. Ops that have no
    rule for either get sequences of that height.
    """

    def make_values(
        op: Op, height: int, width: int, channels: int = 3, seed: int = 0, dtype: str = ""
    ) -> Any:
        draw = np.random.default_rng(seed)
        values = []
        if "image" in op.kernels:
            shape = (height, width, channels)
            image = draw.integers(0, 256, shape, dtype=np.uint8)
            if dtype == "uint16":
                image = draw.integers(0, 65536, shape, dtype=np.uint16)
            if dtype == "float32" or not image_channels(op, "uint8"):
                image = (draw.random(shape, np.float32) * 2 - np.float32(0.5)).astype(np.float32)
            values.append(("image", image))
        if "mask" in op.kernels:
            turn = sorted(registered()).index(op.name) % 2
            for classes in ("uint8", WIDE_MASKS[turn]):
                mask = draw.integers(0, 200, (height, width)).astype(classes)
                if accepts(op, "mask", classes, mask.shape):
                    values.append(("mask", mask))
        if not {"image", "mask"} & op.kernels.keys():  # sequences
            values.append(("array", draw.integers(0, 9999, (height, width), dtype=np.int32)))
            values.append(("bytes", draw.integers(0, 256, height, dtype=np.uint8)))
        return values

    return make_values
