"""Letterbox: the image as Pillow resizes it, in the center; all else is the fill."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker.ops import Letterbox, ParameterError, State, StateError

side = st.integers(1, 80)


def placed(height, width, size_y, size_x):
    """Return (top, left, height, width) of the image in the output, with exact fractions."""
    if height * size_x >= width * size_y:
        inner = size_y, max(int(np.floor(width * size_y / height + 0.5)), 1)
    else:
        inner = max(int(np.floor(height * size_x / width + 0.5)), 1), size_x
    return (size_y - inner[0]) // 2, (size_x - inner[1]) // 2, *inner


@settings(max_examples=80, deadline=None)
@given(
    st.tuples(side, side),
    st.tuples(side, side),
    st.sampled_from(["bilinear", "bicubic"]),
    st.sampled_from(["uint8", "int32"]),
)
def test_letterbox_is_pillows_resize_in_a_frame(run_op, noise, size_in, size_out, name, dtype):
    image, mask = noise((*size_in, 3)), noise(size_in, 1, dtype, classes=200)
    op = Letterbox(size_out, fill=(1, 20, 255), mask_fill=77, interpolation=name)
    bound = (size_in[0] + 5, size_in[1] + 40)
    done = run_op(op, [("image", image), ("mask", mask)], bound=bound)
    top, left, height, width = placed(*size_in, *size_out)
    inside = (slice(top, top + height), slice(left, left + width))
    expected = np.full((*size_out, 3), (1, 20, 255), np.uint8)
    how = Image.Resampling.BICUBIC if name == "bicubic" else Image.Resampling.BILINEAR
    expected[inside] = np.asarray(Image.fromarray(image).resize((width, height), how))
    assert (done.outputs[0] == expected).all()
    expected = np.full(size_out, 77, dtype)
    nearest = Image.fromarray(mask).resize((width, height), Image.Resampling.NEAREST)
    expected[inside] = np.asarray(nearest)
    assert (done.outputs[1] == expected).all()


def test_the_whole_image_is_there_and_the_ratio_stays(run_op):
    for height, width in ((480, 640), (640, 480), (333, 334), (1, 900), (500, 500)):
        image = np.full((height, width, 1), 255, np.uint8)
        out = run_op(Letterbox(224), [("image", image)]).outputs[0][..., 0]
        rows, columns = out.any(1), out.any(0)
        assert max(rows.sum(), columns.sum()) == 224
        scale = 224 / max(height, width)
        assert abs(rows.sum() - max(height * scale, 1)) <= 0.5
        assert abs(columns.sum() - max(width * scale, 1)) <= 0.5
        assert abs(int(rows.argmax()) - int(rows[::-1].argmax())) <= 1
        assert abs(int(columns.argmax()) - int(columns[::-1].argmax())) <= 1


def test_messages():
    with pytest.raises(ParameterError) as caught:
        Letterbox(0)
    assert str(caught.value) == (
        "letterbox: expected size to be an integer, or (height, width), from 1 to 65535, got 0"
    )
    with pytest.raises(ParameterError, match="fill to be an integer from 0 to 255"):
        Letterbox(9, fill=-32769)
    with pytest.raises(ParameterError, match="interpolation to be one of nearest, bilinear, bicub"):
        Letterbox(9, interpolation="cubic")
    with pytest.raises(StateError) as error:
        Letterbox(9, mask_fill=256).declare((State.fixed("mask", "uint8", (9, 9)),))
    assert str(error.value) == (
        "letterbox: expected mask_fill from 0 to 255 for mask uint8[9x9], got 256"
    )
