"""Every NaN becomes the same NaN wherever pixels are mixed, plain and compiled alike."""

import numpy as np
import pytest

from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import make
from stoker.ops.bases.mixing import mix_floats, plain_mix_floats

ODD = np.uint32([0xFFC00000, 0x7F800001, 0x7FC12345, 0x7F800000, 0xFF800000, 0xFF7FFFFF])
MIXES = {
    "resize, smaller": ("resize", {"size": (17, 23)}),
    "resize, larger": ("resize", {"size": (70, 90), "interpolation": "bicubic"}),
    "resize, of rows": ("resize", {"size": (30, 61)}),
    "resize, of columns": ("resize", {"size": (47, 44)}),
    "random_resized_crop": ("random_resized_crop", {"size": 24}),
    "letterbox": ("letterbox", {"size": 30}),
    "affine": ("affine", {"degrees": 40}),
    "rotate": ("rotate", {"degrees": 90}),
    "perspective": ("perspective", {"p": 1}),
    "elastic": ("elastic", {"p": 1}),
    "grid_distortion": ("grid_distortion", {"p": 1}),
    "optical_distortion": ("optical_distortion", {"p": 1}),
}


def odd(shape, seed):
    """Floats of which one in fifty is one of `ODD`."""
    draw = np.random.default_rng(seed)
    image = draw.random(shape).astype(np.float32)
    where = draw.random(shape) < 0.02
    image[where] = draw.choice(ODD, np.count_nonzero(where)).view(np.float32)
    return image


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("name", MIXES)
def test_every_mean_that_is_none_is_one_nan(run_op, name, channels):
    op, image = make(*MIXES[name]), odd((47, 61, channels), 5)
    record = run_op.draw(op, 2, 47, 61)
    plain, fast = (
        run_op(op, [("image", image)], record=record, arithmetic=arithmetic).outputs[0]
        for arithmetic in (PLAIN, COMPILED)
    )
    assert plain.tobytes() == fast.tobytes()
    assert {*fast[np.isnan(fast)].view(np.uint32).tolist()} == {0x7FC00000}


def test_a_blend_that_is_none_is_one_nan():
    images = [odd((20, 30, 3), seed) for seed in range(3)]
    weights = np.int32([20000, 30000, 15536])
    plain, fast = np.empty_like(images[0]), np.empty_like(images[0])
    plain_mix_floats(images, plain, weights)
    run, sums = compiled(mix_floats), np.empty(8 * fast.size, np.uint8)
    for place, image in enumerate(images):
        run(image, place, 3, fast, weights, sums)
    assert plain.tobytes() == fast.tobytes()
    assert {*fast[np.isnan(fast)].view(np.uint32).tolist()} == {0x7FC00000}
