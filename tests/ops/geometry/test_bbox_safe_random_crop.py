"""bbox_safe_random_crop: the rule in plain Python, what every crop keeps, and mistakes."""

import math

import numpy as np
import pytest
from random_sizes import size_of

from stoker import ops
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import BboxSafeRandomCrop, ParameterError
from stoker.ops.contract.states import State
from stoker.ops.testing import structured
from stoker.pipeline import pipeline
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, UsageError
from stoker.protocol.item_fields import ItemField
from stoker.rng.draws import integers
from stoker.rng.streams import make_key, stream_key

CHOICES = [BboxSafeRandomCrop(), BboxSafeRandomCrop(0.2), BboxSafeRandomCrop(erosion_rate=0.5)]


def boxes(seed, size, spread=0.4):
    """Up to five boxes of an image, corners anywhere."""
    noise = np.random.default_rng(seed)
    middle = noise.uniform(0, 1, (int(noise.integers(1, 6)), 1, 2))
    at = (middle + noise.uniform(-spread, spread, (len(middle), 2, 2))).clip(0, 1)
    at = at * [size[1], size[0]]
    return np.hstack([at.min(1), at.max(1)]).astype(np.float32)


def draw(op, seed, size, corners):
    key = make_key(3, stream_key(op.name), seed, 1)
    record = structured(op.record)
    words = np.ascontiguousarray(corners).view(np.uint32)
    op.draw(key, structured(op.parameters, op.params()), *size, record, words)
    return key, record.tolist()


def oracle(op, key, height, width, corners):
    """The rule in exact Python numbers, with the draws that the documentation names."""
    x0, y0, x1, y1 = corners.astype(np.float64).T
    wide, tall = op.erosion_rate * (x1 - x0), op.erosion_rate * (y1 - y0)
    if len(corners):
        top, left = math.floor(min(y0 + tall)), math.floor(min(x0 + wide))
        top, left = min(top, height - 1), min(left, width - 1)
        bottom = max(math.ceil(max(y1 - tall)), top + 1)
        right = max(math.ceil(max(x1 - wide)), left + 1)
    else:
        top, left = integers(key, 4, height), integers(key, 5, width)
        bottom, right = top + 1, left + 1
    y, x = integers(key, 0, top + 1), integers(key, 1, left + 1)
    end = bottom + integers(key, 2, height - bottom + 1)
    return y, x, end - y, right + integers(key, 3, width - right + 1) - x


@pytest.mark.parametrize("op", CHOICES)
def test_the_rule(op):
    for seed in range(200):
        size = size_of(seed)
        corners = boxes(seed, size) if seed % 10 else np.zeros((0, 4), np.float32)
        key, record = draw(op, seed, size, corners)
        assert record == oracle(op, key, *size, corners), seed


@pytest.mark.parametrize("op", CHOICES)
def test_every_crop_keeps_what_must_stay_of_each_box(op):
    """Of a box at most the rate is cut off on each side; without erosion nothing is."""
    cut = 0
    for seed in range(200):
        size = size_of(seed)
        corners = boxes(seed, size).astype(np.float64)
        _, (top, left, height, width) = draw(op, seed, size, corners.astype(np.float32))
        assert 0 <= top < top + height <= size[0]
        assert 0 <= left < left + width <= size[1]
        sides = np.tile(corners[:, 2:] - corners[:, :2], 2)
        crop = [left, top, left + width, top + height]
        lost = (crop - corners) * [1, 1, -1, -1]
        assert (lost <= op.erosion_rate * sides + 1e-9).all(), seed
        cut += int((lost > 1e-6).any())
    assert (cut > 20) == (op.erosion_rate > 0)


def test_all_safe_crops_are_equally_likely():
    corners = np.array([[2, 3, 4, 4], [3, 3.5, 5.5, 4]], np.float32)
    seen = {}
    for seed in range(6000):
        _, record = draw(BboxSafeRandomCrop(), seed, (5, 7), corners)
        seen[record] = seen.get(record, 0) + 1
    assert len(seen) == 4 * 2 * 3 * 2, "4 tops, 2 bottoms, 3 lefts, 2 rights"
    assert min(seen.values()) > 80
    assert max(seen.values()) < 175


