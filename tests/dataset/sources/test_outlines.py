"""Outlines as masks: the pixels that pycocotools gives, codes worked out by hand, and bad ones."""

import json

import numpy as np
import pytest
from pycocotools import mask as reference
from skimage.draw import polygon2mask

from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.outlines import paint, uncompressed


def painted(segmentation, height, width, relative=False):
    return paint([(1, json.dumps(segmentation).encode())], (height, width), relative)


def random_polygon(rng, height, width):
    """Corners inside and outside, on whole pixels and between, with and without crossings."""
    count, extent = int(rng.integers(3, 20)), np.array([width, height])
    match int(rng.integers(0, 4)):
        case 0:
            points = rng.uniform(-5, extent + 5, (count, 2))
        case 1:
            points = rng.integers(-3, extent.max() + 3, (count, 2)).astype(float)
        case 2:
            points = np.round(rng.uniform(-extent, 2 * extent, (count, 2)) * 5) / 5
        case _:
            angle = np.sort(rng.uniform(0, 2 * np.pi, count))
            points = extent / 2 * (1 + np.stack([np.cos(angle), np.sin(angle)], axis=1))
    return np.clip(points, -extent, 2 * extent)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # in pycocotools
def test_polygons_have_the_pixels_of_pycocotools():
    rng = np.random.default_rng(0)
    for _ in range(600):
        height, width = (int(side) for side in rng.integers(1, 90, 2))
        parts = [
            random_polygon(rng, height, width).reshape(-1).tolist()
            for _ in range(rng.integers(1, 4))
        ]
        code = reference.merge(reference.frPyObjects(parts, height, width))
        expected = reference.decode(code)
        assert np.array_equal(painted(parts, height, width), expected)
        text = {"size": [height, width], "counts": code["counts"].decode()}
        assert np.array_equal(painted(text, height, width), expected)
        runs = {"size": [height, width], "counts": uncompressed(text["counts"])}
        assert np.array_equal(painted(runs, height, width), expected)


def test_polygons_are_near_those_of_scikit_image():
    """Another rule for pixels on the boundary: they differ by no more than that."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        angle = np.sort(rng.uniform(0, 2 * np.pi, 12))
        points = 40 + rng.uniform(10, 38) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        found = painted([points.reshape(-1).tolist()], 80, 80)
        expected = polygon2mask((80, 80), points[:, ::-1] - 0.5)
        length = np.abs(np.diff(np.vstack([points, points[:1]]), axis=0)).sum()
        assert np.count_nonzero(found != expected) <= length


def test_polygons_in_parts_of_the_picture():
    corners = [0.25, 0.5, 0.75, 0.5, 0.75, 1.0, 0.25, 1.0]
    in_pixels = [number * (40, 20)[place % 2] for place, number in enumerate(corners)]
    found = painted([corners], 20, 40, relative=True)
    assert np.array_equal(found, painted([in_pixels], 20, 40))
    assert found[10:, 10:30].all()
    assert found.sum() == 10 * 20


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", []),
        ("234", [2, 3, 4]),
        ("123V1", [1, 2, 3, 40]),  # 40 - 2 = 38 = 1 * 32 + 6: 6 with more to follow, then 1
        ("090H", [0, 9, 0, 1]),  # 1 - 9 = -8: its lowest five bits are 11000, the sign is in them
        ("P4", [128]),  # `P` is 32: no bits, more to follow; then 4 * 32
    ],
)
def test_compressed_codes_by_hand(text, counts):
    assert uncompressed(text) == counts


def test_runs_go_down_the_columns():
    found = painted({"size": [2, 3], "counts": [1, 2, 3]}, 2, 3)
    assert found.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_later_shapes_lie_over_earlier_ones():
    whole = json.dumps({"size": [2, 2], "counts": [0, 4]}).encode()
    part = json.dumps({"size": [2, 2], "counts": [3, 1]}).encode()
    assert paint([(7, whole), (3, part)], (2, 2), relative=False).tolist() == [[7, 7], [7, 3]]
    assert paint([(3, part), (7, whole)], (2, 2), relative=False).tolist() == [[7, 7], [7, 7]]
    assert paint([], (2, 2), relative=False).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("segmentation", "message"),
    [
        ({"size": [4, 5], "counts": [20]}, "a run-length code is for 4x5 pixels .* has 4x4"),
        (
            {"size": [4, 4], "counts": [15]},
            "expected non-negative runs of 16 pixels in total, got 15",
        ),
        (
            {"size": [4, 4], "counts": [18, -2]},
            "expected non-negative runs of 16 pixels in total, got 16",
        ),
        ({"size": [4, 4], "counts": "2~"}, "a compressed run-length code cannot have '~' there"),
        (
            {"size": [4, 4], "counts": "o" * 40},
            "a compressed run-length code cannot have 'o' there",
        ),
        ({"size": [4, 4], "counts": "2P"}, "a compressed run-length code ends within a number"),
        ({"counts": [16]}, "a segmentation is damaged: .*`size`"),
        ([[1, 2, 3, 4]], "a polygon: expected x and y of at least 3 corners, got 4 numbers"),
        (
            [[1, 2, 3, 4, 5, 6, 7]],
            "a polygon: expected x and y of at least 3 corners, got 7 numbers",
        ),
        ([[0, 0, 9, 0, 9, 9]], "a polygon extends further beyond its image of 4x4 pixels"),
        ("polygon", "a segmentation is damaged"),
    ],
)
def test_outlines_that_cannot_be(segmentation, message):
    with pytest.raises(CodecError, match=message):
        painted(segmentation, 4, 4)
