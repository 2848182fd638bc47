"""The crop's choice: as torchvision's get_params, on our draws; always inside; well distributed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.ops import RandomResizedCrop
from stoker.rng.draws import integers, log_uniform, uniform_range
from stoker.rng.streams import make_key, stream_key

side = st.integers(1, 700)


def torchvision_choice(key, height, width, scale, ratio):
    """torchvision 0.2x, transforms.RandomResizedCrop.get_params, with the op's draws."""
    for attempt in range(10):
        target = height * width * uniform_range(key, 4 * attempt, *scale)
        aspect = log_uniform(key, 4 * attempt + 1, *ratio)
        w = math.floor(math.sqrt(target * aspect) + 0.5)
        h = math.floor(math.sqrt(target / aspect) + 0.5)
        if 0 < w <= width and 0 < h <= height:
            top = integers(key, 4 * attempt + 2, height - h + 1)
            return (top, integers(key, 4 * attempt + 3, width - w + 1), h, w), attempt
    w, h = width, height
    if width / height < min(ratio):
        h = min(max(math.floor(width / min(ratio) + 0.5), 1), height)
    elif width / height > max(ratio):
        w = min(max(math.floor(height * max(ratio) + 0.5), 1), width)
    return ((height - h) // 2, (width - w) // 2, h, w), 10


@settings(max_examples=200, deadline=None)
@given(side, side, st.integers(0, 2**63), st.sampled_from([(3 / 4, 4 / 3), (0.01, 50), (5, 5)]))
def test_choice_is_torchvisions_and_inside(run_op, height, width, sample, ratio):
    op = RandomResizedCrop(8, scale=(0.05, 1), ratio=ratio)
    key = make_key(9, stream_key("x"), sample, 3)
    record = run_op.draw(op, key, height, width)
    expected, _ = torchvision_choice(key, height, width, op.scale, op.ratio)
    assert tuple(record) == expected
    top, left, h, w = (int(v) for v in record)
    assert 0 <= top < top + h <= height
    assert 0 <= left < left + w <= width


def test_all_attempts_and_the_fallback_are_reached():
    seen = {
        torchvision_choice(make_key(9, 1, i, 0), 375, 500, (0.08, 1.0), (0.2, 5.0))[1]
        for i in range(3000)
    }
    assert seen == set(range(11))


@pytest.mark.parametrize(("height", "width"), [(10, 4000), (4000, 10)])
def test_fallback_is_the_central_crop(run_op, height, width):
    record = run_op.draw(RandomResizedCrop(8, scale=(0.9, 1)), 0, height, width)
    top, left, h, w = (int(v) for v in record)
    assert min(w / h, h / w) >= 0.7
    assert (top, left) == ((height - h) // 2, (width - w) // 2)


def test_distribution(run_op):
    op = RandomResizedCrop(8, scale=(0.1, 0.5))  # every attempt fits: nothing is conditioned away
    boxes = np.array([tuple(run_op.draw(op, i, 2000, 2000)) for i in range(2000)], float)
    area = boxes[:, 2] * boxes[:, 3] / 4e6
    ratio = np.log(boxes[:, 3] / boxes[:, 2])
    assert 0.1 - 1e-3 < area.min() < 0.11
    assert 0.49 < area.max() < 0.5 + 1e-3
    assert abs(np.median(area) - 0.3) < 0.02
    assert abs(ratio.mean()) < 0.02
    assert abs(np.abs(ratio).max() - math.log(4 / 3)) < 0.01
    slack = (2000 - boxes[:, 2]) > 100
    assert abs((boxes[slack, 0] / (2000 - boxes[slack, 2])).mean() - 0.5) < 0.03
