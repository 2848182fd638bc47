"""rotate_expand: sizes and levels as Pillow's, nothing lost, bounds that hold, and mistakes."""

import numpy as np
import pytest
from PIL import Image

from stoker import ops
from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import ParameterError, Rotate, RotateExpand
from stoker.ops.contract.states import State
from stoker.ops.geometry.rotate_expand import expanded, longest
from stoker.ops.testing import structured
from stoker.pipeline import pipeline
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError


def turned(op, angle):
    """A record of an angle."""
    return structured(op.record, np.array((angle,), op.record))


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_a_photograph_is_pillows(run_op, photo, arithmetic):
    """Angles for which both have one size; Pillow's may be one pixel larger."""
    op, same = RotateExpand(180, fill=77), 0
    angles = np.random.default_rng(1).uniform(-360, 360, 60)
    for angle in (*angles, 30, 45, 179.999):
        found = expanded(float(angle), *photo.shape[:2])
        image = Image.fromarray(photo)
        theirs = image.rotate(angle, Image.Resampling.BILINEAR, expand=True, fillcolor=(77,) * 3)
        more = np.array(theirs.size[::-1]) - found
        assert set(more.tolist()) <= {0, 1}, (angle, found, theirs.size)
        if more.any() or same > 5:
            continue
        done = run_op(op, [("image", photo)], record=turned(op, angle), arithmetic=arithmetic)
        away = np.abs(done.outputs[0].astype(int) - np.asarray(theirs)).max(-1)
        assert (away > 1).mean() < 1e-4, "a pixel on the very edge may fall to the other side"
        same += 1
    assert same > 3


@pytest.mark.parametrize("turns", [-4, -1, 0, 1, 2, 3, 4])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_quarter_turns_are_exact(run_op, noise, turns, interpolation):
    image, mask = noise((20, 33, 3)), noise((20, 33), dtype="uint16")
    op = RotateExpand((90 * turns, 90 * turns), interpolation)
    done = run_op(op, [("image", image), ("mask", mask)])
    assert np.array_equal(done.outputs[0], np.rot90(image, turns))
    assert np.array_equal(done.outputs[1], np.rot90(mask, turns))


def test_the_middle_is_that_of_rotate(run_op, photo):
    """If the sides differ by an even number, the same angle gives the same pixels."""
    seen = 0
    for key in range(40):
        small, large = Rotate(40, fill=9), RotateExpand(40, fill=9)
        angle = float(run_op.draw(large, key, 375, 500)["angle"])
        assert -40 <= angle <= 40
        height, width = expanded(angle, 375, 500)
        if (height - 375) % 2 or (width - 500) % 2 or seen > 2:
            continue
        record = turned(small, angle)
        inner = run_op(small, [("image", photo)], record=record).outputs[0].astype(int)
        outer = run_op(large, [("image", photo)], record=record).outputs[0]
        down, right = (height - 375) // 2, (width - 500) // 2
        cut = outer[max(down, 0) : max(down, 0) + 375, right : right + 500]
        above = max(-down, 0)
        away = np.abs(inner[above : above + len(cut)] - cut)
        assert (away > 1).mean() < 1e-4
        seen += 1
    assert seen > 1


def test_corners_stay_in_the_image():
    """By the map of points: at most a thousandth of a pixel of a corner is outside."""
    noise = np.random.default_rng(2)
    op = RotateExpand(360)
    for _ in range(300):
        height, width = (int(side) for side in noise.integers(1, 300, 2))
        angle = float(noise.uniform(-360, 360))
        tall, wide = expanded(angle, height, width)
        sizes = (height, width, tall, wide)
        a, b, c, d, e, f, *_ = op.forward(None, {"angle": angle}, sizes)
        corners = np.array([(0, 0), (width, 0), (0, height), (width, height)])
        x, y = corners @ [a, b] + c, corners @ [d, e] + f
        for at, side in ((x, wide), (y, tall)):
            assert -2e-3 < at.min() < 0.51
            assert side - 0.51 < at.max() < side + 2e-3


def test_sizes_are_the_same_in_both_engines():
    fast = compiled(expanded)
    for angle in (0.0, 90.0, -90.0, 17.3, 45.0, 359.9, -123.4):
        for size in ((1, 1), (1, 300), (375, 500), (65535, 3)):
            assert tuple(fast(angle, *size)) == expanded(angle, *size)
    assert expanded(90.0, 3, 5) == (5, 3)
    assert expanded(45.0, 100, 100) == (142, 142)


