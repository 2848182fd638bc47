"""erase: only the record's box, in image and mask; areas and ratios as torchvision draws them."""

import numpy as np

from stoker.ops import Erase


def test_the_box_is_filled_and_nothing_else(run_op, noise):
    op = Erase(fill=(1, 2, 3), mask_fill=250, p=1)
    for key in range(30):
        image, mask = noise((50, 60, 3), key), noise((50, 60), key, "uint16")
        done = run_op(op, [("image", image), ("mask", mask)], key)
        top, left = int(done.record["top"]), int(done.record["left"])
        height, width = int(done.record["height"]), int(done.record["width"])
        inside = np.zeros((50, 60), bool)
        inside[top : top + height, left : left + width] = True
        assert inside.sum() == height * width > 0
        got, got_mask = done.outputs
        assert (got[inside] == [1, 2, 3]).all()
        assert (got_mask[inside] == 250).all()
        assert (got[~inside] == image[~inside]).all()
        assert (got_mask[~inside] == mask[~inside]).all()


def test_areas_and_ratios_are_drawn_from_their_ranges(run_op):
    op = Erase(scale=(0.05, 0.2), ratio=(0.5, 2), p=1)
    records = np.array([run_op.draw(op, k, 400, 400) for k in range(800)])
    sides = records["height"].astype(float), records["width"].astype(float)
    areas, ratios = sides[0] * sides[1] / 160000, np.log(sides[0] / sides[1])
    assert 0.048 < areas.min() < 0.055
    assert 0.195 < areas.max() < 0.203
    assert abs(areas.mean() - 0.125) < 0.006
    assert abs(ratios.mean()) < 0.06
    assert abs(np.abs(ratios).max() - np.log(2)) < 0.03
    places = records["top"] / (400 - records["height"])
    assert abs(places.mean() - 0.5) < 0.05
    assert places.min() < 0.01
    assert places.max() > 0.99


def test_a_box_that_never_fits_erases_nothing(run_op, noise):
    image = noise((1, 40, 3))
    done = run_op(Erase(p=1), [("image", image)])
    assert done.record["height"] == done.record["width"] == 0
    assert (done.outputs[0] == image).all()
