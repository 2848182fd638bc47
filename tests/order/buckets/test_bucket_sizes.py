"""The size of an output: against exact fractions, the examples of the documentation, bounds."""

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import skimage
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stoker.order.buckets.sizes import bucket_size, bucket_sizes
from stoker.protocol.buckets import Buckets
from stoker.protocol.errors import UsageError

PAGE = Path(__file__).parents[3] / "docs" / "contracts" / "order.md"


def by_fractions(width: int, height: int, request: Buckets) -> tuple[int, int]:
    """The rule as the documentation says it, in exact rational arithmetic, one image at a time."""
    d, area = request.divisor, request.max_area
    low = -(-(request.min_side or d) // d) * d
    high = (request.max_side or 65535) // d * d

    def square(side: int) -> Fraction:  # of side * s
        return Fraction(side * side * area, width * height)

    def down(side: int) -> int:
        return d * math.isqrt(math.floor(square(side) / d**2))

    def nearest(side: int) -> int:
        least = down(side)
        return least + d if (least + Fraction(d, 2)) ** 2 <= square(side) else least

    w, h = nearest(width), nearest(height)
    if w * h > area:
        w, h = down(width), down(height)
    w, h = (min(max(side, low), high) for side in (w, h))
    if w * h > area:
        if h <= w:
            w = area // h // d * d
        else:
            h = area // w // d * d
    return w, h


@st.composite
def requests(draw) -> Buckets:
    divisor = draw(st.sampled_from([1, 2, 3, 8, 16, 37, 64, 128]))
    area = draw(st.integers(divisor * divisor, 2**22))
    least = draw(st.none() | st.integers(1, math.isqrt(area) // divisor * divisor))
    most = draw(st.none() | st.integers(max(least or 0, 1) + divisor, 4096))
    return Buckets(max_area=area, divisor=divisor, min_side=least, max_side=most)


sides = st.integers(1, 9000)


@given(sides, sides, requests())
def test_a_size_is_what_exact_fractions_give(width, height, request):
    found = bucket_size(width, height, request)
    assert found == by_fractions(width, height, request)
    w, h = found
    assert w * h <= request.max_area
    assert w % request.divisor == h % request.divisor == 0
    assert request.least_side <= min(w, h) <= max(w, h) <= request.greatest_side
    assert type(w) is type(h) is int


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=60), requests())
def test_many_sizes_are_those_of_one_at_a_time(pictures, request):
    widths, heights = np.array(pictures).T
    wide, high = bucket_sizes(widths, heights, request)
    assert wide.dtype == high.dtype == np.int64
    assert list(zip(wide.tolist(), high.tolist(), strict=True)) == [
        by_fractions(*picture, request) for picture in pictures
    ]


@pytest.mark.parametrize("divisor", [1, 64, 4096])
@pytest.mark.parametrize(
    "picture", [(65535, 4096), (4096, 65535), (65535, 1), (1, 1), (16384, 16384)]
)
def test_the_greatest_numbers_do_not_overflow(picture, divisor):
    request = Buckets(max_area=2**26, divisor=divisor)
    assert bucket_size(*picture, request) == by_fractions(*picture, request)


def test_ties_go_up_where_the_area_allows():
    """The areas are the images' own, so s = 1, and a side in the middle of two multiples is one."""
    assert bucket_size(88, 53, Buckets(max_area=88 * 53, divisor=16)) == (96, 48)
    assert bucket_size(96, 320, Buckets(max_area=96 * 320, divisor=64)) == (64, 320)


@given(sides, sides, st.sampled_from([8, 16, 64]))
def test_nearest_is_the_least_manhattan_distance(width, height, divisor):
    """Among all multiples; where the area allows what is nearest."""
    area = 512 * 512
    found = bucket_size(width, height, Buckets(max_area=area, divisor=divisor))
    scale = math.sqrt(area / (width * height))

    def distance(size: tuple[int, int]) -> float:
        return abs(size[0] - width * scale) + abs(size[1] - height * scale)

    near = [range(max(int(side * scale) // divisor - 1, 0), int(side * scale) // divisor + 3)
            for side in (width, height)]  # fmt: skip
    best = min(((w * divisor, h * divisor) for w in near[0] for h in near[1]), key=distance)
    if 0 < best[0] * best[1] <= area and max(best) <= 65535 // divisor * divisor:
        assert distance(found) <= distance(best) + 1e-6


def photographs() -> list[tuple[int, int]]:
    """Widths and heights of the pictures that scikit-image and scikit-learn bring along."""
    folders = [Path(skimage.__file__).parent / "data", Path(sklearn.__file__).parent / "datasets"]
    files = [
        file for folder in folders for end in ("png", "jpg") for file in folder.rglob(f"*.{end}")
    ]
    found = []
    for file in sorted(files):
        with Image.open(file) as picture:
            found.append(picture.size)
    return found


@pytest.mark.parametrize("divisor", [8, 32, 64])
@pytest.mark.parametrize("limits", [{}, {"min_side": 128, "max_side": 448}])
def test_real_sizes_fill_the_area_in_their_own_ratio(divisor, limits):
    sizes = photographs()
    assert len(set(sizes)) >= 5
    request = Buckets(max_area=256 * 256, divisor=divisor, **limits)
    for width, height in sizes:
        found = bucket_size(width, height, request)
        assert found == by_fractions(width, height, request)
        assert all(type(side) is int and side % divisor == 0 and side > 0 for side in found)
        assert found[0] * found[1] <= 256 * 256
        loss = 1 - min(found[0] * height, found[1] * width) / max(
            found[0] * height, found[1] * width
        )
        assert loss <= 0.35 if limits else loss <= 1.1 * divisor / min(found)


def test_the_examples_of_the_documentation():
    text = PAGE.read_text().split("### Sizes", 1)[1].split("### ", 1)[0]
    rows = re.findall(
        r"\| (\d+) x (\d+) +\| (\d+) \\\* (\d+) +\| (\d+) +\|[^|]+\| (\d+) x (\d+) +\|", text
    )
    assert len(rows) >= 8
    for row in rows:
        width, height, a, b, divisor, wide, high = map(int, row)
        request = Buckets(max_area=a * b, divisor=divisor)
        assert bucket_size(width, height, request) == (wide, high), row


def test_without_resizing_the_own_size_is_the_key():
    request = Buckets(resize=False, divisor=1)
    assert bucket_size(333, 517, request) == (333, 517)
    with pytest.raises(
        UsageError,
        match=r"multiple of divisor=64; image 1 has 333x64 pixels, and 1 do not fit: use resize",
    ):
        bucket_sizes(np.array([64, 333]), np.array([128, 64]), Buckets(resize=False))


@pytest.mark.parametrize("picture", [(0, 5), (5, 0), (-1, 5), (65536, 5), (30000, 30000)])
def test_empty_and_absurd_images_are_named(picture):
    for request in (Buckets(max_area=512 * 512), Buckets(resize=False, divisor=1)):
        said = f"image 0 has {picture[0]}x{picture[1]} pixels; expected"
        with pytest.raises(UsageError, match=said):
            bucket_size(*picture, request)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give max_area, the maximum pixels of an output"),
        ({"max_area": 0}, "max_area: expected an integer from 1 to 67108864, got 0"),
        ({"max_area": 1.5}, "max_area: expected an integer from 1 to 67108864, got 1.5"),
        (
            {"max_area": 63 * 64},
            "max_area=4032 is too small for any bucket: the smallest side is 64",
        ),
        ({"max_area": 9999, "divisor": 0}, "divisor: expected an integer from 1 to 4096, got 0"),
        (
            {"max_area": 9999, "max_side": 63},
            "no multiple of divisor=64 is between min_side=None and max_side=63",
        ),
        (
            {"max_area": 99999, "min_side": 65, "max_side": 127},
            "no multiple of divisor=64 is between min_side=65 and max_side=127",
        ),
        ({"max_area": 9999, "min_side": True}, "min_side: expected an integer from 1 to 65535"),
        ({"max_area": 9999, "resize": False}, "choose a size to resize to; with resize=False"),
        ({"resize": False, "leftovers": "merge"}, "leftovers='merge' moves images to another size"),
        ({"max_area": 9999, "leftovers": "x"}, "leftovers: expected 'carry' or 'merge' or 'drop'"),
        ({"max_area": 9999, "constant": "x"}, "constant: expected 'rows' or 'pixels', got 'x'"),
        ({"max_area": 9999, "min_rows": 9, "max_rows": 8}, "min_rows=9 is more than max_rows=8"),
    ],
)
def test_bad_requests_are_refused(fields, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        Buckets(**fields)
