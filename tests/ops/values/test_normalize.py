"""normalize against NumPy's float32 and float16, exactly, and against torchvision's formula."""

import numpy as np
import pytest

from stoker.ops import Normalize

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


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
