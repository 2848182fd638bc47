"""Images of floats: to and from levels, against PyTorch and Pillow, and what copies pixels."""

import numpy as np
import torch
from PIL import Image

from stoker.ops import make

LEVELS = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)


def floats(op, value, run_op, **more):
    return run_op(op, [("image", value)], **more).outputs[0]


def test_to_float_is_pytorchs_division(run_op):
    got = floats(make("to_float", {}), LEVELS, run_op)
    expected = torch.from_numpy(LEVELS).to(torch.float32) / 255
    assert got.dtype == np.float32
    assert got.tobytes() == expected.numpy().tobytes()


def test_every_level_comes_back(run_op):
    there = floats(make("to_float", {}), LEVELS, run_op)
    assert (floats(make("from_float", {}), there, run_op) == LEVELS).all()


def test_from_float_rounds_and_clips(run_op):
    halves = (np.arange(255) + 0.5) / 255
    near = np.concatenate([np.nextafter(np.float32(halves), np.float32(side)) for side in (-1, 2)])
    odd = np.float32([np.nan, np.inf, -np.inf, -0.0, 1.0000001, -1e-9, 3e38])
    values = np.concatenate([near, odd]).reshape(-1, 1, 1)
    got = floats(make("from_float", {}), values, run_op).ravel()
    exact = [int(x * 255 + 0.5) for x in near.astype(float)]  # a product of 32 bits: exact
    assert got[: len(near)].tolist() == exact
    assert got[len(near) :].tolist() == [0, 255, 0, 0, 255, 0, 255]


def test_a_flip_of_floats_is_pillows(run_op):
    image = np.random.default_rng(3).normal(size=(17, 23, 1)).astype(np.float32)
    picture = Image.fromarray(image[..., 0], mode="F")
    for name, method in (
        ("horizontal_flip", Image.Transpose.FLIP_LEFT_RIGHT),
        ("vertical_flip", Image.Transpose.FLIP_TOP_BOTTOM),
        ("transpose", Image.Transpose.TRANSPOSE),
    ):
        got = floats(make(name, {"p": 1}), image, run_op)[..., 0]
        assert got.tobytes() == np.asarray(picture.transpose(method)).tobytes(), name


def test_a_fill_of_floats(run_op):
    image = np.zeros((4, 4, 3), np.float32)
    for fill, expected in ((0.5, [0.5] * 3), ((-1.5, 0, 2.25), [-1.5, 0, 2.25]), (200, [200] * 3)):
        got = floats(make("pad", {"padding": 1, "fill": fill}), image, run_op)
        assert (got[0, 0] == np.float32(expected)).all()
