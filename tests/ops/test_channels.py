"""Images of 1 to 16 channels: ops without a color meaning treat each channel like an image of one.

The oracle is the op itself on every channel alone, with the same decision.
"""

import numpy as np
import pytest

from stoker import ops
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import State, StateError, make
from stoker.ops.contract.rules import COLORS
from stoker.ops.testing import OpRunner
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError

MANY = (2, 5, 16)
NOT_ALONE = frozenset({"gaussian_noise", "salt_and_pepper", "shot_noise", "layout", "normalize"})
"""Ops whose channels share noise or change places; others tests know their pixels."""
COMPILED_OPS = {
    "horizontal_flip": {"p": 1.0},
    "resize": {"size": (24, 40)},
    "random_crop": {"size": 24, "padding": 9, "fill": tuple(range(16))},
    "affine": {"degrees": (30, 31), "fill": 114},
    "gaussian_blur": {"p": 1.0},
    "random_resized_crop": {"size": 24},
}


def image_of(shape, dtype, seed=0):
    draw = np.random.default_rng(seed)
    if dtype == "uint16":
        return draw.integers(0, 65536, shape, np.uint16)
    if dtype == "uint8":
        return draw.integers(0, 256, shape, np.uint8)
    return draw.random(shape, np.float32)


def uniform(op):
    """Return whether an example gives one number for all channels, so that it fits any image."""
    lists = [getattr(op, name, 0) for name in ("fill", "mean", "std")]
    return not any(isinstance(found, tuple) and len(found) > 1 for found in lists)


def test_each_channel_is_an_image_of_its_own(example, dtype):
    if "image" not in example.kernels or not uniform(example):
        pytest.skip("no image, or a number for each channel")
    run = OpRunner()
    for channels in MANY:
        image = image_of((33, 46, channels), dtype)
        if example.image_channels[-1] <= COLORS:
            if channels > 4:
                refused = rf"{example.name} has .*x{channels}\].*channels"
                with pytest.raises(StateError, match=refused):
                    example.declare((State.fixed("image", dtype, image.shape),))
            continue
        if example.name in NOT_ALONE or not getattr(example, "brightness_by_max", True):
            continue  # by the mean of all channels
        for key in range(3 if channels == 5 else 1):
            whole = run(example, [("image", image)], key, arithmetic=PLAIN)
            for channel in {*range(channels)} & {0, 1, 2, 3, 4, 8, 15}:
                part = np.ascontiguousarray(image[..., channel : channel + 1])
                alone = run(example, [("image", part)], key, PLAIN, record=whole.record)
                same = np.array_equal(whole.outputs[0][..., channel], alone.outputs[0][..., 0])
                assert same, (channels, channel)


@pytest.mark.parametrize("name", COMPILED_OPS)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_machine_code_of_many_channels(name, dtype):
    run, op = OpRunner(), make(name, COMPILED_OPS[name])
    for channels in (5, 16):
        if not uniform(op) and channels < 16:
            continue
        image = image_of((33, 46, channels), dtype)
        for key in range(3):
            fast = run(op, [("image", image)], key, arithmetic=COMPILED).outputs[0]
            plain = run(op, [("image", image)], key, arithmetic=PLAIN).outputs[0]
            assert fast.tobytes() == plain.tobytes()


def test_satellite_images_in_a_pipeline():
    @pipeline
    def train(sample):
        image, mask = ops.random_crop(sample.image, sample.mask, size=16, padding=4)
        image = ops.normalize(image, mean=tuple(k / 12 for k in range(12)), std=0.5, layout="CHW")
        return {"image": image, "mask": mask}

    image = image_of((20, 30, 12), "uint8")
    made = train({"image": image, "mask": image[..., 0] // 64}, seed=3)
    assert made["image"].shape == (12, 16, 16)
    with pytest.raises(BuildError, match=r"hue has no rule for image uint8\[20x30x12\]"):
        pipeline(lambda sample: {"image": ops.hue(sample.image)})({"image": image})
