"""swap_keypoints: left and right change places where a mirror does, in both engines."""

import numpy as np
import pytest
import skimage.data

from stoker import ops
from stoker.ops.contract.states import ParameterError
from stoker.pipeline import pipeline, random_apply
from stoker.protocol.errors import BuildError

PHOTO = skimage.data.astronaut()[:60, :80]
POINTS = {
    "xy": np.array([[10, 12], [30, 14], [55, 40], [70, 50]], np.float32),
    "keypoint": np.array([0, 1, 2, 7], np.int64),
    "visibility": np.array([2, 1, 0, 2], np.uint8),
}


def mirrored(image, points):
    """Mirror, and swap what is left and right."""
    image, points = ops.horizontal_flip(image, points, p=1.0)
    return image, ops.swap_keypoints(points, pairs=[(1, 2), (7, 9)])


@pipeline
def sometimes(sample):
    image, points = random_apply(sample.image, sample.keypoints, apply=mirrored, p=0.5)
    return {"image": image, "points": points}


def test_it_swaps_where_the_image_is_mirrored_and_nowhere_else():
    seen = set()
    for number in range(12):
        fields = {"image": PHOTO, "keypoints": POINTS}
        plain = sometimes(fields, id=number)
        compiled = sometimes(fields, id=number, compiled=True)
        flipped = bool(np.array_equal(plain["image"], PHOTO[:, ::-1]))
        assert flipped or np.array_equal(plain["image"], PHOTO)
        points = plain["points"]
        assert points["keypoint"].tolist() == ([0, 2, 1, 9] if flipped else [0, 1, 2, 7])
        x = 80 - POINTS["xy"][:, 0] if flipped else POINTS["xy"][:, 0]
        assert points["xy"][:, 0].tolist() == x.tolist()
        assert points["visibility"].tolist() == [2, 1, 0, 2]
        for name, values in points.items():
            assert np.array_equal(values, compiled["points"][name]), name
        seen.add(flipped)
    assert seen == {True, False}


@pipeline
def after_a_flip(sample):
    image, points = ops.horizontal_flip(sample.image, sample.keypoints, p=0.4)
    image, points = ops.vertical_flip(
        image, ops.swap_keypoints(points, pairs=[(1, 2), (7, 9)], where_flipped=True), p=0.4
    )
    points = ops.swap_keypoints(points, pairs=[(1, 2), (7, 9)], where_flipped=True)
    return {"image": image, "points": points}


def test_where_flipped_follows_the_decision_of_each_flip():
    """Mirrored twice, a left eye is a left eye."""
    seen = set()
    for number in range(24):
        fields = {"image": PHOTO, "keypoints": POINTS}
        plain = after_a_flip(fields, id=number)
        compiled = after_a_flip(fields, id=number, compiled=True)
        mirrors = [PHOTO, PHOTO[:, ::-1], PHOTO[::-1], PHOTO[::-1, ::-1]]
        (which,) = (n for n, found in enumerate(mirrors) if np.array_equal(plain["image"], found))
        once = which in (1, 2)
        assert plain["points"]["keypoint"].tolist() == ([0, 2, 1, 9] if once else [0, 1, 2, 7])
        for name, values in plain["points"].items():
            assert np.array_equal(values, compiled["points"][name]), name
        seen.add(which)
    assert seen == {0, 1, 2, 3}


def test_it_does_not_change_the_flip():
    """The draws and the record of a flip are those without a swap."""

    @pipeline
    def alone(sample):
        image, points = ops.horizontal_flip(sample.image, sample.keypoints, p=0.4)
        return {"image": image, "points": points}

    for number in range(8):
        fields = {"image": PHOTO, "keypoints": POINTS}
        flipped = not np.array_equal(alone(fields, id=number)["image"], PHOTO)
        after = after_a_flip(fields, id=number)["image"]
        assert flipped == any(np.array_equal(after, p) for p in (PHOTO[:, ::-1], PHOTO[::-1, ::-1]))


@pytest.mark.parametrize(
    ("points", "found"),
    [
        (lambda s: s.keypoints, "got another value"),
        (lambda s: ops.center_crop(s.image, s.keypoints, size=32)[1], "the result of center_crop"),
        (lambda s: ops.transpose(s.image, s.keypoints)[1], "the result of transpose"),
        (lambda s: 3, "got int"),
    ],
)
def test_where_flipped_needs_the_result_of_a_flip(points, found):
    @pipeline
    def swap(sample):
        return {"p": ops.swap_keypoints(points(sample), pairs="coco", where_flipped=True)}

    with pytest.raises(BuildError, match=f"as horizontal_flip or vertical_flip returned .*{found}"):
        swap({"image": PHOTO, "keypoints": POINTS})


def test_the_pairs_of_coco_are_those_of_its_names():
    """The names of `person_keypoints_val2017.json`."""
    sides = ["eye", "ear", "shoulder", "elbow", "wrist", "hip", "knee", "ankle"]
    names = ["nose", *(f"{side}_{part}" for part in sides for side in ("left", "right"))]
    expected = [
        (number, names.index(name.replace("left", "right")))
        for number, name in enumerate(names)
        if name.startswith("left")
    ]
    assert list(ops.SwapKeypoints("coco").pairs) == expected


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ("cocoo", ""), ([], ""), (3, ""), ([(1, 2, 3)], r": \(1, 2, 3\) is not a pair"),
        ([1, 2], ": 1 is not a pair"), ([(1, 1)], ": 1 occurs twice"),
        ([(1, 2), (2, 3)], ": 2 occurs twice"), ([(-1, 2)], ": -1 is not a number of a keypoint"),
        ([(1, 2.0)], r": 2\.0 is not an integer"), ([("left_eye", 2)], "'left_eye' is not an int"),
        ([(2 * n, 2 * n + 1) for n in range(129)], ""),
    ],
)  # fmt: skip
def test_pairs_that_cannot_be(pairs, why):
    with pytest.raises(ParameterError, match=f'expected "coco", or pairs of .* got .*{why}'):
        ops.SwapKeypoints(pairs)


def test_keypoints_without_numbers_are_refused():
    @pipeline
    def swap(sample):
        return {"points": ops.swap_keypoints(sample.keypoints, pairs="coco")}

    for fields in ({}, {"person": np.zeros(2, np.uint8)}, {"keypoint": np.zeros(2, np.float32)}):
        points = {"xy": np.ones((2, 2), np.float32), **fields}
        with pytest.raises(
            BuildError, match=r"first field is the integer 'keypoint'.* write schema"
        ):
            swap({"image": PHOTO, "keypoints": points})


def test_an_image_is_refused():
    @pipeline
    def wrong(sample):
        return {"image": ops.swap_keypoints(sample.image, pairs="coco")}

    with pytest.raises(BuildError, match="swap_keypoints"):
        wrong({"image": PHOTO})
