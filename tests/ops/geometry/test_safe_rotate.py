"""safe_rotate: OpenCV's warp of the same matrix, nothing lost, and mistakes."""

import cv2
import numpy as np
import pytest

from stoker import ops
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import SafeRotate
from stoker.ops.testing import structured
from stoker.pipeline import pipeline


def turned(angle):
    return structured(SafeRotate.record, np.array((angle,), SafeRotate.record))


def matrix_of(angle, height, width):
    """OpenCV's rotation about the center, then a scale of the rotated sides to the old ones."""
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1.0)
    cos, sin = abs(matrix[0, 0]), abs(matrix[0, 1])
    wide, tall = width * cos + height * sin, width * sin + height * cos
    matrix[:, 2] += (wide - width) / 2, (tall - height) / 2
    return np.diag([width / wide, height / tall]) @ matrix


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_a_photograph_is_opencvs(run_op, photo, arithmetic):
    image = cv2.GaussianBlur(photo[:120, :200], (0, 0), 2)  # OpenCV rounds positions to 1/32
    height, width = image.shape[:2]
    for angle in (-170.0, -33.3, 12.0, 90.0, 145.0):
        matrix = matrix_of(angle, height, width)
        matrix[:, 2] += matrix[:, :2] @ (0.5, 0.5) - (0.5, 0.5)  # of pixels, not of points
        theirs = cv2.warpAffine(image, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE)
        done = run_op(
            SafeRotate(180, fill=0), [("image", image)], record=turned(angle), arithmetic=arithmetic
        )
        ones = np.ones((height, width, 1), np.uint8)
        inside = run_op(SafeRotate(180), [("image", ones)], record=turned(angle)).outputs[0] == 1
        away = np.abs(done.outputs[0].astype(int) - theirs)[inside[..., 0]]
        assert away.mean() < 0.6, angle
        assert inside.mean() > 0.45


@pytest.mark.parametrize("size", [(60, 90), (90, 60), (51, 51), (7, 300)])
def test_nothing_leaves_the_image(size):
    height, width = size
    corners = np.array([[0, 0, 1], [width, 0, 1], [width, height, 1], [0, height, 1]], float)
    for angle in range(-360, 361, 15):
        numbers = np.array(SafeRotate.forward(None, turned(angle), (*size, *size))).reshape(3, 3)
        placed = corners @ numbers.T
        placed = placed[:, :2] / placed[:, 2:]
        assert np.allclose(placed, corners @ matrix_of(angle, *size).T, atol=1e-9)
        assert np.allclose(placed.min(0), 0, atol=1e-9)
        assert np.allclose(placed.max(0), (width, height), atol=1e-9)


def test_boxes_and_keypoints_all_stay():
    @pipeline
    def rotated(sample):
        image, boxes, points = ops.safe_rotate(
            sample.image, sample.boxes, sample.points, degrees=180, fill=114
        )
        return {"image": image, "boxes": boxes, "points": points}

    fields = {
        "image": np.zeros((40, 70, 3), np.uint8),
        "boxes": {"xyxy": np.float32([[0, 0, 70, 40], [60, 0, 70, 5]])},
        "points": {"xy": np.float32([[1, 1], [69, 1], [69, 39], [1, 39]])},
    }
    for number in range(30):
        found = rotated(fields, id=number)
        assert found["image"].shape == (40, 70, 3)
        assert len(found["boxes"]["xyxy"]) == 2
        assert len(found["points"]["xy"]) == 4
        assert np.allclose(found["boxes"]["xyxy"][0], [0, 0, 70, 40], atol=1e-3)
