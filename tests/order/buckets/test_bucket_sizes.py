"""The size of an output: against exact fractions, the examples of the documentation, bounds."""

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import skimage
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sample_photographs import FOLDER

from stoker.order.buckets.sizes import bucket_size, bucket_sizes
from stoker.protocol.errors import UsageError
from stoker.protocol.size_buckets import Buckets

PAGE = Path(__file__).parents[3] / "docs" / "contracts" / "order.md"


def allowed(width: int, height: int, request: Buckets) -> Iterator[tuple[int, int]]:
    """All sizes that an image may have."""
    d, area = request.divisor, request.max_area
    low = -(-(request.min_side or d) // d) * d
    most = [(request.max_side or 65535) // d * d] * 2
    if not request.upscale:
        most = [min(max(side, low), end) for side, end in zip((width, height), most, strict=True)]
    for w in range(low, most[0] + 1, d):
        for h in range(low, min(most[1], area // w) + 1, d):
            if max(w, h) <= Fraction(str(request.max_ratio or 65535)) * min(w, h):
                yield w, h


def score(width: int, height: int, size: tuple[int, int], weight: int) -> tuple[int, int, int]:
    """The rule of the documentation, in Python's integers."""
    sides = size[0] * height, size[1] * width
    kept = power = 2**30 * min(sides) // max(sides)
    for _ in range(weight - 1):
        power = power * kept // 2**30
    return power * size[0] * size[1], kept, size[0]


def by_trial(width: int, height: int, request: Buckets) -> tuple[int, int]:
    """The rule, by trying all sizes."""
    every = allowed(width, height, request)
    return max(every, key=lambda size: score(width, height, size, request.cut_weight))


@st.composite
def requests(draw) -> Buckets:
    divisor = draw(st.sampled_from([1, 2, 3, 8, 16, 37, 64, 128]))
    area = draw(st.integers(divisor * divisor, 2**9 * divisor * divisor))
    least = draw(st.none() | st.integers(1, math.isqrt(area) // divisor * divisor))
    most = draw(st.none() | st.integers(max(least or 0, 1) + divisor, 4096))
    return Buckets(
        max_area=area, divisor=divisor, min_side=least, max_side=most,
        max_ratio=draw(st.none() | st.sampled_from([1, 1.5, 2.333, 64])),
        upscale=draw(st.booleans()), cut_weight=draw(st.integers(2, 16)),
    )  # fmt: skip


sides = st.integers(1, 9000)


@given(sides, sides, requests())
def test_a_size_is_the_best_of_all_that_are_allowed(width, height, request):
    found = bucket_size(width, height, request)
    assert found == by_trial(width, height, request)
    w, h = found
    assert w * h <= request.max_area
    assert w % request.divisor == h % request.divisor == 0
    assert request.least_side <= min(w, h) <= max(w, h) <= request.greatest_side
    if not request.upscale:
        assert w <= max(width, request.least_side)
        assert h <= max(height, request.least_side)
    assert type(w) is type(h) is int


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=60), requests())
def test_many_sizes_are_those_of_one_at_a_time(pictures, request):
    widths, heights = np.array(pictures).T
    wide, high = bucket_sizes(widths, heights, request)
    assert wide.dtype == high.dtype == np.int64
    assert list(zip(wide.tolist(), high.tolist(), strict=True)) == [
        by_trial(*picture, request) for picture in pictures
    ]


@pytest.mark.parametrize("divisor", [64, 4096])
@pytest.mark.parametrize(
    "picture", [(65535, 4096), (4096, 65535), (65535, 1), (1, 1), (16384, 16384)]
)
def test_the_greatest_numbers_do_not_overflow(picture, divisor):
    request = Buckets(max_area=2**26, divisor=divisor)
    found = bucket_size(*picture, request)
    d = divisor  # by_trial would try a million sizes
    for w in (found[0] - d, found[0], found[0] + d):
        for h in (found[1] - d, found[1], found[1] + d):
            if min(w, h) > 0 and max(w, h) <= request.greatest_side and w * h <= 2**26:
                assert score(*picture, (w, h), 7) <= score(*picture, found, 7)


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=20), st.booleans(), st.data())
def test_sizes_of_a_table(pictures, upscale, data):
    pairs = st.tuples(st.integers(1, 40), st.integers(1, 40))
    table = data.draw(st.lists(pairs, min_size=1, max_size=9, unique=True))
    table = [(64 * w, 64 * h) for w, h in table]
    request = Buckets(sizes=table, upscale=upscale)
    wide, high = bucket_sizes(*np.array(pictures).T, request)
    found = zip(wide.tolist(), high.tolist(), strict=True)
    for (width, height), size in zip(pictures, found, strict=True):
        fits = [(w, h) for w, h in table if upscale or (w <= width and h <= height)]
        least = min(table, key=lambda pair: (pair[0] * pair[1], pair[0]))
        assert size == max(fits or [least], key=lambda pair: score(width, height, pair, 7))


def aspect_buckets() -> list[tuple[int, int]]:
    """The sizes that AspectBucket makes by default, by their ratio.

    Of all multiples of 64 from 256 to 768 with at most 512 * 768 pixels and ratios up to 2, it
    keeps the largest of each ratio; of these, nine from 1:1 to 2:1 at equal steps, and their
    mirrors (`trainer/diffusers_trainer.py` of waifu-diffusion, December 2022).
    """
    largest: dict[Fraction, tuple[int, int]] = {}
    for w in range(256, 769, 64):
        for h in range(256, w + 1, 64):
            if w * h <= 512 * 768 and w <= 2 * h:
                largest[Fraction(w, h)] = max(largest.get(Fraction(w, h), (0, 0)), (w, h))
    wide = [largest[ratio] for ratio in sorted(largest)]
    kept = [wide[place] for place in np.linspace(0, len(wide) - 1, 9).astype(int)]
    return [size[::-1] for size in reversed(kept[1:])] + kept


@pytest.mark.parametrize(
    ("limits", "least"), [({}, 0.88), ({"max_ratio": 2, "max_side": 768}, 0.86)]
)
def test_images_are_cut_less_than_by_aspect_bucket_and_fill_more(limits, least):
    """Ratios from 1:2 to 2:1, at equal steps of their logarithm."""
    ratios = np.exp2(np.linspace(-1, 1, 2001))
    widths, heights = (np.round(2000 * np.sqrt(r)).astype(int) for r in (ratios, 1 / ratios))
    area = 512 * 768

    def measured(wide, high) -> tuple[float, float]:
        own, made = widths / heights, wide / high
        cut = 1 - np.minimum(own, made) / np.maximum(own, made)
        return float(cut.mean()), float((wide * high).mean() / area)

    table = np.array(aspect_buckets())
    places = np.interp(widths / heights, table[:, 0] / table[:, 1], np.arange(len(table)))
    theirs = measured(*table[np.round(places).astype(int)].T)
    ours = measured(*bucket_sizes(widths, heights, Buckets(max_area=area, **limits)))
    assert theirs[0] == pytest.approx(0.024, abs=0.0015)
    assert ours[0] <= theirs[0]
    assert ours[1] >= least > theirs[1]


def photographs() -> list[tuple[int, int]]:
    """Widths and heights of the pictures that scikit-image and scikit-learn bring along."""
    folders = [Path(skimage.__file__).parent / "data", FOLDER]
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
        assert found == by_trial(width, height, request)
        assert all(type(side) is int and side % divisor == 0 and side > 0 for side in found)
        assert found[0] * found[1] <= 256 * 256
        loss = 1 - min(found[0] * height, found[1] * width) / max(
            found[0] * height, found[1] * width
        )
        assert loss <= 0.35 if limits else loss <= 0.55 * divisor / min(found)


def test_the_examples_of_the_documentation():
    text = PAGE.read_text().split("### Sizes", 1)[1].split("### ", 1)[0]
    rows = re.findall(
        r"\| (\d+) x (\d+) +\| (\d+) \\\* (\d+) +\| (\d+) +\|[^|]+\| (\d+) x (\d+) +"
        r"\| ([\d.]+) %, (\d+) %",
        text,
    )
    assert len(rows) >= 8
    for *row, kept, filled in rows:
        width, height, a, b, divisor, wide, high = map(int, row)
        request = Buckets(max_area=a * b, divisor=divisor)
        assert bucket_size(width, height, request) == (wide, high), row
        sides = wide * height, high * width
        assert f"{100 * min(sides) / max(sides):.1f}" == kept
        assert f"{100 * wide * high / (a * b):.0f}" == filled


def test_without_resizing_the_own_size_is_the_key():
    request = Buckets(resize=False, divisor=1)
    assert bucket_size(333, 517, request) == (333, 517)


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
        (
            {"max_area": 9999, "resize": False},
            "max_area chooses a size to resize to; with resize=F",
        ),
        (
            {"sizes": [(64, 64)], "resize": False},
            "sizes chooses a size to resize to; with resize=F",
        ),
        (
            {"sizes": [(64, 64)], "max_area": 9},
            "max_area chooses sizes, and sizes= lists them: leave",
        ),
        ({"sizes": [(64, 64)], "max_ratio": 2}, "max_ratio chooses sizes, and sizes= lists them"),
        ({"sizes": []}, "sizes: expected 1 to 256 different sizes, (width, height) each, got 0"),
        (
            {"sizes": [(64, 64), [64, 64]]},
            "different sizes, (width, height) each, got 2, of which 1",
        ),
        ({"sizes": [(64, 100)]}, "multiples of divisor=64, got (64, 100)"),
        ({"sizes": [(64, 64, 3)]}, "sizes: expected (width, height) from 1 to 65535"),
        ({"sizes": [64, 64]}, "sizes: expected (width, height) from 1 to 65535"),
        ({"sizes": "64x64"}, "sizes: expected a list of (width, height), such as [(1152, 896)]"),
        ({"max_area": 9999, "max_ratio": 0.5}, "max_ratio: expected a number from 1 to 64 with at"),
        ({"max_area": 9999, "max_ratio": 1.23456}, "with at most three decimals, got 1.23456"),
        ({"max_area": 9999, "max_ratio": "2"}, "max_ratio: expected a number from 1 to 64"),
        (
            {"max_area": 9999, "cut_weight": 1},
            "cut_weight: expected an integer from 2 to 16, got 1",
        ),
        ({"max_area": 9999, "upscale": "no"}, "upscale: expected True or False, got 'no'"),
        ({"resize": False, "leftovers": "merge"}, "leftovers='merge' moves images to another size"),
        ({"max_area": 9999, "leftovers": "x"}, "leftovers: expected 'carry' or 'merge' or 'drop'"),
        ({"max_area": 9999, "constant": "x"}, "constant: expected 'rows' or 'pixels', got 'x'"),
        ({"max_area": 9999, "min_rows": 9, "max_rows": 8}, "min_rows=9 is more than max_rows=8"),
    ],
)
def test_bad_requests_are_refused(fields, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        Buckets(**fields)
