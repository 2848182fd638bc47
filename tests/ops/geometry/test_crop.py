"""crop: NumPy's slices of a padded image, what it refuses, and what it leaves of boxes."""

import numpy as np
import pytest

from stoker import ops
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import Crop, ParameterError
from stoker.pipeline import pipeline


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
@pytest.mark.parametrize(
    "place", [(0, 0), (3, 5), (-4, 2), (15, -9), (-30, 40), (19, 32), (200, 0)]
)
def test_a_window_is_a_slice_of_the_padded_image(run_op, noise, place, arithmetic):
    top, left = place
    image, mask = noise((20, 33, 3)), noise((20, 33), dtype="uint16")
    op = Crop((9, 14), top, left, fill=(1, 2, 3), mask_fill=500)
    found = run_op(op, [("image", image), ("mask", mask)], arithmetic=arithmetic).outputs
    wide = np.full((520, 560, 3), (1, 2, 3), np.uint8)
    wide[250:270, 250:283] = image
    far = np.full((520, 560), 500, np.uint16)
    far[250:270, 250:283] = mask
    window = np.s_[250 + top : 259 + top, 250 + left : 264 + left]
    assert np.array_equal(found[0], wide[window])
    assert np.array_equal(found[1], far[window])


def test_boxes_and_flow_move_along():
    @pipeline
    def cut(sample):
        image, boxes, flow = ops.crop(
            sample.image, sample.boxes, sample.flow, size=(10, 12), top=2, left=-3, fill=7
        )
        return {"image": image, "boxes": boxes, "flow": flow}

    fields = {
        "image": np.zeros((20, 30, 3), np.uint8),
        "boxes": {"xyxy": np.float32([[1, 1, 5, 6], [20, 3, 25, 9]])},
        "flow": np.ones((20, 30, 2), np.float32),
    }
    found = cut(fields, kinds={"flow": "flow"})
    assert found["boxes"]["xyxy"].tolist() == [[4, 0, 8, 4]]
    assert (found["image"][:, :3] == 7).all()
    assert not found["flow"][:, :3].any()
    assert (found["flow"][:, 3:] == 1).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": 0, "top": 0, "left": 0}, "crop: expected size to be an integer"),
        ({"size": 5, "top": 1.5, "left": 0}, "crop: expected top to be an integer from -65535 to"),
        ({"size": 5, "top": 0, "left": 70000}, "crop: expected left to be an integer"),
    ],
)
def test_mistakes(given, said):
    with pytest.raises(ParameterError, match=said):
        Crop(**given)
