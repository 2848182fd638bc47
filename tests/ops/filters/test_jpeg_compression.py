"""jpeg_compression against libjpeg-turbo (by Pillow), file written and read back: bit for bit."""

import io

import numpy as np
import pytest
from PIL import Image

from stoker.ops import JpegCompression, ParameterError, State, StateError


def compressed(run_op, as_record, image, quality):
    record = as_record(JpegCompression.record)
    record["apply"], record["quality"] = 1, quality
    return run_op(JpegCompression(), [("image", image)], record=record).outputs[0]


def libjpeg(image, quality):
    file = io.BytesIO()
    Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image).save(
        file, "JPEG", quality=quality
    )
    return np.asarray(Image.open(io.BytesIO(file.getvalue()))).reshape(image.shape)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("quality", [1, 10, 49, 50, 75, 95, 100])
def test_pixels_are_libjpegs(run_op, as_record, photo, noise, quality, channels):
    for height, width in ((375, 500), (41, 67), (16, 16), (17, 18), (5, 3), (1, 1), (9, 5)):
        image = np.ascontiguousarray(photo[:height, :width, :channels])
        got = compressed(run_op, as_record, image, quality)
        assert (got == libjpeg(image, quality)).all(), (height, width)
    image = noise((50, 61, channels), classes=2) * np.uint8(255)
    assert (compressed(run_op, as_record, image, quality) == libjpeg(image, quality)).all()


def test_every_quality_of_the_range_is_drawn(run_op):
    drawn = [int(run_op.draw(JpegCompression((70, 73)), k, 9, 9)["quality"]) for k in range(100)]
    assert set(drawn) == {70, 71, 72, 73}


def test_what_is_no_photograph_is_refused():
    with pytest.raises(StateError, match=r"expected an image of 1 \(gray\) or 3 channels"):
        JpegCompression().declare((State.fixed("image", "uint8", (8, 9, 4)),))
    with pytest.raises(ParameterError) as caught:
        JpegCompression((0, 90))
    assert str(caught.value) == (
        "jpeg_compression: expected quality_range to be (low, high), integers with "
        "1 <= low <= high <= 100, got (0, 90)"
    )
