"""Batch ops by themselves: what they draw, how a record is resolved, and pixels, boxes, labels."""

from collections import Counter

import numpy as np
import pytest
import scipy.stats

from stoker import ops
from stoker.jit.arithmetic import PLAIN
from stoker.ops import State
from stoker.ops.bases.batch_op import GROUP, OFFSETS, Mixed, partner, picture_size, tile_ids
from stoker.ops.contract.registry import batch_ops, choices, registered
from stoker.ops.kernels.means import Tools
from stoker.protocol.item_fields import ItemField

IMAGE = State.fixed("image", "uint8", (30, 44, 3))
MASK = State.fixed("mask", "uint8", (30, 44))
PLANAR = State.fixed("array", "float32", (3, 30, 44))
ONE_HOT = State.fixed("array", "float32", (10,))
LABEL = State.fixed("label", "int64", ())


def resolved(op, size, ids, **changes):
    """A record of the op, drawn and resolved, with some fields set before."""
    record = np.zeros(1, op.record)
    for name, value in {**op.sample(0, 0, id=5), **changes}.items():
        record[name] = value
    op.resolve(record, size, ids)
    return record[0]


def mixed(op, state, sources, record):
    dst = np.full(op.mixed(state).bound, 77, state.dtype)
    count = op.mix(Mixed(state, sources, dst), record, Tools(arithmetic=PLAIN))
    return dst[:count] if state.items else dst


def test_they_are_registered_apart():
    assert list(batch_ops()) == ["copy_paste", "cutmix", "mixup", "mosaic", "mosaic_scaled"]
    assert not set(batch_ops()) & (set(registered()) | set(choices()))
    assert ops.make("mixup", {"alpha": 0.2, "p": 1.0}) == ops.Mixup()


