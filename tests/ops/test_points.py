"""Boxes and keypoints go where the pixels go, for every op that says where points come to lie.

Truth is what the mask kernels do to numbered pixels; OpenCV maps the corners of boxes. Golden
hashes of what comes out are frozen in tests/golden/items.json:

    STOKER_WRITE_GOLDEN=1 python -m pytest tests/ops/test_points.py
"""

import hashlib
import json
import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.jit import compiled
from stoker.jit.arithmetic import PLAIN
from stoker.ops import (
    ConvertBoxes,
    ConvertKeypoints,
    FilterBoxes,
    HorizontalFlip,
    State,
    StateError,
    TrackVisible,
    make,
    registered,
)
from stoker.ops._testing.check_items import FIRST, SIZES, compare_places, decide, places
from stoker.ops.contract.rules import visible_word
from stoker.ops.contract.states import ITEM_KINDS
from stoker.ops.kernels.points import MOVERS, inverse, move_boxes, scaled, turned
from stoker.ops.testing import check_op, structured
from stoker.protocol.item_fields import ItemField, item_words
from stoker.protocol.ragged import pack_items, unpack_items

GOLDEN = Path(__file__).parents[1] / "golden" / "items.json"
COVERS = {"coarse_dropout", "erase", "grid_mask"}
EXACT = {
    "center_crop", "horizontal_flip", "pad", "pad_to_size", "random_crop", "rot90", "transpose",
    "vertical_flip", "zoom_out",
}  # fmt: skip
BOXES = (ItemField("xyxy", "float32", 4), ItemField("label", "int64"))
POINTS = (ItemField("xy", "float32", 2), ItemField("person", "int16"))
FIELDS = {"boxes": BOXES, "keypoints": POINTS}
STATE = State.ragged("boxes", BOXES, 9)
FOR_BOXES = {
    "convert_boxes": [{"form": "xywh"}, {"form": "cxcywh"}],
    "filter_boxes": [{"min_area": 90, "min_side": 4}, {"min_visible": 0.5}],
    "track_visible": [{}],
}
"""Examples of ops that have a rule for boxes alone."""


def moves(op):
    """Return whether the op has a rule for boxes and keypoints."""
    return op.forward is not None


def fits(op, size):
    """Return whether an example takes an image of that size."""
    try:
        op.declare((State.fixed("mask", "int32", size),))
    except StateError:
        return False
    return True


def numbered(size):
    return np.arange(FIRST, FIRST + size[0] * size[1], dtype=np.int32).reshape(size)


def test_every_op_that_moves_masks_says_where_points_come_to_lie():
    ours = {name: op for name, op in registered().items() if op.__module__.startswith("stoker.")}
    joint = {name for name, op in ours.items() if "mask" in op.kernels}
    moving = {name for name, op in ours.items() if op.forward is not None}
    bent = {name for name in joint - moving if set(ours[name].items) == set(ITEM_KINDS)}
    assert bent == {"grid_distortion", "optical_distortion"}
    assert joint - moving - bent == {"cast", "elastic", "one_hot"}
    assert moving <= joint
    for name in moving:
        assert set(ITEM_KINDS) <= set(ours[name].kinds())


def test_points_lie_where_their_pixels_are(example, run_op):
    """The middle of an output pixel comes from inside of the very pixel that the mask took."""
    if not moves(example):
        return
    compared = 0
    for key, size in enumerate(SIZES):
        if not fits(example, size):
            continue
        params, record, sizes = decide(example, size, key)
        (mask,) = run_op(
            example, [("mask", numbered(size))], record=record, arithmetic=PLAIN
        ).outputs
        numbers = example.forward(params, record, sizes)
        agree, disagree = compare_places(numbers, size, mask)
        assert not disagree
        compared += agree
        if example.name not in COVERS:
            back = inverse(numbers)
            y, x = np.mgrid[: sizes[2], : sizes[3]] + 0.5
            u, v, seen = places(back, x, y)
            inside = (u > 1e-3) & (u < size[1] - 1e-3) & (v > 1e-3) & (v < size[0] - 1e-3)
            assert (mask[inside & seen] >= FIRST).all()
    assert compared > 200


