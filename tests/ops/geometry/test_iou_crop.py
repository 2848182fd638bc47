"""iou_crop: the rule of SSD against one written separately, what its crops hold, and its boxes."""

import numpy as np
import pytest
from random_sizes import size_of

from stoker.ops import IouCrop, ParameterError, Rot90
from stoker.ops.geometry.iou_crop import holds
from stoker.ops.testing import structured
from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items, unpack_items
from stoker.rng.draws import integers, uniform
from stoker.rng.streams import make_key, stream_key

FIELDS = (
    ItemField("xyxy", "float32", 4),
    ItemField("visible_part", "float32"),
    ItemField("label", "int64"),
)
VISIBLE = 4
CHOICES = [
    IouCrop(),
    IouCrop(0.05, 0.4, 0.9, 4.0, (0.3, 0.5, 0.7), 11),
    IouCrop(options=(0.9, 0.95), trials=2),
    IouCrop(options=(0.0, 0.2), trials=3, min_aspect=0.99, max_aspect=1.01),
]


def boxes(seed, size):
    """Up to six boxes of an image, corners anywhere."""
    noise = np.random.default_rng(seed)
    at = noise.uniform(0, 1, (int(noise.integers(1, 7)), 2, 2)) * [size[1], size[0]]
    return np.hstack([at.min(1), at.max(1)]).astype(np.float32)


def inside(corners, crop):
    """The boxes whose center is inside of (left, top, right, bottom)."""
    at = corners.astype(np.float64)
    x, y = (at[:, 0] + at[:, 2]) / 2, (at[:, 1] + at[:, 3]) / 2
    return (crop[0] < x) & (x < crop[2]) & (crop[1] < y) & (y < crop[3])


def overlaps(corners, crop):
    """Intersection over union of each box with a crop; by NumPy."""
    at, crop = corners.astype(np.float64), np.array(crop, np.float64)
    low, high = np.maximum(at[:, :2], crop[:2]), np.minimum(at[:, 2:], crop[2:])
    both = np.prod(np.clip(high - low, 0, None), 1)
    areas = np.prod(at[:, 2:] - at[:, :2], 1) + np.prod(crop[2:] - crop[:2])
    return both / (areas - both)


def oracle(op, key, height, width, corners):
    """The rule, in plain Python, with the numbers that the documentation says are drawn."""
    low, high = op.min_scale, op.max_scale
    for attempt in range(8):
        option = op.options[integers(key, attempt, len(op.options))]
        if option >= 1:
            break
        for trial in range(op.trials):
            k = 8 + 4 * (1024 * attempt + trial)
            h = int(height * min(low + uniform(key, k) * (high - low), high))
            w = int(width * min(low + uniform(key, k + 1) * (high - low), high))
            if not h or not w or not op.min_aspect <= w / h <= op.max_aspect:
                continue
            top = integers(key, k + 2, height - h + 1)
            left = integers(key, k + 3, width - w + 1)
            crop = (left, top, left + w, top + h)
            within = corners[inside(corners, crop)]
            if not len(corners) or (len(within) and overlaps(within, crop).max() >= option):
                return top, left, h, w, option, 1
    return 0, 0, height, width, option, 0


def draw(op, seed, size, corners):
    key = make_key(3, stream_key(op.name), seed, 1)
    record = structured(op.record)
    words = np.ascontiguousarray(corners).view(np.uint32)
    op.draw(key, structured(op.parameters, op.params()), *size, record, words)
    return key, record


@pytest.mark.parametrize("op", CHOICES)
def test_the_rule(op):
    applied = []
    for seed in range(150):
        size = size_of(seed)
        corners = boxes(seed, size) if seed % 10 else np.zeros((0, 4), np.float32)
        key, record = draw(op, seed, size, corners)
        assert record.tolist() == oracle(op, key, *size, corners), seed
        applied.append(int(record["applied"]))
    assert any(applied)


@pytest.mark.parametrize("op", CHOICES)
def test_every_crop_holds_what_its_record_says(op):
    seen = set()
    for seed in range(150):
        size = size_of(seed)
        corners = boxes(seed, size)
        _, record = draw(op, seed, size, corners)
        top, left, height, width, option, applied = record.tolist()
        crop = (left, top, left + width, top + height)
        assert 0 <= left < crop[2] <= size[1]
        assert 0 <= top < crop[3] <= size[0]
        if not applied:
            assert crop == (0, 0, size[1], size[0])
            continue
        assert overlaps(corners[inside(corners, crop)], crop).max() >= option
        assert op.min_aspect <= width / height <= op.max_aspect
        assert op.min_scale * size[0] - 1 < height <= op.max_scale * size[0]
        assert op.min_scale * size[1] - 1 < width <= op.max_scale * size[1]
        seen.add(option)
    assert seen


