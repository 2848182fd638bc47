"""Blocks turned and pixels mixed in registers, against NumPy; twins do what plain forms do.

An intrinsic can only be called by compiled code, so these kernels do nothing else.
"""

import numpy as np
import pytest

from stoker.jit import compiled, kernel
from stoker.ops.kernels import pixels
from stoker.ops.kernels.blocks import turn1, turn2, turn3, turn4
from stoker.ops.kernels.pixels import mix4


@kernel
def call1(src, start, step, dst, to, line):
    turn1(src, start, step, dst, to, line)


@kernel
def call2(src, start, step, dst, to, line):
    turn2(src, start, step, dst, to, line)


@kernel
def call3(src, start, step, dst, to, line):
    turn3(src, start, step, dst, to, line)


@kernel
def call4(src, start, step, dst, to, line):
    turn4(src, start, step, dst, to, line)


@kernel
def call_mix4(src, above, below, fx, fy, dst, to):
    mix4(src, above, below, fx, fy, dst, to)


TURNS = {1: (call1, 16), 2: (call2, 8), 3: (call3, 4), 4: (call4, 4)}


@pytest.mark.parametrize("pixel", TURNS)
@pytest.mark.parametrize("backwards", [False, True])
def test_a_block_is_transposed(noise, pixel, backwards):
    turn, side = TURNS[pixel]
    source = noise((side + 3, side + 5, pixel), pixel)
    stride, line = (side + 5) * pixel, (side + 2) * pixel
    start = stride + 2 * pixel
    block = source[1 : side + 1, 2 : side + 2]
    step, to, expected = stride, line + pixel, block.swapaxes(0, 1)
    if backwards:  # source rows from the last to the first, output rows too
        start, step, to, line = start + (side - 1) * stride, -stride, to + (side - 1) * line, -line
        expected = np.rot90(block, 2).swapaxes(0, 1)
    for form in (turn, compiled(turn)):
        painted = np.full((side + 3, side + 2, pixel), 7, np.uint8)
        form(source.reshape(-1), start, step, painted.reshape(-1), to, line)
        assert (painted[1 : side + 1, 1 : side + 1] == expected).all()
        painted[1 : side + 1, 1 : side + 1] = 7
        assert (painted == 7).all()


def test_four_levels_are_mixed_exactly(noise):
    source = noise((64,))
    source[:8], source[20:28] = 255, 255
    fast = compiled(call_mix4)
    for above, below, fx, fy in (
        (0, 20, 0, 0),
        (0, 20, 2047, 2047),
        (3, 30, 1, 2046),
        (56, 9, 999, 5),
    ):
        plain, machine = np.full((2, 16), 7, np.uint8)
        mix4(source, above, below, fx, fy, plain, 3)
        fast(source, above, below, fx, fy, machine, 3)
        x, y = np.array([2048 - fx, fx]), np.array([2048 - fy, fy])
        corners = np.array([[source[p + 3 * i :][:4] for i in (0, 1)] for p in (above, below)])
        exact = np.einsum("y,x,yxc->c", y, x, corners.astype(np.int64))
        assert (plain[3:7] == (exact + 2**21) >> 22).all()
        assert (machine == plain).all()


@pytest.mark.parametrize(("start", "to"), [(0, 0), (5, 9), (21, 0), (0, 21), (21, 21)])
def test_the_last_pixel_is_picked_without_its_neighbor(noise, start, to):
    source = noise((24,))
    for form in (pixels.pick3, compiled(pixels.pick3)):
        result = np.zeros(24, np.uint8)
        form(source, start, result, to)
        assert (result[to : to + 3] == source[start : start + 3]).all()
        assert not result[to + 4 :].any()
        assert not result[:to].any()