def whole_boxes(size, seed, count=6):
    """Boxes with whole corners, and labels."""
    noise = np.random.default_rng(seed)
    x = np.sort(noise.integers(0, size[1] + 1, (count, 2)), 1)
    y = np.sort(noise.integers(0, size[0] + 1, (count, 2)), 1)
    corners = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], 1).astype(np.float32)
    return pack_items(BOXES, {"xyxy": corners, "label": np.arange(count) * 2**33})


def moved(op, boxes, rest, kind="boxes"):
    params, record, sizes = rest
    out = np.full((len(boxes) + 2, boxes.shape[1]), 0xA5A5A5A5, np.uint32)
    before = boxes.copy()
    count = MOVERS[kind](boxes, out, op.forward(params, record, sizes), sizes, 0)
    assert (out[count:] == 0xA5A5A5A5).all(), "wrote more than it says"
    assert (boxes == before).all(), "changed its source"
    return unpack_items(FIELDS[kind], out[:count])


def test_a_painted_box_is_where_the_box_says(example, run_op):
    """All painted pixels are in the moved box; if pixels stay whole, it fits them exactly."""
    if not moves(example) or example.name in COVERS:
        return
    seen = 0
    for key, size in enumerate(SIZES):
        if not fits(example, size):
            continue
        rest = decide(example, size, key)
        (mask,) = run_op(
            example, [("mask", numbered(size))], record=rest[1], arithmetic=PLAIN
        ).outputs
        if getattr(example, "mode", "constant") != "constant":
            top, left = example.padding[0], example.padding[2]
            alone = np.zeros_like(mask)
            alone[top : top + size[0], left : left + size[1]] = 1
            mask = np.where(alone, mask, 0)
        boxes = whole_boxes(size, key)
        found = moved(example, boxes, rest)
        left_over = dict(zip(found["label"].tolist(), found["xyxy"].tolist(), strict=True))
        given_boxes = unpack_items(BOXES, boxes)
        row, column = np.divmod(mask - FIRST, size[1])
        for corners, label in zip(*given_boxes.values(), strict=True):
            x0, y0, x1, y1 = corners
            painted = (column >= x0) & (column < x1) & (row >= y0) & (row < y1) & (mask >= FIRST)
            ys, xs = np.nonzero(painted)
            if not len(xs):
                if example.name in EXACT and x0 < x1 and y0 < y1:
                    assert int(label) not in left_over
                continue
            left, top, right, bottom = left_over[int(label)]
            near = 1e-3
            assert left - near <= xs.min() + 0.5 <= xs.max() + 0.5 <= right + near
            assert top - near <= ys.min() + 0.5 <= ys.max() + 0.5 <= bottom + near
            if example.name in EXACT:
                exact = [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
                assert [left, top, right, bottom] == exact
            seen += 1
    assert seen > 3


def test_boxes_and_keypoints_as_opencv_maps_them(example):
    if not moves(example):
        return
    for key, size in enumerate(SIZES):
        if not fits(example, size):
            continue
        params, record, sizes = decide(example, size, key)
        matrix = np.array(example.forward(params, record, sizes)).reshape(3, 3)
        noise = np.random.default_rng(key)
        at = noise.uniform(0, 1, (40, 2, 2)) * [size[1], size[0]]
        corners = np.hstack([at.min(1), at.max(1)]).astype(np.float32)
        four = corners[:, [0, 1, 2, 1, 2, 3, 0, 3]].astype(np.float64).reshape(-1, 1, 2)
        mapped = cv2.perspectiveTransform(four, matrix).reshape(-1, 4, 2)
        most = np.array([sizes[3], sizes[2]])
        low, high = mapped.min(1).clip(0, most), mapped.max(1).clip(0, most)
        stays = (low < high).all(1)
        words = pack_items(BOXES, {"xyxy": corners, "label": np.arange(40)})
        found = moved(example, words, (params, record, sizes))
        assert found["label"].tolist() == np.flatnonzero(stays).tolist()
        assert np.allclose(found["xyxy"], np.hstack([low, high])[stays], atol=2e-3)
        points = at[:, 0].astype(np.float32)
        mapped = cv2.perspectiveTransform(points.astype(np.float64)[:, None], matrix)[:, 0]
        stays = ((mapped >= 0) & (mapped <= most)).all(1)
        words = pack_items(POINTS, {"xy": points, "person": np.arange(40, dtype=np.int16)})
        found = moved(example, words, (params, record, sizes), "keypoints")
        assert found["person"].tolist() == np.flatnonzero(stays).tolist()
        assert np.allclose(found["xy"], mapped[stays], atol=2e-3)


@pytest.mark.slow
@pytest.mark.timeout(300)  # where the cache is cold it compiles every op's `forward`
def test_compiled_is_plain(examples):
    for name, choices in examples.items():
        for op in (make(name, params) for params in choices):
            if not moves(op):
                continue
            for key, size in enumerate(SIZES):
                rest = decide(op, size, key)
                fast = compiled(op.forward)(*rest)
                assert np.array(fast).tobytes() == np.array(op.forward(*rest), float).tobytes(), (
                    name
                )


FLIP = scaled(-1.0, 1.0, 80.0, 0.0)
COORDINATE = st.floats(0, 80, width=32)


@given(st.lists(st.tuples(COORDINATE, COORDINATE, COORDINATE, COORDINATE), max_size=5))
def test_a_flip_keeps_every_box_even_one_without_area(corners):
    at = np.array(corners, np.float32).reshape(-1, 2, 2)
    at = np.hstack([at.min(1), at.max(1)])
    words = pack_items(BOXES[:1], {"xyxy": at})
    out = np.zeros_like(words)
    assert move_boxes(words, out, FLIP, (80, 80, 80, 80), 0) == len(at)
    expected = np.stack([80 - at[:, 2], at[:, 1], 80 - at[:, 0], at[:, 3]], 1)
    assert np.array_equal(out.view(np.float32), expected)


@pytest.mark.parametrize(
    ("box", "left"),
    [
        ((-10, 5, 0, 15), None),
        ((-10, 5, 1, 15), [0, 5, 1, 15]),
        ((80, 5, 90, 15), None),
        ((79, 5, 90, 15), [79, 5, 80, 15]),
        ((5, -10, 15, 0), None),
        ((5, -10, 15, 1), [5, 0, 15, 1]),
        ((5, 60, 15, 70), None),
        ((5, 59, 15, 70), [5, 59, 15, 60]),
        ((0, 5, 0, 15), [0, 5, 0, 15]),
        ((80, 5, 80, 15), [80, 5, 80, 15]),
        ((5, 60, 15, 60), [5, 60, 15, 60]),
        ((-1, 5, -1, 15), None),
        ((81, 5, 81, 15), None),
    ],
)
def test_a_box_that_only_touches_the_image_is_left_out(box, left):
    """One without width or height stays on the edge: it has lost nothing."""
    words = pack_items(BOXES[:1], {"xyxy": np.array([box], np.float32)})
    out = np.zeros_like(words)
    same = scaled(1.0, 1.0, 0.0, 0.0)
    count = move_boxes(words, out, same, (60, 80, 60, 80), 0)
    assert out.view(np.float32)[:count].tolist() == ([] if left is None else [left])


def test_four_quarter_turns_are_none():
    corners = np.array([[1, 2, 3.5, 9], [0, 0, 30, 20]], np.float32)
    words, size = pack_items(BOXES[:1], {"xyxy": corners}), (20, 30)
    for _ in range(4):
        out = np.zeros_like(words)
        sizes = (*size, *size[::-1])
        assert move_boxes(words, out, turned(1, *size), sizes, 0) == 2
        words, size = out, size[::-1]
    assert np.array_equal(words.view(np.float32), corners)


def test_what_has_no_place_is_left_out():
    """A map that takes a corner behind the viewer, and one that has no inverse."""
    words = pack_items(BOXES[:1], {"xyxy": np.array([[0, 0, 10, 10]], np.float32)})
    behind = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, -0.2, 0.0, 1.0)
    nowhere = inverse((0.0,) * 9)
    for numbers in (behind, nowhere):
        assert move_boxes(words, np.zeros_like(words), numbers, (10, 10, 10, 10), 0) == 0