@pytest.mark.parametrize("size", range(2, GROUP + 1))
def test_a_partner_is_any_other_member_as_often(size):
    for member in range(size):
        found = Counter(partner(member, offset, size) for offset in range(OFFSETS))
        assert found == {other: OFFSETS // (size - 1) for other in range(size) if other != member}


def test_tiles_are_ids_of_the_dataset():
    assert tile_ids([0, 2**63, 2**64 - 1], 10) == [0, 5, 9]
    assert tile_ids([2**64 - 1], 1) == [0]


@pytest.mark.parametrize(("make", "alpha"), [(ops.Mixup, 0.2), (ops.Mixup, 3.0), (ops.Cutmix, 1.0)])
def test_the_weight_is_beta_distributed(make, alpha):
    drawn = [make(alpha).sample(0, 0, id=number)["lam"] for number in range(1500)]
    assert scipy.stats.kstest(drawn, scipy.stats.beta(alpha, alpha).cdf).pvalue > 1e-3


def test_offsets_and_chance_are_uniform():
    drawn = [ops.Mixup(p=0.3).sample(0, 0, id=number) for number in range(2000)]
    assert 500 < sum(record["applied"] for record in drawn) < 700
    counts = np.bincount([record["offset"] % 7 for record in drawn], minlength=7)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_cutmix_names_the_part_that_really_stays():
    op = ops.Cutmix()
    black, white = np.zeros((30, 44, 3), np.uint8), np.full((30, 44, 3), 255, np.uint8)
    for y, x, lam in [(0.5, 0.5, 0.5), (0.0, 0.0, 0.1), (0.999, 0.3, 0.01), (0.2, 0.9, 0.9999)]:
        record = resolved(op, (30, 44), [9], y=y, x=x, lam=lam)
        got = mixed(op, IMAGE, [black, white], record)
        pasted = got[..., 0] == 255
        assert record["lam"] == pytest.approx(1 - pasted.mean(), abs=1e-12)
        assert record["partner"] == 9
        if pasted.any():
            rows, columns = np.flatnonzero(pasted.any(1)), np.flatnonzero(pasted.any(0))
            assert (rows[0], columns[0]) == (record["top"], record["left"])
            assert (len(rows), len(columns)) == (record["height"], record["width"])
            assert pasted[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        middle = (int(y * 30), int(x * 44))
        reach = (np.sqrt(1 - lam) * 15, np.sqrt(1 - lam) * 22)
        for axis, place in enumerate(np.nonzero(pasted)):
            assert (np.abs(place - middle[axis]) <= reach[axis] + 1).all()


def test_cutmix_pastes_alike_into_every_layout_and_mixes_labels_by_area():
    op = ops.Cutmix()
    rng = np.random.default_rng(0)
    record = resolved(op, (30, 44), [1], y=0.4, x=0.7, lam=0.6)
    own, other = rng.integers(0, 256, (2, 30, 44, 3), np.uint8)
    image = mixed(op, IMAGE, [own, other], record)
    planar = [np.ascontiguousarray(a.transpose(2, 0, 1)).astype(np.float32) for a in (own, other)]
    assert np.array_equal(mixed(op, PLANAR, planar, record), image.transpose(2, 0, 1))
    masks = [np.ascontiguousarray(a[..., 0]) for a in (own, other)]
    assert np.array_equal(mixed(op, MASK, masks, record), image[..., 0])
    labels = np.eye(10, dtype=np.float32)[[2, 7]]
    share = 1 - record["height"] * record["width"] / (30 * 44)
    expected = labels[0] * share + labels[1] * (1 - share)
    assert np.allclose(mixed(op, ONE_HOT, list(labels), record), expected, atol=1e-6)


@pytest.mark.parametrize("op", [ops.Cutmix(), ops.Mixup(), ops.Mosaic()])
def test_images_of_floats_are_mixed_as_the_levels(op):
    state = State.fixed("image", "float32", (30, 44, 3))
    given = np.random.default_rng(1).integers(0, 256, (1 + op.others, 30, 44, 3)).astype(np.uint8)
    record = resolved(op, (30, 44), list(range(op.others)))
    levels = mixed(op, IMAGE, list(given), record)
    floats = mixed(op, state, list(given.astype(np.float32) - 100), record)
    assert op.mixed(state) == state
    assert floats.dtype == np.float32
    assert np.abs(floats + 100 - levels).max() <= (0.51 if op.name == "mixup" else 0)


@pytest.mark.parametrize(("y", "x"), [(0.5, 0.5), (0.0, 1.0), (0.31, 0.77), (1.0, 0.0)])
def test_mosaic_puts_every_pixel_where_the_rule_says(y, x):
    op = ops.Mosaic()
    height, width = 30, 44
    rows, columns = np.mgrid[:height, :width]
    tiles = [
        np.stack([np.full_like(rows, number), rows, columns], 2).astype(np.uint8)
        for number in range(4)
    ]
    record = resolved(op, (height, width), [4, 5, 6], y=y, x=x)
    top, left = round(y * height + 1e-9), round(x * width + 1e-9)
    assert (record["top"], record["left"]) == (top, left)
    got = mixed(op, IMAGE, tiles, record)
    number = 2 * (rows >= top) + (columns >= left)
    from_row = np.where(rows < top, rows + height - top, rows - top)
    from_column = np.where(columns < left, columns + width - left, columns - left)
    assert np.array_equal(got, np.stack([number, from_row, from_column], 2).astype(np.uint8))


@pytest.fixture(scope="module")
def boxes_state():
    fields = (ItemField("xyxy", "float32", 4), ItemField("label", "int32", 1))
    return State.ragged("boxes", fields, 3, "image")


def as_words(corners, labels):
    words = np.empty((len(corners), 5), np.uint32)
    words[:, :4] = np.asarray(corners, np.float32).reshape(-1, 4).view(np.uint32)
    words[:, 4] = np.asarray(labels, np.int32).view(np.uint32)
    return words


def test_mosaic_moves_boxes_as_it_moves_the_mask(boxes_state):
    """Every box is painted into a mask of its tile; after the mosaic it is round what is seen."""
    op, rng = ops.Mosaic(), np.random.default_rng(4)
    height, width = 30, 44
    lost = 0
    for trial in range(60):
        record = resolved(op, (height, width), [4, 5, 6], y=rng.uniform(0, 1), x=rng.uniform(0, 1))
        masks, items, label = [], [], 0
        for _ in range(4):
            mask, corners, labels = np.zeros((height, width), np.uint8), [], []
            for _ in range(trial % 2):
                label += 1
                x0, y0 = rng.integers(0, width - 2), rng.integers(0, height - 2)
                x1, y1 = rng.integers(x0 + 1, width), rng.integers(y0 + 1, height)
                mask[y0:y1, x0:x1] = label
                corners.append((x0, y0, x1, y1))
                labels.append(label)
            masks.append(mask)
            items.append(as_words(corners, labels))
        seen = mixed(op, MASK, masks, record)
        got = mixed(op, boxes_state, items, record)
        found = {}
        for row in got:
            found[int(row[4])] = row[:4].view(np.float32).tolist()
        expected = {}
        for one in range(1, label + 1):
            ys, xs = np.nonzero(seen == one)
            if len(ys):
                expected[one] = [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
        assert found == expected, trial
        lost += label - len(expected)
    assert lost > 20


def test_mosaic_keeps_no_box_of_empty_parts_and_takes_empty_sets(boxes_state):
    op = ops.Mosaic()
    record = resolved(op, (30, 44), [1, 2, 3], y=0.0, x=0.0)
    box, none = as_words([(1, 2, 9, 9)], [7]), as_words([], [])
    assert len(mixed(op, boxes_state, [box, box, box, none], record)) == 0
    assert mixed(op, boxes_state, [none, none, none, box], record).tolist() == box.tolist()


@pytest.mark.parametrize(("form", "part"), [("xywh", 0.0), ("cxcywh", 0.5)])
def test_mosaic_takes_boxes_that_were_converted(boxes_state, form, part):
    """Out of the corners that a mosaic of corners gives, by the formats' definition."""
    rng = np.random.default_rng(5)
    record = resolved(ops.Mosaic(), (30, 44), [4, 5, 6], y=0.4, x=0.6)
    tiles = []
    for number in range(4):
        at = rng.integers(0, 28, (3, 2, 2)).astype(float)
        corners = np.hstack([at.min(1), at.max(1) + 1])
        tiles.append((corners, [3 * number + k for k in range(3)]))
    converted = []
    for corners, labels in tiles:
        size = corners[:, 2:] - corners[:, :2]
        converted.append(as_words(np.hstack([corners[:, :2] + part * size, size]), labels))
    state = State.ragged("boxes", (ItemField(form, "float32", 4), boxes_state.items[1]), 3)
    got = mixed(ops.Mosaic(), state, converted, record)
    expected = mixed(ops.Mosaic(), boxes_state, [as_words(*tile) for tile in tiles], record)
    assert len(expected) > 3
    assert np.array_equal(got[:, 4], expected[:, 4])
    corners = expected[:, :4].copy().view(np.float32)
    size = corners[:, 2:] - corners[:, :2]
    assert np.array_equal(
        got[:, :4].copy().view(np.float32), np.hstack([corners[:, :2] + part * size, size])
    )


def test_mosaic_moves_keypoints_and_leaves_out_those_that_are_cut_off():
    state = State.ragged("keypoints", (ItemField("xy", "float32", 2),), 2, "image")
    record = resolved(ops.Mosaic(), (30, 44), [1, 2, 3], y=0.5, x=0.5)
    points = np.array([[1.5, 2.5], [40.0, 29.0]], np.float32).view(np.uint32)
    got = mixed(ops.Mosaic(), state, [points] * 4, record).view(np.float32)
    assert got.tolist() == [[40 - 22, 29 - 15], [1.5 + 22, 2.5 + 15]]


def test_mixup_keeps_the_items_of_both_rows(boxes_state):
    op = ops.Mixup()
    record = resolved(op, (30, 44), [1])
    one, two = as_words([(1, 2, 9, 9), (0, 0, 3, 3)], [1, 2]), as_words([(5, 5, 6, 6)], [3])
    got = mixed(op, boxes_state, [one, two], record)
    assert got.tolist() == [*one.tolist(), *two.tolist()]
    assert op.mixed(boxes_state).bound == (6, 5)
    assert ops.Mosaic().mixed(boxes_state).bound == (12, 5)


def test_sizes_of_pictures_by_layout():
    shapes = {(3, 30, 44): (30, 44), (30, 44, 3): (30, 44), (30, 44, 21): (30, 44)}
    for shape, size in shapes.items():
        assert picture_size(State.fixed("array", "float32", shape)) == size
    assert picture_size(MASK) == picture_size(IMAGE) == (30, 44)
    assert picture_size(ONE_HOT) is None


def test_mixup_joins_boxes_of_any_format():
    other = State.ragged("boxes", (ItemField("relative_xyxy", "float32", 4),), 3)
    assert ops.Mixup().mixed(other).bound == (6, 4)
