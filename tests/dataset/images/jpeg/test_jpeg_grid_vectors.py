"""docs/contracts/jpeg-grid.md: rewritten files, grids and windows are those of the vectors.

The grid is also read by itself, from the page, and checked against the markers in the file.
"""

import hashlib
import itertools
import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stoker.dataset.images.jpeg import Splicer, rewrite
from stoker.dataset.images.jpeg.segments import read_segments

VECTORS = json.loads(
    (Path(__file__).parents[4] / "docs/contracts/vectors/jpeg-grid.json").read_text()
)


def crc32c(data):
    """CRC32C bit by bit, as the page defines it."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.fixture(params=VECTORS["files"], ids=["420", "progressive", "gray"])
def vector(request):
    return request.param


def test_files_and_grids_are_those_of_the_vectors(vector):
    made = rewrite(bytes.fromhex(vector["jpeg"]))
    assert made.data.hex() == vector["rewritten"]
    assert made.grid.to_bytes().hex() == vector["grid"]
    assert replace(made.grid, checksums=None).to_bytes().hex() == vector["grid_1"]


def test_rewriting_again_changes_nothing(vector):
    data = bytes.fromhex(vector["rewritten"])
    assert rewrite(data).data == data


@pytest.mark.parametrize("version", ["grid", "grid_1"])
def test_windows_are_those_of_the_vectors(vector, version):
    data = bytes.fromhex(vector["rewritten"])
    grid, found = bytes.fromhex(vector[version]), read_segments(data)
    size, views = (found.height, found.width), (memoryview(data), memoryview(grid))
    Splicer().check(*views, size)
    for case in vector["windows"]:
        window = Splicer().cut(*views, size, tuple(case["box"]), found.height * found.width)
        assert [window.top, window.left, window.height, window.width] == case["window"]
        assert hashlib.blake2b(window.file, digest_size=16).hexdigest() == case["digest"]


def test_the_grid_says_what_the_page_says(vector):
    grid, data = bytes.fromhex(vector["grid"]), bytes.fromhex(vector["rewritten"])
    found = read_segments(data)
    version, mcu_width, mcu_height, zero = grid[:4]
    interval, columns, rows, zero_too = struct.unpack_from("<4H", grid, 4)
    jfif_end, head, frame = struct.unpack_from("<3I", grid, 12)
    offsets = np.frombuffer(grid, "<u4", offset=24)[: rows * columns + 1]
    checksums = np.frombuffer(grid, "<u4", offset=24)[rows * columns + 1 :]
    assert (version, zero, zero_too) == (2, 0, 0)
    assert (mcu_width, mcu_height) == (8 * found.h_max, 8 * found.v_max)
    assert interval * columns == -(-found.width // mcu_width)
    assert rows == -(-found.height // mcu_height)
    assert data[2:4] == b"\xff\xe0"
    assert jfif_end == 4 + struct.unpack_from(">H", data, 4)[0]
    assert data[head : head + 2] == b"\xff\xdb"
    assert struct.unpack_from(">HH", data, frame) == (found.height, found.width)
    assert offsets[0] == found.scans[0].start
    assert checksums[0] == crc32c(grid[:24] + data[:jfif_end] + data[head : offsets[0]])
    assert checksums[1] == crc32c(data[jfif_end:head])
    intervals = [data[begin:end] for begin, end in itertools.pairwise(offsets)]
    assert checksums[2:].tolist() == [crc32c(interval) for interval in intervals]
    assert len(offsets) == rows * columns + 1
    assert vector["grid_1"] == "01" + (grid[1:24] + offsets.tobytes()).hex()
    for turn, end in enumerate(offsets[1:-1]):
        assert data[end - 2 : end] == bytes([0xFF, 0xD0 + turn % 8])
    assert data[offsets[-1] - 2 :] == b"\xff\xd9"
