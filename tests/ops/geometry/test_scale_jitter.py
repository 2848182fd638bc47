"""scale_jitter: torchvision's sizes, pixels of resize, bounds that hold, and mistakes."""

import numpy as np
import pytest

from stoker import ops
from stoker.ops import ParameterError, Resize, ScaleJitter
from stoker.ops.contract.states import State
from stoker.pipeline import pipeline


def test_sizes_are_torchvisions():
    """Its formula, with the numbers of its target size the other way round."""
    noise, factors = np.random.default_rng(1), []
    op = ScaleJitter((300, 500), (0.1, 2.0))
    for number in range(300):
        height, width = (int(side) for side in noise.integers(1, 900, 2))
        record = op.sample(height, width, id=number)
        assert 0.1 <= record["scale"] < 2.0
        fit = min(300 / height, 500 / width) * record["scale"]
        assert record["height"] == max(int(height * fit), 1)
        assert record["width"] == max(int(width * fit), 1)
        assert record["height"] <= 600
        assert record["width"] <= 1000
        factors.append(record["scale"])
    assert abs(np.mean(factors) - 1.05) < 0.1


def test_no_rounding_exceeds_the_declared_size():
    """Products such as 0.1 * 3 lie above the number that they stand for."""
    for size in range(1, 80):
        for scale in (0.1, 0.3, 0.7, 1.1, 1.9):
            op = ScaleJitter(size, (scale, scale))
            (after,), _ = op.declare((State("image", "uint8", (None, None, 3), (97, 97, 3)),))
            for side in (1, 3, 7, 10, 49, 97):
                record = op.sample(side, side)
                assert 1 <= record["height"] <= after.bound[0]
                assert 1 <= record["width"] <= after.bound[1]


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "area"])
def test_pixels_are_those_of_resize(run_op, photo, interpolation):
    op = ScaleJitter((120, 90), (0.3, 1.5), interpolation)
    mask = photo[..., 0].copy()
    for key in range(3):
        found = run_op(op, [("image", photo), ("mask", mask)], key).outputs
        same = Resize(found[0].shape[:2], interpolation)
        expected = run_op(same, [("image", photo), ("mask", mask)]).outputs
        assert all(map(np.array_equal, found, expected))


def test_large_scale_jitter_with_a_crop():
    @pipeline
    def lsj(sample):
        image, boxes = ops.scale_jitter(sample.image, sample.boxes, size=64)
        image, boxes = ops.random_crop(image, boxes, size=64, fill=9)
        return {"image": image, "boxes": boxes}

    image = np.full((100, 50, 3), 200, np.uint8)
    covered = []
    for number in range(40):
        found = lsj({"image": image, "boxes": {"xyxy": np.float32([[0, 0, 50, 100]])}}, id=number)
        left, top, right, bottom = found["boxes"]["xyxy"][0]
        inside = (found["image"][..., 0] == 200).sum()
        assert abs(inside - (right - left) * (bottom - top)) <= 128
        covered.append(inside)
    assert min(covered) < 400
    assert max(covered) > 2500


def test_mistakes():
    for given, said in (
        ({"size": 0}, "scale_jitter: expected size"),
        ({"size": 64, "scale": (0, 1)}, r"scale_jitter: expected scale to be \(low, high\)"),
        ({"size": 60000, "scale": (1, 2)}, "above 0 and at most 1.09"),
        ({"size": 64, "interpolation": "cubic"}, "scale_jitter: expected interpolation"),
    ):
        with pytest.raises(ParameterError, match=said):
            ScaleJitter(**given)
