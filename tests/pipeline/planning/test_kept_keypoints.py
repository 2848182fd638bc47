"""Skeletons that keep all their points: `track_visible` on keypoints."""

import numpy as np
import pytest

from stoker import ops
from stoker.pipeline import pipeline

PIXELS = np.random.default_rng(1).integers(0, 256, (60, 80, 3), np.uint8)
POINTS = {
    "xy": np.random.default_rng(2).uniform([0, 0], [80, 60], (17, 2)).astype(np.float32),
    "keypoint": np.arange(17),
    "visibility": (np.arange(17) % 3).astype(np.uint8),
}
FIELDS = {"image": PIXELS, "keypoints": POINTS}


@pipeline
def cropped(sample):
    points = ops.track_visible(sample.keypoints)
    image, points = ops.center_crop(sample.image, points, size=(30, 40))
    return {"points": points, "image": image}


@pipeline
def padded(sample):
    image, points = ops.center_crop(
        sample.image, ops.track_visible(sample.keypoints), size=(30, 40)
    )
    image, points = ops.pad(image, points, padding=15)
    return {"points": points, "image": image}


@pipeline
def warped(sample):
    points = ops.track_visible(sample.keypoints)
    image, points = ops.random_resized_crop(sample.image, points, size=(32, 40), scale=(0.2, 0.5))
    image, points = ops.horizontal_flip(image, points)
    image, points = ops.perspective(image, points, distortion_scale=0.5, p=1.0)
    image, points = ops.grid_distortion(image, points, p=1.0)
    image, points = ops.rotate(image, points, degrees=90)
    return {"points": points, "image": image}


def test_points_that_leave_stay_with_their_fields():
    points = cropped(FIELDS)["points"]
    at = POINTS["xy"] - np.float32([20, 15])
    inside = ((at >= 0) & (at <= [40, 30])).all(1)
    assert 0 < inside.sum() < 17
    assert np.array_equal(points["xy"], at)
    assert np.array_equal(points["visible_part"], inside)
    for name in ("keypoint", "visibility"):
        assert np.array_equal(points[name], POINTS[name])


def test_a_point_that_left_does_not_become_visible_again():
    points = padded(FIELDS)["points"]
    assert np.array_equal(points["visible_part"], cropped(FIELDS)["points"]["visible_part"])
    assert ((points["xy"] >= 0) & (points["xy"] <= [70, 60])).all(1).sum() > sum(
        points["visible_part"]
    )


def test_without_it_points_that_leave_are_removed():
    crop = pipeline(
        lambda sample: {"p": ops.center_crop(sample.image, sample.keypoints, size=(30, 40))[1]}
    )
    kept = crop(FIELDS)["p"]["keypoint"]
    visible = cropped(FIELDS)["points"]["visible_part"] > 0
    assert np.array_equal(kept, POINTS["keypoint"][visible])


@pytest.mark.parametrize("number", range(6))
def test_no_op_loses_a_point_and_engines_agree(number):
    plain = warped(FIELDS, id=number)["points"]
    fast = warped(FIELDS, id=number, compiled=True)["points"]
    assert np.array_equal(plain["keypoint"], POINTS["keypoint"])
    outside = ((plain["xy"] < 0) | (plain["xy"] > [40, 32])).any(1)
    assert not plain["visible_part"][outside].any()
    assert set(plain["visible_part"]) <= {0.0, 1.0}
    for name, array in plain.items():
        assert array.tobytes() == fast[name].tobytes()