def apply(op, state, boxes):
    """Apply an op of boxes alone; return the fields of what it leaves."""
    after = op.declare_items(state)
    dst = np.zeros((len(boxes) + 1, item_words(after.items)), np.uint32)
    params = structured(op.parameters, op.params())
    count = op.items["boxes"].run(boxes, dst, params, structured(op.record), (0, 0, 0, 0))
    return after, dst[:count]


def test_convert_boxes():
    corners = np.array([[1, 2, 4, 8], [0, 0, 0, 0], [3.5, 1, 5, 2]], np.float32)
    boxes = pack_items(BOXES, {"xyxy": corners, "label": np.array([-1, 2, 3])})
    expected = {
        "xywh": [[1, 2, 3, 6], [0, 0, 0, 0], [3.5, 1, 1.5, 1]],
        "cxcywh": [[2.5, 5, 3, 6], [0, 0, 0, 0], [4.25, 1.5, 1.5, 1]],
    }
    for form, values in expected.items():
        after, out = apply(ConvertBoxes(form), STATE, boxes)
        found = unpack_items(after.items, out)
        assert found[form].tolist() == values
        assert found["label"].tolist() == [-1, 2, 3]


def test_flipped_keypoints_name_the_flipped_pixels():
    """As indices of pixels, points go where the pixels go: x to width - 1 - x."""
    points = np.array([[0, 0], [49, 39], [12, 7]], np.float32)
    words = pack_items(POINTS, {"xy": points + 0.5, "person": np.arange(3, dtype=np.int16)})
    size = (40, 50, 40, 50)
    record = structured(HorizontalFlip.record)
    record["flip"] = 1
    out = np.zeros_like(words)
    forward = HorizontalFlip.forward(None, record, size)
    assert MOVERS["keypoints"](words, out, forward, size, 0) == 3
    after = ConvertKeypoints().declare_items(State.ragged("keypoints", POINTS, 9))
    dst = np.zeros_like(out)
    run = ConvertKeypoints.items["keypoints"].run
    assert run(out, dst, None, None, size) == 3
    found = unpack_items(after.items, dst)
    marks = np.zeros(size[:2], np.uint8)
    for number, (x, y) in enumerate(points.astype(int)):
        marks[y, x] = number + 1
    marks = cv2.flip(marks, 1)
    for number, (x, y) in enumerate(found["pixel_xy"].tolist()):
        assert marks[int(y), int(x)] == number + 1
        assert x == int(x)
    assert found["person"].tolist() == [0, 1, 2]