@pytest.mark.parametrize(
    "angles", [(0, 0), (-5, 5), (10, 20), (40, 50), (80, 100), (85, 275), (-360, 360), (-170, -95)]
)
def test_the_bound_holds_and_is_reached(angles):
    for size in ((100, 100), (37, 500), (500, 37), (1, 9)):
        most = longest(size[0], size[1], angles), longest(size[1], size[0], angles)
        found = [expanded(float(a), *size) for a in np.linspace(*angles, 2001)]
        tall, wide = np.max(found, 0)
        assert (tall, wide) <= most
        assert most[0] - tall <= 1
        assert most[1] - wide <= 1
        smaller = [expanded(float(a), size[0] - 1, size[1]) for a in np.linspace(*angles, 51)]
        assert (np.max(smaller, 0) <= most).all()


STATES = {
    "image": State.fixed("image", "uint8", (40, 50, 3)),
    "free": State("image", "uint8", (None, None, 3), (40, 50, 3)),
}


def bound(define):
    return bind(pipeline(define).graph(), STATES)


def test_one_angle_gives_one_size():
    plan = bound(lambda s: {"image": ops.rotate(s.image, degrees=(90, 90), expand=True)})
    assert plan.outputs[0].shape == (50, 40, 3)
    plan = bound(lambda s: {"image": ops.rotate(s.image, degrees=(45, 45), expand=True)})
    assert plan.outputs[0].shape == (64, 64, 3)


def test_a_varying_size_is_refused_with_what_to_do():
    """As an output, and by an op that needs one size; also where only the images differ."""
    said = (
        r"image uint8\[<=6\dx<=6\dx3\], whose size differs from sample to sample.*: fix its size "
    )
    with pytest.raises(BuildError, match=said + "with resize"):
        bound(lambda s: {"image": ops.rotate(s.image, degrees=45, expand=True)})
    with pytest.raises(BuildError, match="size differs from sample to sample"):
        bound(lambda s: {"image": ops.rotate(s.free, degrees=(90, 90), expand=True)})
    with pytest.raises(BuildError, match=r"mixup .*expected values of one size\. Resize or crop"):
        bound(lambda s: {"image": ops.mixup(ops.rotate(s.image, degrees=45, expand=True))})


def test_a_side_beyond_the_greatest_is_refused():
    huge = {"image": State.fixed("image", "uint8", (60000, 60000, 3))}

    def define(sample):
        return {"image": ops.resize(ops.rotate(sample.image, degrees=9, expand=True), size=(8, 8))}

    said = "rotate_expand: .* rotated by -9 to 9 degrees, could have a side of 68648 pixels of at "
    with pytest.raises(BuildError, match=said + "most 65535: resize it first"):
        bind(pipeline(define).graph(), huge)


def test_boxes_and_keypoints_all_stay(noise):
    """Of boxes nothing is cut off, and every keypoint stays."""

    @pipeline
    def train(sample):
        boxes = ops.track_visible(sample.boxes)
        image, boxes, points = ops.rotate(
            sample.image, boxes, sample.points, degrees=180, expand=True
        )
        image, boxes, points = ops.resize(image, boxes, points, size=(64, 64))
        return {"image": image, "boxes": boxes, "points": points}

    corners = [[0, 0, 10, 10], [60, 30, 70, 50], [20, 20, 40, 45], [0, 0, 70, 50]]
    points = [[0.5, 0.5], [69.5, 49.5], [69.5, 0.5]]
    for number in range(20):
        given = {"image": noise((50, 70, 3)), "boxes": {"xyxy": corners}, "points": {"xy": points}}
        row = train(given, id=number)
        assert len(row["boxes"]["xyxy"]) == 4
        assert row["boxes"]["visible_part"][:3].min() > 0.85, "a box around a turned box, clipped"
        assert len(row["points"]["xy"]) == 3


@pytest.mark.parametrize("given", ["yes", 1, None, (True,)])
def test_expand_is_a_truth_value(given):
    with pytest.raises(ParameterError, match="rotate: expected expand to be True or False, got"):
        ops.rotate(degrees=3, expand=given)