def test_an_image_without_boxes_is_cropped_anywhere():
    """For every rate; each pixel is in some crop, and no pixel in all."""
    covered = np.zeros((30, 40), int)
    for seed in range(400):
        _, (top, left, height, width) = draw(CHOICES[0], seed, (30, 40), np.zeros((0, 4), "f4"))
        covered[top : top + height, left : left + width] += 1
    assert covered.min() > 0
    assert covered.max() < 400


def test_damaged_boxes_do_not_count():
    bad = np.array([[np.nan, 0, 9, 9], [9, 9, 1, 1], [0, np.nan, 9, np.nan]], np.float32)
    good = np.array([[30, 20, 40, 28]], np.float32)
    none = np.zeros((0, 4), np.float32)
    for seed in range(40):
        alone, both = (
            draw(CHOICES[0], seed, (50, 60), b)[1] for b in (good, np.vstack([bad, good]))
        )
        assert both == alone
        alone, both = (draw(CHOICES[0], seed, (50, 60), b)[1] for b in (none, bad))
        assert both == alone
    endless = np.array([[-np.inf, -9, np.inf, 900]], np.float32)
    for op in CHOICES[:2]:
        _, (top, left, height, width) = draw(op, 0, (50, 60), endless)
        assert top <= 50 * op.erosion_rate
        assert top + height >= 50 * (1 - op.erosion_rate)
        assert left <= 60 * op.erosion_rate
        assert left + width >= 60 * (1 - op.erosion_rate)
    outside = np.array([[-20, -20, -10, -10]], np.float32)
    assert draw(CHOICES[0], 0, (50, 60), outside)[1][:2] == (0, 0)


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_image_and_mask_are_the_same_part(run_op, noise, arithmetic, dtype):
    image, mask = noise((40, 50, 3)).astype(dtype), noise((40, 50), 1, "uint16")
    op = BboxSafeRandomCrop()
    record = structured(op.record, np.array((7, 11, 20, 30), op.record))
    values = [("image", image), ("mask", mask)]
    done = run_op(op, values, record=record, arithmetic=arithmetic)
    assert np.array_equal(done.outputs[0], image[7:27, 11:41])
    assert np.array_equal(done.outputs[1], mask[7:27, 11:41])


@pipeline
def train(sample):
    image, mask, boxes = ops.bbox_safe_random_crop(sample.image, sample.mask, sample.boxes)
    image, mask, boxes = ops.resize(image, mask, boxes, size=(32, 32))
    return {"image": image, "mask": mask, "boxes": boxes}


def test_no_sample_loses_a_box(noise):
    image, mask = noise((60, 80, 3)), noise((60, 80), 1)
    at = [[10, 10, 20, 25], [30.5, 12.25, 44, 50], [0, 0, 3, 3], [70, 50, 80, 60]]
    for count in (2, 4):
        for number in range(12):
            given = {"xyxy": at[:count], "label": list(range(count))}
            row = train({"image": image, "mask": mask, "boxes": given}, id=number)
            assert row["boxes"]["label"].tolist() == list(range(count))
            assert row["boxes"]["xyxy"].max() <= 32


STATES = {
    "image": State("image", "uint8", (None, None, 3), (90, 90, 3)),
    "boxes": State.ragged("boxes", (ItemField("xyxy", "float32", 4),), 9, "image"),
}


def test_without_boxes_in_the_call_the_pipeline_is_refused():
    def alone(sample):
        image = ops.bbox_safe_random_crop(sample.image)
        return {"image": ops.resize(image, size=(8, 8))}

    said = r"bbox_safe_random_crop decides from boxes: call it with an image or mask first"
    with pytest.raises(BuildError, match=said):
        bind(pipeline(alone).graph(), STATES)
    with pytest.raises(UsageError, match="expected items, the boxes it decides from"):
        BboxSafeRandomCrop().sample(50, 60)


@pytest.mark.parametrize("rate", [-0.1, 0.51, 1, "0.2", None, True])
def test_bad_rates(rate):
    said = "bbox_safe_random_crop: expected erosion_rate to be a number from 0 to 0.5, got"
    with pytest.raises(ParameterError, match=said):
        BboxSafeRandomCrop(rate)