@pytest.mark.slow
def test_ops_of_boxes_alone_keep_the_contract():
    for op in (ConvertBoxes("cxcywh"), ConvertBoxes("xywh"), FilterBoxes(30, 4), TrackVisible()):
        check_op(op)
    check_op(ConvertKeypoints())


def test_filter_boxes():
    corners = np.array([[0, 0, 10, 1], [0, 0, 4, 4], [5, 5, 9, 7], [1, 1, 1, 9]], np.float32)
    boxes = pack_items(BOXES, {"xyxy": corners, "label": np.arange(4)})

    def left(**limits):
        _, out = apply(FilterBoxes(**limits), STATE, boxes)
        return unpack_items(BOXES, out)["label"].tolist()

    assert left() == [0, 1, 2, 3]
    assert left(min_area=10) == [0, 1]
    assert left(min_area=10.5) == [1]
    assert left(min_side=2) == [1, 2]
    assert left(min_side=2, min_area=9) == [1]


def test_visible_part_counts_what_crops_cut_off():
    tracked, _ = apply(TrackVisible(), STATE, whole_boxes((40, 40), 1))
    word = visible_word(tracked)
    assert word == tracked.shape[1] - 1
    corners = np.array([[0, 0, 20, 10], [10, 10, 30, 30], [19, 0, 21, 40]], np.float32)
    columns = {"xyxy": corners, "label": np.arange(3), "visible_part": np.ones(3, np.float32)}
    words = pack_items(tracked.items, columns)
    first, second = np.zeros_like(words), np.zeros_like(words)
    assert move_boxes(words, first, scaled(1.0, 1.0, 0.0, 0.0), (40, 40, 40, 20), word) == 3
    found = unpack_items(tracked.items, first)["visible_part"]
    assert found.tolist() == [1.0, 0.5, 0.5]
    assert move_boxes(first, second, scaled(2.0, 2.0, 0.0, -40.0), (40, 20, 40, 40), word) == 2
    found = unpack_items(tracked.items, second[:2])
    assert found["label"].tolist() == [1, 2]
    assert found["visible_part"].tolist() == [0.25, 0.25]
    _, out = apply(FilterBoxes(min_visible=0.25), tracked, second[:2])
    assert len(out) == 2
    _, out = apply(FilterBoxes(min_visible=0.26), tracked, second[:2])
    assert len(out) == 0


def tracked_boxes(corners, visible):
    state = State.ragged("boxes", (BOXES[0], ItemField("visible_part", "float32")), 99)
    return state, pack_items(state.items, {"xyxy": corners, "visible_part": visible})


