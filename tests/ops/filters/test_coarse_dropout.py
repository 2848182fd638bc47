"""coarse_dropout: only the record's boxes, in image and mask; all drawn from their ranges."""

import numpy as np
import pytest

from stoker.ops import CoarseDropout, ParameterError


def boxes_of(record):
    return record["boxes"].reshape(-1, 4)[: int(record["count"])].tolist()


def test_the_boxes_are_filled_and_nothing_else(run_op, noise):
    op = CoarseDropout((1, 6), (0.1, 0.5), (0.05, 0.4), (1, 2, 3), 250, p=1)
    counts = set()
    for key in range(40):
        image, mask = noise((50, 60, 3), key), noise((50, 60), key, "uint16")
        done = run_op(op, [("image", image), ("mask", mask)], key)
        inside = np.zeros((50, 60), bool)
        for top, left, height, width in boxes_of(done.record):
            assert 0 < height <= 25
            assert 0 < width <= 24
            assert 0 <= top <= 50 - height
            assert 0 <= left <= 60 - width
            inside[top : top + height, left : left + width] = True
        assert inside.any()
        counts.add(int(done.record["count"]))
        got, got_mask = done.outputs
        assert (got[inside] == [1, 2, 3]).all()
        assert (got_mask[inside] == 250).all()
        assert (got[~inside] == image[~inside]).all()
        assert (got_mask[~inside] == mask[~inside]).all()
    assert counts == set(range(1, 7))


def test_sides_and_places_are_uniform(run_op):
    op = CoarseDropout((2, 2), (0.1, 0.3), (0.2, 0.2), p=1)
    boxes = np.array([boxes_of(run_op.draw(op, k, 400, 500)) for k in range(800)]).reshape(-1, 4)
    top, left, height, width = boxes.T
    assert (width == 100).all()
    assert height.min() in (40, 41)
    assert height.max() in (119, 120)
    assert abs(height.mean() - 80) < 2
    for place, room in ((top, 400 - height), (left, 500 - width)):
        assert abs((place / room).mean() - 0.5) < 0.03
        assert place.min() == 0
        assert (place == room).any()
    pairs = boxes.reshape(-1, 8)
    assert abs(np.corrcoef(pairs[:, 0], pairs[:, 4])[0, 1]) < 0.1, "each box is drawn by itself"


def test_a_box_is_at_least_a_pixel_and_at_most_the_image(run_op, noise):
    done = run_op(CoarseDropout((1, 1), (1e-6, 1e-6), (1, 1), p=1), [("image", noise((7, 9, 3)))])
    ((_, left, height, width),) = boxes_of(done.record)
    assert (left, height, width) == (0, 1, 9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"holes_range": (0, 3)}, r"holes_range to be \(low, high\), integers with 1 <= low"),
        ({"holes_range": (1, 33)}, r"holes_range to be .* <= 32, got \(1, 33\)"),
        ({"height_range": (0.3, 0.2)}, "height_range"),
        ({"width_range": (8, 16)}, "width_range .* got"),
    ],
)
def test_parameters_are_checked(given, message):
    with pytest.raises(ParameterError, match=f"coarse_dropout: expected {message}"):
        CoarseDropout(**given)
