"""Look-ups through tables, by the processor's byte permutations and one by one, against NumPy."""

import numpy as np
import pytest

from stoker.ops.lookup import map64, map192
from stoker.ops.pixelwise import look_up
from stoker.rng.jit import compiled, kernel


@kernel(twin="stoker.ops.machine.lookup:slow64")
def slow64(image, at, tables):
    image[at : at + 64] = tables[image[at : at + 64]]


@kernel(twin="stoker.ops.machine.lookup:slow192")
def slow192(image, at, tables):
    map192(image, at, tables)


@kernel
def call_map64(image, at, tables):
    map64(image, at, tables)


@kernel
def call_map192(image, at, tables):
    map192(image, at, tables)


@kernel
def call_slow64(image, at, tables):
    slow64(image, at, tables)


@kernel
def call_slow192(image, at, tables):
    slow192(image, at, tables)


@pytest.mark.parametrize("call", [map64, call_map64, call_slow64])
def test_a_block_of_levels(noise, call):
    image, tables = noise((80,)), noise((256,), 1)
    image[8:72:7] = np.arange(0, 256, 27)
    expected = image.copy()
    expected[8:72] = tables[image[8:72]]
    (call if call is map64 else compiled(call))(image, 8, tables)
    assert (image == expected).all()


@pytest.mark.parametrize("call", [map192, call_map192, call_slow192])
def test_a_block_of_colours(noise, call):
    image, tables = noise((200,)), noise((768,), 1)
    expected = image.copy()
    for c in range(3):
        expected[3 + c : 195 : 3] = tables[256 * c + image[3 + c : 195 : 3].astype(int)]
    (call if call is map192 else compiled(call))(image, 3, tables)
    assert (image == expected).all()


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_every_length(noise, channels):
    fast = compiled(look_up)
    for pixels in (1, 2, 63, 64, 65, 127, 128, 192, 200):
        image, tables = noise((pixels, channels), pixels), noise((channels, 256), 1)
        expected = np.stack([tables[c][image[:, c]] for c in range(channels)], 1)
        fast(image.reshape(-1), tables.reshape(-1), channels)
        assert (image == expected).all(), (pixels, channels)
