"""optical_distortion: OpenCV's camera model, its inverse for points and boxes, and mistakes."""

import cv2
import numpy as np
import pytest

from stoker import ops
from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import OpticalDistortion, ParameterError
from stoker.ops.geometry.optical_distortion import moved, moved_box
from stoker.ops.testing import structured
from stoker.pipeline import pipeline
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items, unpack_items

BOXES = (ItemField("xyxy", "float32", 4), ItemField("visible_part", "float32"))
POINTS = (ItemField("xy", "float32", 2), ItemField("label", "int64"))
SIZES = [(60, 83), (90, 90), (31, 140)]
FACTORS = [-0.3, -0.05, 0.0, 0.05, 0.4, 1.0]


def decided(k, apply=1):
    record = structured(OpticalDistortion.record)
    record["k"], record["apply"] = k, apply
    return record


def maps(size, k):
    """Source of each output pixel by OpenCV, in indices of pixels, about the image's middle."""
    height, width = size
    camera = np.array([[width, 0, (width - 1) / 2], [0, height, (height - 1) / 2], [0, 0, 1]])
    lens = np.array([k, k, 0, 0, 0])
    return cv2.initUndistortRectifyMap(camera, lens, None, None, (width, height), cv2.CV_32FC1)


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
@pytest.mark.parametrize("k", FACTORS)
def test_pixels_are_opencvs_within_rounding(run_op, noise, k, arithmetic):
    for size in SIZES:
        image = cv2.GaussianBlur(noise((*size, 3)), (0, 0), 2)
        mask = noise(size, 1, "uint16", 60000)
        op = OpticalDistortion(fill=(200, 100, 50), mask_fill=65535)
        values = [("image", image), ("mask", mask)]
        got, classes = run_op(op, values, record=decided(k), arithmetic=arithmetic).outputs
        x, y = maps(size, k)
        border = cv2.BORDER_REPLICATE
        expected = cv2.remap(image.astype(np.float32), x, y, cv2.INTER_LINEAR, borderMode=border)
        inside = (x > -0.499) & (x < size[1] - 0.501) & (y > -0.499) & (y < size[0] - 0.501)
        outside = (x < -0.501) | (x > size[1] - 0.499) | (y < -0.501) | (y > size[0] - 0.499)
        # OpenCV rounds places to 1/32 of a pixel, here it is 1/2048.
        assert np.abs(got - expected)[inside].max() <= 4
        assert (got[outside] == (200, 100, 50)).all()
        assert (classes[outside] == 65535).all()
        at = np.abs(x - np.floor(x) - 0.5), np.abs(y - np.floor(y) - 0.5)
        sure = inside & (at[0] > 1e-3) & (at[1] > 1e-3)
        rows, columns = np.rint(y).astype(int), np.rint(x).astype(int)
        rows, columns = rows.clip(0, size[0] - 1), columns.clip(0, size[1] - 1)
        assert (classes == mask[rows, columns])[sure].all()
        assert sure.mean() > 0.5 or k > 0.3
        assert outside.any() == (k > 0.01)


def test_no_distortion_changes_nothing(run_op, noise):
    image = noise((37, 51, 3))
    for record in (decided(0.0), decided(0.4, apply=0)):
        assert np.array_equal(
            run_op(OpticalDistortion(), [("image", image)], record=record).outputs[0], image
        )


@pytest.mark.parametrize("k", FACTORS)
def test_points_move_by_the_inverse(k):
    """The output place of each pixel's source is the pixel; in both engines the same bits."""
    fast = compiled(moved)
    for height, width in SIZES:
        x, y = maps((height, width), k)
        for row in range(0, height, 7):
            for column in range(0, width, 5):
                at = float(x[row, column]) + 0.5, float(y[row, column]) + 0.5
                found = moved(*at, k, height, width)
                assert found == pytest.approx(
                    (column + 0.5, row + 0.5), abs=2e-4 * (1 + 10 * abs(k))
                )
                assert tuple(fast(*at, k, height, width)) == found


@pytest.mark.parametrize("k", FACTORS)
def test_far_points_go_outward_and_never_turn_back(k):
    """Also where the model of the lens would have folded."""
    places = [moved(50 + d, 40 + d, k, 80, 100) for d in np.linspace(0, 500, 400)]
    assert (np.diff(places, axis=0) > 0).all()
    edge = moved(0, 0, k, 80, 100)
    assert (max(edge) <= 1e-9) == (k <= 0)


