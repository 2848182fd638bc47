"""Pixel truth of boxes and keypoints over random pipelines: they stay on their pixels.

Every pixel of a mask has a number of its own. A random chain of ops moves mask, boxes and keypoints
by joint decisions; then each pixel that was inside of a box must be in that box, and each keypoint
at the pixel that it was put on. The seed of a failure is in the test's name.
"""

from __future__ import annotations

import numpy as np
import pytest

from stoker.ops.contract.registry import make
from stoker.ops.contract.states import State
from stoker.pipeline import Row, pipeline
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items, unpack_items

BOXES = (ItemField("xyxy", "float32", 4), ItemField("number", "int32"))
POINTS = (ItemField("xy", "float32", 2), ItemField("number", "int32"))
MOST = 40
STATES = {
    "mask": State("mask", "int32", (None, None), (96, 96)),
    "boxes": State.ragged("boxes", BOXES, MOST, "mask"),
    "points": State.ragged("keypoints", POINTS, MOST, "mask"),
}
STEPS = {
    "affine": lambda r: {
        "degrees": 25, "translate": 0.1, "scale": (0.8, 1.2), "shear": 8, "mask_fill": -1
    },
    "bbox_safe_random_crop": lambda r: {"erosion_rate": float(r.choice([0, 0.2]))},
    "center_crop": lambda r: {"size": (int(r.integers(30, 60)), 44), "mask_fill": -1},
    "crop": lambda r: {"size": (40, 50), "top": 9, "left": -5, "mask_fill": -1},
    "crop_around_box": lambda r: {"margin": float(r.choice([0.5, 2.0]))},
    "crop_non_empty_mask": lambda r: {"size": (40, 50), "ignore": (), "mask_fill": -1},
    "grid_distortion": lambda r: {"cells": int(r.integers(2, 7)), "stretch_range": (-0.6, 0.6)},
    "horizontal_flip": lambda r: {"p": 0.5},
    "iou_crop": lambda r: {"min_scale": 0.5, "options": (0.0, 0.2, 0.5, 1.0), "trials": 9},
    "letterbox": lambda r: {"size": (64, int(r.integers(40, 90))), "mask_fill": -1},
    "optical_distortion": lambda r: {"distort_range": (-0.2, 0.2), "mask_fill": -1, "p": 0.9},
    "pad": lambda r: {"padding": (3, 0, 5, 2), "multiple": 4, "mask_fill": -1},
    "perspective": lambda r: {"p": 0.8, "distortion_scale": 0.4, "mask_fill": -1},
    "random_crop": lambda r: {"size": (40, 50), "padding": 4, "mask_fill": -1},
    "random_resized_crop": lambda r: {"size": int(r.integers(40, 80)), "scale": (0.3, 1.0)},
    "random_short_side_scale": lambda r: {"sizes": (40, 70), "max_size": 90},
    "resize": lambda r: {"size": (int(r.integers(30, 90)), 66)},
    "resize_long": lambda r: {"size": 80},
    "resize_short": lambda r: {"size": 48, "max_size": 90},
    "rot90": lambda r: {"p": 0.7},
    "rotate": lambda r: {"degrees": 30, "mask_fill": -1},
    "rotate_expand": lambda r: {"degrees": 30, "mask_fill": -1},
    "safe_rotate": lambda r: {"degrees": 30, "mask_fill": -1},
    "scale_jitter": lambda r: {"size": 70, "scale": (0.7, 1.2)},
    "transpose": lambda r: {"p": 0.5},
    "vertical_flip": lambda r: {"p": 0.5},
}  # fmt: skip
LAST = ("resize", {"size": (60, 60)})


def chain(seed):
    """A pipeline of one to four random ops, then a resize to a fixed size."""
    noise = np.random.default_rng(seed)
    names = noise.choice(sorted(STEPS), int(noise.integers(1, 5)))
    steps = [*((str(name), STEPS[name](noise)) for name in names), LAST]

    @pipeline
    def moved(sample):
        mask, boxes, points = sample.mask, sample.boxes, sample.points
        for number, (name, params) in enumerate(steps):
            op = make(name, params)
            stream = f"step {number}" if op.random else None
            mask, boxes, points = op(mask, boxes, points, stream=stream)
        return {"mask": mask, "boxes": boxes, "points": points}

    return moved, steps


