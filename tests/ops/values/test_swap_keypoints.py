"""swap_keypoints: left and right change places where a mirror does, in both engines."""

import numpy as np
import pytest
import skimage.data

from stoker import ops
from stoker.ops.bases.sides import paired_numbers
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
        (lambda s: ops.rot90(s.image, s.keypoints)[1], "the result of rot90"),
        (lambda s: 3, "got int"),
    ],
)
def test_where_flipped_needs_the_result_of_a_flip(points, found):
    @pipeline
    def swap(sample):
        return {"p": ops.swap_keypoints(points(sample), pairs="coco", where_flipped=True)}

    with pytest.raises(
        BuildError, match=f"horizontal_flip, vertical_flip, transpose or mirror returned .*{found}"
    ):
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
    with pytest.raises(
        ParameterError, match=f'expected "names", "coco", or pairs of .* got .*{why}'
    ):
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


NAMES = ["nose", "left_eye", "right_eye", "Tail", "L.wing", "left_ear", "r.wing", "right_ear"]


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (NAMES, ((1, 2), (4, 6), (5, 7))),
        (["RightEye", "lefteye", "person/right hip", "person/left hip"], ((0, 1), (2, 3))),
        (["left_eye", "left_eye", "right_eye"], ()),
        (["left", "rear", "l", "leftover", "nose"], ()),
        ([], ()),
    ],
)
def test_sides_in_names(names, pairs):
    assert paired_numbers(names) == pairs


@pipeline
def by_names(sample):
    image, points = ops.horizontal_flip(sample.image, sample.keypoints, p=0.5)
    points = ops.swap_keypoints(points, pairs="names", where_flipped=True)
    image, points = ops.transpose(image, points, p=0.5)
    points = ops.swap_keypoints(points, pairs="names", where_flipped=True)
    image, points = ops.mirror(image, points, axis="vertical")
    return {
        "image": image,
        "points": ops.swap_keypoints(points, pairs="names", where_flipped=True),
    }


def test_names_give_the_pairs_and_every_mirror_is_followed():
    """Oracle: transformations of the pixels with an odd number of mirrors swap."""
    seen, swapped = set(), [0, 2, 1, 7]
    square = PHOTO[:, :60]
    for number in range(16):
        fields = {"image": square, "keypoints": POINTS | {"keypoint": np.array([0, 1, 2, 5])}}
        fields["keypoints"]["xy"] = POINTS["xy"] / 2
        both = [
            by_names(fields, id=number, classes={"keypoints": NAMES}, compiled=compiled)
            for compiled in (False, True)
        ]
        shapes = [
            (flip, turn)
            for flip in (False, True)
            for turn in (False, True)
            if np.array_equal(turned(square[:, ::-1] if flip else square, turn), both[0]["image"])
        ]
        ((flip, turn),) = shapes
        odd = (flip + turn + 1) % 2
        assert both[0]["points"]["keypoint"].tolist() == (swapped if odd else [0, 1, 2, 5])
        for name, values in both[0]["points"].items():
            assert np.array_equal(values, both[1]["points"][name]), name
        seen.add((flip, turn))
    assert len(seen) == 4


def turned(image, transposed):
    return (image.swapaxes(0, 1) if transposed else image)[::-1]


@pytest.mark.parametrize(
    ("classes", "why"),
    [
        (
            None,
            "has no names of keypoints, which packing COCO or YOLO writes; in process, pass cl",
        ),
        ({"keypoints": ["nose", "tail"]}, "no two of nose, tail differ in left and right alone"),
    ],
)
def test_names_without_sides_are_refused(classes, why):
    with pytest.raises(BuildError, match=f'pairs="names": .*{why}.* Give the numbers'):
        by_names({"image": PHOTO, "keypoints": POINTS}, classes=classes)