def kept_by(state, words, **limits):
    return len(apply(FilterBoxes(**limits), state, words)[1])


@pytest.mark.parametrize("cuts", [1, 2, 3])
def test_boxes_of_which_exactly_the_least_part_is_visible_stay(cuts):
    """Of 100 columns n remain: cut at once, or by turns, where each cut rounds the field."""
    for n in range(1, 100):
        state, words = tracked_boxes(np.float32([[0, 0, 100, 100]]), np.float32([1]))
        side = 100
        for cut in range(1, cuts + 1):
            after = n if cut == cuts else side - (100 - n) // cuts
            into = np.zeros_like(words)
            stay = scaled(1.0, 1.0, 0.0, 0.0)
            assert move_boxes(words, into, stay, (100, side, 100, after), state.shape[1] - 1) == 1
            words, side = into, after
        assert kept_by(state, words, min_visible=n / 100) == 1, n
        assert kept_by(state, words, min_visible=n / 100 + 1e-6) == 0, n


def test_boxes_of_exactly_the_least_side_or_area_stay():
    """A box that a resize to n/100 made 10 n/100 pixels wide, wherever it is in the image."""
    for left in (0, 30, 2000):
        corners = np.float32([[left, 0, left + 10, 10]])
        for n in range(1, 100):
            state, words = tracked_boxes(corners, np.float32([1]))
            into = np.zeros_like(words)
            move_boxes(words, into, scaled(n / 100, n / 100, 0.0, 0.0), (100, 2500) * 2, 0)
            side = n / 10
            assert kept_by(state, into, min_side=side) == 1, (left, n)
            assert kept_by(state, into, min_area=side * side) == 1, (left, n)
            assert kept_by(state, into, min_side=side + 0.005) == 0, (left, n)
            assert kept_by(state, into, min_area=(side + 0.005) ** 2) == 0, (left, n)


def test_empty_boxes_get_no_allowance():
    flat = np.float32([[4000, 7, 4000, 9], [4000, 7, 4001, 7], [9, 9, 8.999999, 20]])
    state, words = tracked_boxes(flat, np.ones(3, np.float32))
    assert kept_by(state, words, min_side=1e-6) == 0
    assert kept_by(state, words, min_area=1e-9) == 0


def left_by(op, state, items, rest):
    """Fields of what an op leaves, by its kernel where it has one."""
    if state.kind not in op.items:
        return moved(op, items, rest, state.kind)
    after = op.declare_items(state)
    out = np.zeros(after.bound, np.uint32)
    visible = (0,) if op.items[state.kind].visible else ()
    count = op.items[state.kind].run(items, out, *rest, *visible)
    return unpack_items(after.items, out[:count])


def hashes(op):
    """Digest of boxes and keypoints after the op, over sizes and keys."""
    digests = {kind: hashlib.blake2b(digest_size=16) for kind in ITEM_KINDS if kind in op.kinds()}
    for key, size in enumerate(SIZES):
        rest = decide(op, size, key)
        i = np.arange(30)
        x, y = (i * 37 % 101) / 101 * size[1], (i * 53 % 97) / 97 * size[0]
        wide, tall = (size[1] - x) * (i % 7) / 7, (size[0] - y) * (i % 5) / 5
        corners = np.stack([x, y, x + wide, y + tall], 1).astype(np.float32)
        columns = {"xyxy": corners, "label": i, "xy": corners[:, :2], "person": i.astype(np.int16)}
        columns["visible_part"] = (i % 8 / 8).astype(np.float32)
        for kind, digest in digests.items():
            seen = (ItemField("visible_part", "float32"),) * bool(getattr(op, "min_visible", 0))
            state = State.ragged(kind, (*FIELDS[kind], *seen), len(i))
            items = pack_items(
                state.items, {field.name: columns[field.name] for field in state.items}
            )
            for array in left_by(op, state, items, rest).values():
                digest.update(array.tobytes())
    return {kind: digest.hexdigest() for kind, digest in digests.items()}


def test_golden(examples):
    found = [
        {"op": name, "params": params, **hashes(make(name, params))}
        for name, choices in sorted((examples | FOR_BOXES).items())
        for params in choices
        if moves(op := make(name, params)) or op.items
    ]
    found = json.loads(json.dumps(found))
    if os.environ.get("STOKER_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert json.loads(GOLDEN.read_text()) == found
