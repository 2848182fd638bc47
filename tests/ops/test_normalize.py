"""normalize against NumPy's float32 and float16, exactly, and against torchvision's formula."""

import importlib

import numpy as np
import pytest

from stoker.ops import Normalize
from stoker.rng.jit import compiled

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
half = importlib.import_module("stoker.ops.half")


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_exactly_the_stated_operations(run_op, noise, layout, dtype, channels):
    image = noise((29, 43, channels))
    mean, std = (*MEAN, 0.1)[:channels], (*STD, 3.0)[:channels]
    got = run_op(Normalize(mean, std, dtype, layout), [("image", image)]).outputs[0]
    shift = np.array([np.float32(255 * m) for m in mean])
    gain = np.array([np.float32(1 / (255 * s)) for s in std])
    expected = np.multiply(np.subtract(image.astype(np.float32), shift), gain).astype(dtype)
    expected = expected.transpose(2, 0, 1) if layout == "CHW" else expected
    assert got.dtype == np.dtype(dtype)
    assert got.shape == expected.shape
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes()


def test_within_four_units_of_torchvision(run_op):
    """torchvision: ToTensor divides by 255, Normalize subtracts and divides, all in float32."""
    image = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    got = run_op(Normalize(MEAN, STD), [("image", image)]).outputs[0]
    tensor = image.astype(np.float32) / np.float32(255)
    expected = (tensor - np.float32(MEAN)) / np.float32(STD)
    assert np.abs(got - expected).max() <= 4 * 2.0**-24 * np.abs(expected).max()


def to_half(values: np.ndarray) -> np.ndarray:
    values = np.ascontiguousarray(values, np.float32)
    raised, bits = np.zeros_like(values), np.zeros(values.size, np.uint16)
    zero, count = np.uint64(0), np.uint64(values.size)
    pairs = [(array, array.view(np.uint32)) for array in (values, raised)]
    compiled(half.to_half)(*pairs, zero, count, bits, zero)
    return bits


def test_float16_of_every_value_and_every_tie():
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[1:] + halves[:-1]) / 2
    points = np.concatenate([halves, middles, [65519.996, 65520, 65536, 1e9, 3e38, 1e-45]])
    points = points.astype(np.float32)
    around = [points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(3e38))]
    values = np.concatenate([*around, *(-part for part in around)])
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    assert (to_half(values) == expected).all()


def test_float16_of_random_bits():
    bits = np.random.default_rng(0).integers(0, 2**32, 500_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        assert (to_half(values) == values.astype(np.float16).view(np.uint16)).all()