@pytest.mark.parametrize("k", FACTORS)
def test_a_box_is_around_its_curved_outline(k):
    noise = np.random.default_rng(3)
    for height, width in SIZES:
        for _ in range(12):
            corners = noise.uniform(-0.1, 1.1, (2, 2)) * [width, height]
            x0, y0, x1, y1 = (float(v) for v in (*corners.min(0), *corners.max(0)))
            edge = np.linspace(0, 1, 60)
            outline = [(x0 + t * (x1 - x0), y) for t in edge for y in (y0, y1)]
            outline += [(x, y0 + t * (y1 - y0)) for t in edge for x in (x0, x1)]
            places = np.array([moved(*place, k, height, width) for place in outline])
            box = np.array(moved_box((x0, y0, x1, y1), k, height, width))
            around = np.hstack([places.min(0), places.max(0)])
            assert (box[:2] <= around[:2] + 1e-9).all()
            assert (box[2:] >= around[2:] - 1e-9).all()
            assert np.abs(box - around).max() < 0.05, "no larger than needed"


def test_boxes_and_keypoints_are_where_the_mask_is(run_op):
    """A painted box is inside of the moved box, which fits it except at the tips of its corners."""
    op, noise, seen, lost = OpticalDistortion(), np.random.default_rng(5), 0, 0
    for key in range(40):
        size, record = SIZES[key % 3], decided(noise.uniform(-0.3, 0.6))
        at = np.sort(noise.uniform(0, 1, (2, 2)), 0) * [size[1], size[0]]
        x0, y0, x1, y1 = np.rint([*at[0], *at[1]]).astype(int)
        mask = np.zeros(size, np.uint8)
        mask[y0:y1, x0:x1] = 1
        (painted,) = run_op(op, [("mask", mask)], record=record, arithmetic=PLAIN).outputs
        corners = np.array([[x0, y0, x1, y1]], np.float32)
        given = pack_items(BOXES, {"xyxy": corners, "visible_part": np.ones(1, np.float32)})
        out = np.zeros((1, given.shape[1]), np.uint32)
        params = structured(op.parameters, op.params())
        count = op.items["boxes"].run(given, out, params, record, (*size, *size), 4)
        ys, xs = np.nonzero(painted)
        if not len(ys):
            continue
        assert count == 1
        found = unpack_items(BOXES, out)
        left, top, right, bottom = found["xyxy"][0]
        assert left - 0.5 <= xs.min() <= left + 3
        assert right - 3 <= xs.max() + 1 <= right + 0.5
        assert top - 0.5 <= ys.min() <= top + 3
        assert bottom - 3 <= ys.max() + 1 <= bottom + 0.5
        seen += 1
        lost += found["visible_part"][0] < 0.999
    assert seen > 20
    assert lost > 0


def test_keypoints_that_leave_are_left_out_or_marked(run_op):
    op, size = OpticalDistortion(), (40, 60)
    params = structured(op.parameters, op.params())
    points = pack_items(
        POINTS, {"xy": np.float32([[1, 1], [30, 20], [59, 39]]), "label": np.arange(3)}
    )
    out = np.zeros_like(points)
    run = op.items["keypoints"].run
    assert run(points, out, params, decided(-0.2), (*size, *size), 0) == 1
    assert unpack_items(POINTS, out[:1])["xy"].tolist() == [[30, 20]]
    assert run(points, out, params, decided(0.2), (*size, *size), 0) == 3
    assert run(points, out, params, decided(-0.2, apply=0), (*size, *size), 0) == 3
    assert out.tobytes() == points.tobytes()


def test_the_same_place_of_every_size(noise):
    """With relative=True a mask of half the size is distorted as the image is."""

    @pipeline
    def train(sample):
        image, mask = ops.optical_distortion(
            sample.image, sample.mask, distort_range=(0.2, 0.4), p=1.0, relative=True
        )
        return {"image": image, "mask": mask}

    small = np.zeros((40, 50), np.uint8)
    small[10:20, 30:45] = 200
    large = np.repeat(np.repeat(small, 2, 0), 2, 1)[..., None].repeat(3, 2)
    row = train({"image": large, "mask": small}, kinds={"mask": "mask"}, id=2)
    again = np.repeat(np.repeat(row["mask"], 2, 0), 2, 1)
    assert ((row["image"][..., 0] > 100) != (again > 100)).mean() < 0.02


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"distort_range": (-0.31, 0)},
            r"distort_range to be \(low, high\) with low <= high, from -0.3 to 1",
        ),
        ({"distort_range": (0, 1.01)}, r"distort_range .*, got \(0, 1.01\)"),
        ({"distort_range": 0.05}, "distort_range"),
        ({"interpolation": "cubic"}, "interpolation to be one of nearest, bilinear"),
        ({"p": 2}, "p to be a number from 0 to 1"),
    ],
)
def test_bad_parameters(given, said):
    with pytest.raises(ParameterError, match=f"optical_distortion: expected {said}"):
        OpticalDistortion(**given)