def left_by(op, record, sizes, corners):
    """The remaining boxes, with their numbers and visible parts."""
    count = len(corners)
    columns = {
        "xyxy": corners,
        "visible_part": np.full(count, 0.5, np.float32),
        "label": np.arange(count),
    }
    words = pack_items(FIELDS, columns)
    out = np.zeros_like(words)
    params = structured(op.parameters, op.params())
    left = op.items["boxes"].run(words, out, params, record, sizes, VISIBLE)
    return unpack_items(FIELDS, out[:left])


def test_boxes_go_by_their_centers_and_the_rest_is_clipped():
    op, cut = IouCrop(), 0
    for seed in range(80):
        size = size_of(seed)
        corners = boxes(seed, size)
        _, record = draw(op, seed, size, corners)
        top, left, height, width, _, applied = record.tolist()
        crop = (left, top, left + width, top + height)
        found = left_by(op, record, (*size, height, width), corners)
        stay = inside(corners, crop) if applied else np.ones(len(corners), bool)
        assert found["label"].tolist() == np.flatnonzero(stay).tolist()
        shift, most = [left, top, left, top], [width, height, width, height]
        moved = (corners[stay].astype(np.float64) - shift).clip(0, most)
        assert np.array_equal(found["xyxy"], moved.astype(np.float32))
        before, after = (np.prod(c[:, 2:] - c[:, :2], 1) for c in (corners[stay], moved))
        assert np.allclose(found["visible_part"], 0.5 * after / before, rtol=1e-4)
        cut += int((after < before * 0.999).sum())
    assert cut > 20


@pytest.mark.parametrize(
    ("center", "stays"),
    [
        ((20.0, 25.0), False),
        ((60.0, 25.0), False),
        ((40.0, 10.0), False),
        ((40.0, 40.0), False),
        ((20.5, 25.0), True),
        ((59.5, 25.0), True),
        ((40.0, 10.5), True),
        ((40.0, 39.5), True),
    ],
)
def test_a_center_on_the_edge_of_the_crop_is_not_in_it(center, stays):
    x, y = center
    corners = np.array([[x - 5, y - 5, x + 5, y + 5]], np.float32)
    record = structured(IouCrop().record)
    for name, value in {"top": 10, "left": 20, "height": 30, "width": 40, "applied": 1}.items():
        record[name] = value
    assert len(left_by(IouCrop(), record, (100, 120, 30, 40), corners)["label"]) == stays
    assert holds(corners, 20.0, 10.0, 60.0, 40.0, 0.0) == stays


def test_an_option_of_1_leaves_the_image_as_it_is():
    _, record = draw(IouCrop(options=(1,)), 0, (50, 60), np.array([[1, 2, 3, 4]], np.float32))
    assert record.tolist() == (0, 0, 50, 60, 1.0, 0)


def test_where_no_crop_is_good_the_image_stays():
    """A box of no area has no overlap; coordinates that are damaged lie nowhere."""
    bad = np.array([[5, 5, 5, 5], [np.nan, 0, 9, 9], [-np.inf, 0, np.inf, 9]], np.float32)
    with np.errstate(invalid="ignore"):
        _, record = draw(IouCrop(options=(0.01,), trials=5), 0, (50, 60), bad)
    assert record.tolist() == (0, 0, 50, 60, 0.01, 0)


def test_sample_is_asked_with_boxes():
    op, corners = IouCrop(), [[10, 10, 40, 40]]
    drawn = op.sample(100, 120, id=7, items=corners)
    assert drawn == op.sample(100, 120, id=7, items=np.array(corners, np.float32))
    assert set(drawn) == {"top", "left", "height", "width", "option", "applied"}
    with pytest.raises(UsageError, match="iou_crop: expected items, the boxes it decides from"):
        op.sample(100, 120)
    with pytest.raises(UsageError, match="rot90 decides from sizes alone: leave items out"):
        Rot90().sample(100, 120, items=corners)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"min_scale": 0}, r"\(min_scale, max_scale\) to be \(low, high\) with low <= high, above"),
        ({"max_scale": 1.1}, "above 0 and at most 1, got"),
        ({"min_aspect": 3.0}, r"\(min_aspect, max_aspect\) to be \(low, high\)"),
        ({"options": ()}, "options to be 1 to 16 numbers from 0 to 2, got"),
        ({"options": (0.5, -0.1)}, "options to be 1 to 16 numbers from 0 to 2, got"),
        ({"trials": 0}, "trials to be an integer from 1 to 1024, got 0"),
    ],
)
def test_bad_parameters(given, said):
    with pytest.raises(ParameterError, match=said):
        IouCrop(**given)
