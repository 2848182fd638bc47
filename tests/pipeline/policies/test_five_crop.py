"""Five and ten crops against NumPy slices and Pillow's crops, in torchvision's order."""

import numpy as np
import pytest
from PIL import Image, ImageOps

from stoker import ops
from stoker.ops.contract.states import ParameterError
from stoker.pipeline import Row, pipeline
from stoker.protocol.errors import BuildError


def five(image, height, width):
    """torchvision.transforms.functional.five_crop, with Pillow."""
    h, w = image.shape[:2]
    top, left = round((h - height) / 2), round((w - width) / 2)  # halves to even, as Python rounds
    corners = [(0, 0), (w - width, 0), (0, h - height), (w - width, h - height), (left, top)]
    picture = Image.fromarray(image)
    return [np.asarray(picture.crop((x, y, x + width, y + height))) for x, y in corners]


def ten(image, height, width, vertical):
    turn = ImageOps.flip if vertical else ImageOps.mirror
    mirrored = np.asarray(turn(Image.fromarray(image)))
    return five(image, height, width) + five(mirrored, height, width)


@pipeline
def crops(sample):
    plain = ops.five_crop(sample.image, sample.mask, size=(40, 57))
    across = ops.ten_crop(sample.image, size=64)
    down = ops.ten_crop(sample.image, size=(33, 64), vertical_flip=True)
    return {
        **{f"image{number}": image for number, (image, _) in enumerate(plain)},
        "mask": ops.stack(*(mask for _, mask in plain)),
        "across": ops.stack(*across),
        "down": ops.stack(*down),
    }


@pytest.mark.parametrize("size", [(75, 90), (64, 65), (70, 64), (151, 203)])
def test_crops_are_torchvisions(photo, size):
    image = photo[0][: size[0], 100 : 100 + size[1]].copy()
    mask = image[..., 1].copy()
    got = crops({"image": image, "mask": mask})
    for number, expected in enumerate(five(image, 40, 57)):
        assert np.array_equal(got[f"image{number}"], expected)
    assert np.array_equal(got["mask"], np.stack(five(mask, 40, 57)))
    assert np.array_equal(got["across"], np.stack(ten(image, 64, 64, vertical=False)))
    assert np.array_equal(got["down"], np.stack(ten(image, 33, 64, vertical=True)))


def test_machine_code_agrees(photo, both):
    image = photo[0][:75, :90].copy()
    plan = crops.plan_for({"image": image, "mask": image[..., 0].copy()})
    given = {"image": image, "mask": image[..., 0].copy()}
    (outputs,) = both(plan, [Row(1, 2, 3)], [given[name] for name in plan.fields])
    assert len(outputs) == 8
    assert plan.streams == ()


def test_boxes_are_cut_with_the_image():
    """A painted rectangle and its box arrive at one place in each crop, or are both gone."""
    image = np.zeros((60, 80, 3), np.uint8)
    image[5:15, 50:70] = 255
    boxes = {"xyxy": np.array([[50, 5, 70, 15]], np.float32)}

    @pipeline
    def train(sample):
        both = ops.ten_crop(sample.image, sample.boxes, size=(40, 50))
        named = {}
        for number, (crop, inside) in enumerate(both):
            named |= {f"image{number}": crop, f"boxes{number}": inside}
        return named

    got = train({"image": image, "boxes": boxes})
    seen = 0
    for number in range(10):
        rows, columns = np.nonzero(got[f"image{number}"][..., 0])
        left = got[f"boxes{number}"]["xyxy"]
        assert len(left) == bool(rows.size)
        if rows.size:
            expected = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            assert left.tolist() == [expected]
            seen += 1
    assert seen == 4


def test_a_smaller_image_is_filled():
    image = np.full((5, 7, 3), 9, np.uint8)

    @pipeline
    def train(sample):
        return {"x": ops.stack(*ops.five_crop(sample.image, size=(8, 6), fill=100))}

    top_left, _, bottom_left, _, center = train({"image": image})["x"][..., 0]
    assert (top_left[:5] == 9).all()
    assert (top_left[5:] == 100).all()
    assert (bottom_left[3:] == 9).all()
    assert (bottom_left[:3] == 100).all()
    assert (center[1:6] == 9).all()


def test_what_is_refused():
    def refused(error, message, body):
        with pytest.raises(error, match=message):
            pipeline(lambda sample: {"x": body(sample)[0]}).graph()

    refused(ParameterError, "corner_crop: expected size", lambda s: ops.five_crop(s.image, size=0))
    refused(BuildError, "corner_crop: expected fields of a sample", lambda s: ops.five_crop(size=3))
    refused(BuildError, "mirror: expected fields of a sample", lambda s: ops.ten_crop(size=3))
    with pytest.raises(ParameterError, match="expected corner to be one of top_left, top_right"):
        ops.CornerCrop(4, "left")
    with pytest.raises(ParameterError, match="expected axis to be one of horizontal, vertical"):
        ops.Mirror("both")
