"""An op that declares the box of a picture that it reads does not depend on pixels outside."""

import numpy as np
import pytest

from stoker.ops import lookup, registered

READING = [name for name in registered() if lookup(name).reads is not None]


def test_crops_say_what_they_read():
    crops = {"center_crop", "corner_crop", "crop", "fit_bucket", "random_crop"}
    assert set(READING) == crops | {"random_resized_crop"}


@pytest.mark.parametrize("kind", ["image", "mask"])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("center_crop", {"size": (9, 40)}),
        ("center_crop", {"size": 90, "fill": 7}),
        ("corner_crop", {"size": (5, 9), "corner": "top_right"}),
        ("corner_crop", {"size": 30, "corner": "bottom_left", "fill": 7}),
        ("crop", {"size": (9, 14), "top": 3, "left": 20}),
        ("crop", {"size": 60, "top": -7, "left": -70, "fill": 7}),
        ("random_crop", {"size": 12}),
        ("random_crop", {"size": (9, 40), "padding": (7, 39), "fill": 114}),
        ("random_crop", {"size": 5, "padding": 5}),
        ("fit_bucket", {"size": (16, 50), "crop": "random"}),
        ("random_resized_crop", {"size": (16, 20), "scale": (0.05, 0.9)}),
        ("random_resized_crop", {"size": 40, "interpolation": "bicubic", "scale": (0.02, 0.3)}),
        ("random_resized_crop", {"size": 7, "interpolation": "nearest"}),
        ("random_resized_crop", {"size": 40, "interpolation": "lanczos"}),
    ],
)
def test_pixels_outside_of_the_box_do_not_matter(name, params, kind):
    op, rng = lookup(name)(**params), np.random.default_rng(1)
    record, args = np.zeros((), op.record), op.params()
    for trial in range(40):
        height, width = (int(side) for side in rng.integers(6, 60, 2))
        shape = (height, width, 3) if kind == "image" else (height, width)
        first, second = (rng.integers(0, 256, shape, np.uint8) for _ in range(2))
        op.draw((7, 8, trial, 0, 0), args, height, width, record)
        top, left, h, w = op.reads(args, record, height, width)
        assert 0 <= top < top + h <= height
        assert 0 <= left < left + w <= width
        box = (slice(top, top + h), slice(left, left + w))
        second[box] = first[box]
        size = op.out_size(args, record, height, width)
        results = []
        for src in (first, second):
            dst = np.zeros((*size, *shape[2:]), np.uint8)
            op.kernels[kind].plain(src, dst, args, record, None)
            results.append(dst)
        assert np.array_equal(*results)