def test_one_decision_for_fields_with_other_names_is_refused():
    @pipeline
    def two(sample):
        one, other = ops.swap_keypoints(sample.one, sample.other, pairs="names")
        return {"one": one, "other": other}

    fields = {"one": POINTS, "other": POINTS}
    classes = {"one": ["left", "right"], "other": ["nose", "left", "right"]}
    with pytest.raises(BuildError, match="other names of classes: give the numbers instead"):
        two(fields, classes=classes)
    assert two(fields, classes=classes | {"other": ["left", "right"]})["other"] is not None


def flips(sample):
    return ops.vertical_flip(sample.image, sample.keypoints)


def in_a_branch(sample):
    return random_apply(sample.image, sample.keypoints, apply=ops.Mirror(), p=0.5)


def swapped_before(sample):
    points = ops.swap_keypoints(sample.keypoints, pairs="names")
    return ops.horizontal_flip(sample.image, points)


def twice(sample):
    image, points = ops.horizontal_flip(sample.image, sample.keypoints)
    points = ops.swap_keypoints(points, pairs="names", where_flipped=True)
    image, points = ops.resize(image, ops.track_visible(points), size=(9, 9))
    return ops.vertical_flip(image, points)


@pytest.mark.parametrize("moved", [flips, in_a_branch, swapped_before, twice])
def test_a_mirror_without_a_swap_is_an_error_where_names_have_sides(moved):
    @pipeline
    def mirrored(sample):
        image, points = moved(sample)
        return {"image": image, "points": points}

    @pipeline
    def intended(sample):
        image, points = moved(sample)
        return {"image": image, "points": ops.unlinked(points)}

    fields = {"image": PHOTO, "keypoints": POINTS}
    with pytest.raises(BuildError, match="'left_eye' would be where 'right_eye' is") as caught:
        mirrored(fields, classes={"keypoints": NAMES})
    assert "test_swap_keypoints.py" in str(caught.value)
    assert intended(fields, classes={"keypoints": NAMES})["points"] is not None


def test_other_keypoints_and_other_ops_need_no_swap():
    """Without names, with names that have no sides, and for ops that do not mirror."""

    @pipeline
    def mirrored(sample):
        image, points = ops.horizontal_flip(sample.image, sample.keypoints)
        return {"image": image, "points": points}

    @pipeline
    def turned_only(sample):
        image, points = ops.affine(sample.image, sample.keypoints, degrees=180)
        return {"image": image, "points": points}

    fields = {"image": PHOTO, "keypoints": POINTS}
    assert mirrored(fields)["points"] is not None
    assert mirrored(fields, classes={"keypoints": ["nose", "tail"]})["points"] is not None
    assert turned_only(fields, classes={"keypoints": NAMES})["points"] is not None
    assert sometimes(fields, classes={"keypoints": NAMES})["points"] is not None
    assert after_a_flip(fields, classes={"keypoints": NAMES})["points"] is not None


@pytest.mark.parametrize("op", [ops.horizontal_flip, ops.vertical_flip, ops.transpose, ops.mirror])
def test_the_argument_of_a_mirror_swaps_as_the_call_after_it(op):
    @pipeline
    def argument(sample):
        image, points = op(sample.image, sample.keypoints, swap="names")
        return {"image": image, "points": points}

    @pipeline
    def call(sample):
        image, points = op(sample.image, sample.keypoints)
        points = ops.swap_keypoints(points, pairs="names", where_flipped=True)
        return {"image": image, "points": points}

    assert argument.pipeline_id == call.pipeline_id
    fields = {"image": PHOTO[:, :60], "keypoints": POINTS | {"xy": POINTS["xy"] / 2}}
    rows = [argument(fields, id=n, classes={"keypoints": NAMES}) for n in range(8)]
    found = {tuple(row["points"]["keypoint"].tolist()) for row in rows}
    assert found == ({(0, 2, 1, 5)} if op is ops.mirror else {(0, 1, 2, 7), (0, 2, 1, 5)})
