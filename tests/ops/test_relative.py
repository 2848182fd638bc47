"""Records carried over to another size, in parts of the sides, against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from stoker import ops
from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import registered
from stoker.ops._testing.memory import structured
from stoker.ops._testing.runner import OpRunner
from stoker.ops.contract.relative import keep_record, one_ratio, require_ratio, rescale_box

SIZES = [(64, 80), (32, 40), (63, 79), (31, 40), (200, 33), (7, 300), (1, 9), (2, 2), (1, 1)]
BOXES = (
    "bbox_safe_random_crop",
    "crop_around_box",
    "erase",
    "fit_bucket",
    "iou_crop",
    "random_resized_crop",
)
OF_ANY_SIZE = {
    *(name for name, cls in registered().items() if cls.__module__.startswith("stoker.ops.color.")),
    "cast", "clip", "downscale", "from_float", "grid_distortion", "horizontal_flip",
    "jpeg_compression", "layout", "mirror", "normalize", "one_hot", "optical_distortion", "resize",
    "resize_long", "resize_short", "rot90",
    "sharpness", "to_float", "transpose", "vertical_flip", "window",
}  # fmt: skip
OF_ONE_RATIO = {"letterbox", "rotate", "rotate_expand", "safe_rotate"}
CARRIED = {
    *BOXES,
    "affine",
    "coarse_dropout",
    "perspective",
    "random_short_side_scale",
    "scale_jitter",
    "zoom_out",
}
MADE = {
    "affine": ops.Affine(20, translate=(0.4, 0.3)),
    "bbox_safe_random_crop": ops.BboxSafeRandomCrop(),
    "crop_around_box": ops.CropAroundBox(margin=0.2),
    "coarse_dropout": ops.CoarseDropout((1, 3), (0.01, 1), (0.01, 1), p=1.0),
    "erase": ops.Erase(p=1.0, scale=(0.02, 0.9)),
    "fit_bucket": ops.FitBucket((24, 40), crop="random"),
    "iou_crop": ops.IouCrop(),
    "perspective": ops.Perspective(0.6, p=0.8),
    "random_resized_crop": ops.RandomResizedCrop(24),
    "random_short_side_scale": ops.RandomShortSideScale((10, 90), 120),
    "scale_jitter": ops.ScaleJitter(40),
    "zoom_out": ops.ZoomOut((1.0, 1.15)),
}


def nearest(at, before, after):
    return math.floor(Fraction(int(at) * after, before) + Fraction(1, 2))


def draw(op, size, key):
    return OpRunner().draw(op, key, *size, arithmetic=PLAIN, items=key)


def rescaled(op, record, before, after, arithmetic):
    """Return whether there is a record for another size, and that record."""
    params, other = structured(op.parameters, op.params()), structured(op.record, record.copy())
    rule = compiled(op.rescale) if arithmetic.is_compiled else op.rescale
    return bool(rule(params, other, (*before, *after))), other


def every(name, keys=20):
    """Yield (op, record, size that it was drawn for, another size, its record there)."""
    op = MADE[name]
    for before in SIZES:
        for key in range(keys):
            record = draw(op, before, key)
            for after in SIZES:
                yield op, record, before, after, rescaled(op, record, before, after, PLAIN)


def test_every_op_says_what_its_record_means_at_another_size():
    """Of the others a record is in pixels, or one number for each pixel."""
    ruled = {name: cls.rescale for name, cls in registered().items()}
    assert {n for n, rule in ruled.items() if rule is keep_record} == OF_ANY_SIZE
    assert {n for n, rule in ruled.items() if rule is require_ratio} == OF_ONE_RATIO
    others = {n for n, rule in ruled.items() if rule not in (None, keep_record, require_ratio)}
    assert others == CARRIED == set(MADE)


@pytest.mark.parametrize("name", sorted(MADE))
def test_compiled_and_plain_give_the_same_record(name):
    for op, record, before, after, (fits, plain) in every(name, 6):
        assert rescaled(op, record, before, after, COMPILED) == (fits, plain), (before, after)


@pytest.mark.parametrize("name", sorted(MADE))
def test_at_its_own_size_a_record_stays(name):
    for _, record, before, after, (fits, other) in every(name):
        if before == after:
            assert fits
            assert other == record


@pytest.mark.parametrize("name", BOXES)
def test_edges_of_a_box_go_to_the_nearest_edge(name):
    seen = 0
    for _, record, before, after, (fits, other) in every(name):
        assert fits
        for first, count, old, new in zip(
            ("top", "left"), ("height", "width"), before, after, strict=True
        ):
            start, end = (
                nearest(e, old, new) for e in (record[first], record[first] + record[count])
            )
            got = int(other[first]), int(other[first]) + int(other[count])
            if name == "erase" and record["height"] == 0:
                assert got == (0, 0)
                continue
            assert 0 <= got[0] < got[1] <= new
            if start < end:
                assert got == (start, end)
            else:
                assert got[1] == got[0] + 1
                assert abs(got[0] - start) <= 1
            seen += 1
    assert seen > 1000


def test_each_box_of_coarse_dropout_goes_as_a_box_alone():
    names = ("top", "left", "height", "width")
    seen = 0
    for _, record, before, after, (fits, other) in every("coarse_dropout"):
        assert fits
        for k in range(0, 4 * int(record["count"]), 4):
            alone = dict(zip(names, np.int64(record["boxes"][k : k + 4]), strict=True))
            rescale_box(None, alone, (*before, *after))
            assert [int(alone[name]) for name in names] == list(other["boxes"][k : k + 4])
            seen += 1
        assert list(other["boxes"][k + 4 :]) == list(record["boxes"][k + 4 :])
    assert seen > 500


def test_a_shift_goes_to_the_nearest_pixel():
    for _, record, before, after, (fits, other) in every("affine"):
        assert fits == one_ratio((*before, *after))
        assert other["translate_x"] == nearest(record["translate_x"], before[1], after[1])
        assert other["translate_y"] == nearest(record["translate_y"], before[0], after[0])
        for name in ("angle", "scale", "shear_x", "shear_y"):
            assert other[name] == record[name]


def test_corners_move_by_the_same_part_of_the_sides():
    moved = 0
    for op, record, before, after, (_, other) in every("perspective"):
        assert other["applied"] == (record["applied"] and min(after) > 1)
        for corner, (right, low) in enumerate([(0, 0), (1, 0), (1, 1), (0, 1)]):
            for axis, far in ((1, right), (0, low)):
                place = 2 * corner + (axis == 0)
                old, new = before[axis] - 1, after[axis] - 1
                move = old - record["corners"][place] if far else record["corners"][place]
                most = math.floor(op.distortion_scale * new / 2)
                expected = min(nearest(move, old + 1, new + 1), most)
                got = new - other["corners"][place] if far else other["corners"][place]
                assert got == expected
                moved += expected > 0
    assert moved > 1000


def test_a_canvas_holds_its_picture_and_keeps_to_its_bound():
    for op, record, before, after, (fits, other) in every("zoom_out"):
        assert fits
        for axis, (side, first) in enumerate((("height", "top"), ("width", "left"))):
            canvas, most = int(other[side]), math.floor(after[axis] * op.side_range[1])
            exact = Fraction(int(record[side]) * after[axis], before[axis])
            assert canvas == max(min(math.floor(exact), most), after[axis])
            start = nearest(record[first], before[axis], after[axis])
            assert other[first] == min(start, canvas - after[axis])
            assert other[first] >= 0


def test_the_drawn_length_counts_for_each_shorter_side():
    """As torchvision's Resize of that length, and of at most that longer side."""
    for op, record, _, after, (fits, other) in every("random_short_side_scale"):
        short, long = sorted(after)
        size = [int(record["size"])]
        size.append(long * size[0] // short)
        if size[1] > op.max_size:
            size = [max(op.max_size * size[0] // size[1], 1), op.max_size]
        assert fits
        assert other["size"] == record["size"]
        assert sorted((int(other["height"]), int(other["width"]))) == size
        assert (other["height"] <= other["width"]) == (after[0] <= after[1])


@pytest.mark.parametrize(
    ("sizes", "one"),
    [
        ((375, 500, 188, 250), True),  # rounded up
        ((375, 500, 187, 250), True),  # rounded down
        ((375, 500, 375, 500), True),
        ((375, 500, 750, 1000), True),
        ((375, 500, 185, 250), False),
        ((375, 500, 250, 188), False),
        ((1, 1, 1, 3), False),
        ((3, 3, 7, 8), True),
    ],
)
def test_one_ratio_is_that_of_sides_rounded_to_pixels(sizes, one):
    assert one_ratio(sizes) is one
    assert bool(compiled(one_ratio)(sizes)) is one


@pytest.mark.parametrize("name", sorted(OF_ONE_RATIO))
@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_what_turns_or_fits_takes_one_ratio(name, arithmetic):
    made = {
        "rotate": ops.Rotate, "rotate_expand": ops.RotateExpand, "safe_rotate": ops.SafeRotate,
        "letterbox": ops.Letterbox,
    }  # fmt: skip
    op = made[name](32)
    record = draw(op, (30, 40), 3)
    before = record.tobytes()
    assert rescaled(op, record, (30, 40), (15, 20), arithmetic)[0]
    fits, other = rescaled(op, record, (30, 40), (40, 30), arithmetic)
    assert not fits
    assert other.tobytes() == before