def targets(seed, size):
    """Boxes with whole corners and keypoints in the middle of pixels, numbered."""
    noise = np.random.default_rng(seed)
    x = np.sort(noise.integers(0, size[1] + 1, (12, 2)), 1)
    y = np.sort(noise.integers(0, size[0] + 1, (12, 2)), 1)
    corners = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], 1)
    at = np.stack([noise.integers(0, size[1], MOST), noise.integers(0, size[0], MOST)], 1)
    return corners, at


def run(plan, row, values):
    outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    Interpreter(plan).run(row, [values[name] for name in plan.fields], outputs)
    mask, boxes, boxes_count, points, points_count = outputs
    return (
        mask,
        unpack_items(BOXES, boxes[: int(boxes_count)]),
        unpack_items(POINTS, points[: int(points_count)]),
    )


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_targets_stay_on_their_pixels(first):
    compared, lost = 0, 0
    for seed in range(first, first + 25):
        moved, steps = chain(seed)
        plan = bind(moved.graph(), STATES)
        size = tuple(int(side) for side in np.random.default_rng(seed).integers(60, 97, 2))
        corners, at = targets(seed, size)
        values = {
            "mask": np.arange(size[0] * size[1], dtype=np.int32).reshape(size),
            "boxes": pack_items(
                BOXES, {"xyxy": corners.astype(np.float32), "number": np.arange(12, dtype="i4")}
            ),
            "points": pack_items(
                POINTS,
                {"xy": (at + 0.5).astype(np.float32), "number": np.arange(MOST, dtype="i4")},
            ),
        }
        mask, boxes, points = run(plan, Row(1, seed, 2), values)
        compared += compare_boxes(steps, size, corners, mask, boxes)
        found = compare_points(steps, size, at, mask, points)
        compared, lost = compared + found[0], lost + found[1]
    assert compared > 300
    assert lost < 0.03 * compared, "a keypoint may be lost at an edge, where pixels are rounded"


def compare_boxes(steps, size, corners, mask, boxes):
    """Every pixel from inside of a box is in the moved box; return the number of boxes seen."""
    row, column = np.divmod(mask, size[1])
    kept = dict(zip(boxes["number"].tolist(), boxes["xyxy"], strict=True))
    by_center = any(name == "iou_crop" for name, _ in steps)  # it leaves some out, others cut off
    seen = 0
    slack = 1.0 * len(steps)  # each step rounds to whole pixels
    for number, (x0, y0, x1, y1) in enumerate(corners):
        inside = (mask >= 0) & (column >= x0) & (column < x1) & (row >= y0) & (row < y1)
        ys, xs = np.nonzero(inside)
        if len(xs) < 4:
            continue
        if number not in kept:
            assert by_center, (steps, number)
            continue
        left, top, right, bottom = kept[number]
        assert left - slack <= xs.min() + 0.5 <= xs.max() + 0.5 <= right + slack, (steps, number)
        assert top - slack <= ys.min() + 0.5 <= ys.max() + 0.5 <= bottom + slack, (steps, number)
        seen += 1
    return seen


def compare_points(steps, size, at, mask, points):
    """Every keypoint is at the pixel it was put on, if that pixel is still visible.

    Return how many were seen, and how many were lost although a corner of the pixel is there.
    """
    kept = dict(zip(points["number"].tolist(), points["xy"], strict=True))
    seen, lost = 0, 0
    slack = 1.5 * len(steps)
    for number, (x, y) in enumerate(at):
        ys, xs = np.nonzero(mask == y * size[1] + x)
        if not len(xs):
            continue
        if number not in kept:
            lost += 1
            continue
        near = np.hypot(xs + 0.5 - kept[number][0], ys + 0.5 - kept[number][1]).min()
        assert near <= slack, (steps, number, near)
        seen += 1
    return seen, lost
