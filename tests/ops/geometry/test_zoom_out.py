"""zoom_out: canvas, place and fill, its draws and its bound."""

import numpy as np

from stoker.ops import ZoomOut


def test_the_image_lies_on_its_canvas(run_op, noise):
    image, mask = noise((20, 31, 3)), noise((20, 31))
    for key in range(20):
        done = run_op(ZoomOut((1, 3), (1, 2, 3), 9, 1), [("image", image), ("mask", mask)], key)
        top, left = int(done.record["top"]), int(done.record["left"])
        for value, after, fill in zip((image, mask), done.outputs, ((1, 2, 3), 9), strict=True):
            expected = np.empty((*after.shape[:2], *value.shape[2:]), np.uint8)
            expected[...] = fill
            expected[top : top + 20, left : left + 31] = value
            assert (after == expected).all()


def test_sides_and_places_are_uniform(run_op):
    records = [run_op.draw(ZoomOut((1, 4), p=1), k, 100, 200) for k in range(500)]
    ratio = np.array([r["height"] / 100 for r in records])
    assert 1 <= ratio.min() < 1.05
    assert 3.95 < ratio.max() < 4
    assert all(r["width"] // 2 - r["height"] in (0, 1) for r in records)
    place = np.array([r["left"] / max(r["width"] - 200, 1) for r in records])
    assert abs(place.mean() - 0.5) < 0.05
    assert place.max() > 0.97


def test_p_leaves_images_alone(run_op):
    sizes = [int(run_op.draw(ZoomOut((2, 4), p=0.25), k, 100, 100)["height"]) for k in range(400)]
    assert 60 < sum(size > 100 for size in sizes) < 140
    assert min(sizes) == 100
