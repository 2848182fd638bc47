"""Look-ups through tables, by the processor's byte permutations and one by one, against NumPy."""

import numpy as np
import pytest

from stoker.jit import compiled, kernel
from stoker.ops.bases.pixelwise import look_up, look_up_all
from stoker.ops.kernels.lookup import map_colors, map_levels


@kernel(twin="stoker.ops.kernels.simd.lookup:slow_levels")
def slow_levels(source, image, blocks, tables):
    map_levels(source, image, blocks, tables)


@kernel(twin="stoker.ops.kernels.simd.lookup:slow_colors")
def slow_colors(source, image, blocks, tables):
    map_colors(source, image, blocks, tables)


@kernel
def call_map_levels(source, image, blocks, tables):
    map_levels(source, image, blocks, tables)


@kernel
def call_map_colors(source, image, blocks, tables):
    map_colors(source, image, blocks, tables)


@kernel
def call_slow_levels(source, image, blocks, tables):
    slow_levels(source, image, blocks, tables)


@kernel
def call_slow_colors(source, image, blocks, tables):
    slow_colors(source, image, blocks, tables)


@pytest.mark.parametrize("blocks", [0, 1, 3])
@pytest.mark.parametrize("call", [map_levels, call_map_levels, call_slow_levels])
def test_blocks_of_levels(noise, call, blocks):
    source, tables = noise((200,)), noise((256,), 1)
    source[8:72:7] = np.arange(0, 256, 27)
    image, count = noise((200,), 2), 64 * blocks
    expected = np.concatenate([tables[source[:count]], image[count:]])
    map_ = call if call is map_levels else compiled(call)
    map_(source, image, blocks, tables)
    assert (image == expected).all()
    map_(source, source, blocks, tables)
    assert (source[:count] == expected[:count]).all()


@pytest.mark.parametrize("blocks", [0, 1, 2])
@pytest.mark.parametrize("call", [map_colors, call_map_colors, call_slow_colors])
def test_blocks_of_colors(noise, call, blocks):
    source, tables = noise((400,)), noise((768,), 1)
    image = noise((400,), 2)
    expected = image.copy()
    for c in range(3):
        own = slice(c, 192 * blocks, 3)
        expected[own] = tables[256 * c + source[own].astype(int)]
    (call if call is map_colors else compiled(call))(source, image, blocks, tables)
    assert (image == expected).all()


def test_one_table_for_every_length(noise):
    fast, table = compiled(look_up_all), noise((256,), 1)
    for count in (1, 63, 64, 65, 127, 128, 200):
        source, image = noise((count,), count), np.zeros(count, np.uint8)
        fast(source, image, table)
        assert (image == table[source]).all(), count


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_every_length(noise, channels):
    fast = compiled(look_up)
    for pixels in (1, 2, 63, 64, 65, 127, 128, 192, 200):
        image, tables = noise((pixels, channels), pixels), noise((channels, 256), 1)
        expected = np.stack([tables[c][image[:, c]] for c in range(channels)], 1)
        fast(image.reshape(-1), tables.reshape(-1), channels)
        assert (image == expected).all(), (pixels, channels)
