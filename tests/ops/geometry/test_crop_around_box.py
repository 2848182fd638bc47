"""crop_around_box: the rule in plain Python for random boxes, what counts, and mistakes."""

import math

import numpy as np
import pytest

from stoker import ops
from stoker.ops import CropAroundBox, ParameterError
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError

SIZE = (60, 90)


def expected(box, margin):
    """(top, left, height, width) for a box inside of the image or not."""
    found = []
    for low, high, side in ((box[1], box[3], SIZE[0]), (box[0], box[2], SIZE[1])):
        start, end = min(max(low, 0.0), side), min(max(high, 0.0), side)
        more = margin * (end - start)
        first = min(max(math.floor(start - more), 0), side - 1)
        found.append((first, min(max(math.ceil(end + more), first + 1), side) - first))
    return found[0][0], found[1][0], found[0][1], found[1][1]


def random_boxes(noise, count):
    x = np.sort(noise.uniform(-20, 110, (count, 2)), 1)
    y = np.sort(noise.uniform(-20, 80, (count, 2)), 1)
    return np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], 1).astype(np.float32)


@pytest.mark.parametrize("margin", [0.0, 0.1, 2.0])
def test_the_crop_surrounds_the_box_that_the_record_names(margin):
    noise, taken = np.random.default_rng(3), set()
    for number in range(60):
        boxes = random_boxes(noise, 4)
        for which in ("random", "largest", "first"):
            record = CropAroundBox(which, margin).sample(*SIZE, seed=2, id=number, items=boxes)
            box = boxes[record["box"]]
            found = tuple(record[name] for name in ("top", "left", "height", "width"))
            assert found == expected([float(x) for x in box], margin)
            if which == "first":
                assert record["box"] == 0
            elif which == "largest":
                inside = np.clip(boxes, 0, [*SIZE[::-1]] * 2).astype(np.float64)
                areas = np.prod(inside[:, 2:] - inside[:, :2], 1)
                assert areas[record["box"]] == areas.max()
            else:
                taken.add(record["box"])
    assert taken == {0, 1, 2, 3}


def test_boxes_that_do_not_count_are_passed_over():
    nan = float("nan")
    boxes = np.float32([[nan, 0, 5, 5], [9, 9, 2, 2], [10, 20, 30, 40]])
    for which in ("random", "largest", "first"):
        op = CropAroundBox(which)
        assert {op.sample(*SIZE, id=n, items=boxes)["box"] for n in range(9)} == {2}
        for none in (boxes[:2], boxes[:0]):
            record = op.sample(*SIZE, items=none)
            assert record == {"top": 0, "left": 0, "height": 60, "width": 90, "box": -1}


def test_pixels_boxes_and_fields_follow_in_a_pipeline():
    @pipeline
    def objects(sample):
        image, boxes = ops.crop_around_box(sample.image, sample.boxes, which="largest", margin=0.5)
        boxes = ops.unlinked(boxes)  # in pixels of the crop
        return {"image": ops.resize(image, size=(8, 8)), "boxes": boxes, "tall": image.height}

    y, x = np.mgrid[:60, :90]
    image = np.stack([x, y, x], 2).astype(np.uint8)
    corners = np.float32([[0, 0, 3, 3], [40, 20, 60, 30], [65, 31, 80, 33]])
    fields = {"image": image, "boxes": {"xyxy": corners, "label": np.arange(3)}}
    found = objects(fields)
    assert found["tall"] == 20
    assert found["boxes"]["label"].tolist() == [1, 2]
    assert found["boxes"]["xyxy"].tolist() == [[10, 5, 30, 15], [35, 16, 40, 18]]
    none = {"xyxy": corners[:0], "label": np.arange(0)}
    assert objects({"image": image, "boxes": none})["tall"] == 60


def test_mistakes():
    with pytest.raises(ParameterError, match="crop_around_box: expected which to be one of random"):
        CropAroundBox("smallest")
    with pytest.raises(ParameterError, match="crop_around_box: expected margin to be a number"):
        CropAroundBox(margin=-0.1)
    with pytest.raises(BuildError, match="crop_around_box decides from boxes: call it with an ima"):
        pipeline(lambda s: {"image": ops.crop_around_box(s.image)})(
            {"image": np.zeros((9, 9, 3), np.uint8)}
        )
