"""clahe against OpenCV's CLAHE within a level, and what it does to colors."""

import cv2
import numpy as np
import pytest

from stoker.ops import Clahe
from stoker.ops.kernels.color import plain_luma


def equalized(run_op, as_record, image, limit, tiles):
    record = as_record(Clahe.record)
    record["apply"], record["limit"] = 1, limit
    return run_op(Clahe((0, 256), tiles), [("image", image)], record=record).outputs[0].astype(int)


@pytest.mark.parametrize("limit", [0.5, 1.0, 3.3, 40.0, 256.0])
def test_gray_is_opencvs_within_a_level(run_op, as_record, photo, noise, limit):
    # If exactly one side is not a multiple of the tiles, OpenCV adds a whole row of tiles.
    for height, width, tiles in ((320, 400, (8, 8)), (375, 499, (8, 8)), (33, 31, (8, 8)),
                                 (91, 64, (1, 1)), (200, 300, (5, 3))):  # fmt: skip
        crop = np.ascontiguousarray(photo[:height, :width, :1])
        for image in (crop, noise((height, width, 1), classes=5)):
            peer = cv2.createCLAHE(limit, tiles[::-1])
            expected = peer.apply(image[..., 0]).astype(int)
            got = equalized(run_op, as_record, image, limit, tiles)[..., 0]
            assert np.abs(got - expected).max() <= 1
            assert (got != expected).mean() <= 0.25  # ranks of one half, rounded up here


def test_colors_keep_their_differences(run_op, as_record, photo):
    image = np.ascontiguousarray(photo[:200, :300])
    gray = plain_luma(image.astype(np.int64)).astype(np.uint8)
    more = equalized(run_op, as_record, gray, 3.0, 8) - gray
    got = equalized(run_op, as_record, image, 3.0, 8)
    assert (got == np.clip(image.astype(int) + more, 0, 255)).all()


def test_a_flat_image_stays_flat_and_one_pixel_is_allowed(run_op, as_record):
    for shape in ((40, 48, 1), (1, 1, 1), (1, 50, 1)):
        got = equalized(run_op, as_record, np.full(shape, 90, np.uint8), 2.0, 8)
        assert len(np.unique(got)) == 1
