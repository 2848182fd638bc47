"""Damaged pictures: a reason, or a picture of the recorded size; never anything else."""

import contextlib
import io

import numpy as np
import pytest
from PIL import Image

from stoker.dataset.images.codecs import ImageScratch, decode_picture
from stoker.dataset.images.inspection import Scratches, inspect_picture
from stoker.dataset.limits import CodecError

GUARD = 99


@pytest.fixture(scope="module")
def originals(photographs, to_jpeg, to_png):
    small = {name: np.ascontiguousarray(pixels[:64, :48]) for name, pixels in photographs.items()}
    palette = io.BytesIO()
    Image.fromarray(small["coffee"]).convert("P").save(palette, "PNG")
    exif = io.BytesIO()
    mark = Image.Exif()
    mark[0x0112] = 6
    Image.fromarray(small["flower"]).save(exif, "PNG", exif=mark.tobytes())
    return {
        "baseline": to_jpeg(small["astronaut"]),
        "turned": to_jpeg(small["rocket"], 5),
        "progressive": to_jpeg(small["china"], progressive=True),
        "gray": to_jpeg(small["chelsea"][:, :, 0]),
        "png": to_png(small["coffee"]),
        "palette": palette.getvalue(),
        "png turned": exif.getvalue(),
    }


def attempt(data: bytes, size: tuple[int, int], orientation: int) -> bool:
    """Decode into guarded memory as the reader does; True if it gave a picture."""
    total = size[0] * size[1] * 3
    memory = np.full(total + 64, GUARD, np.uint8)
    try:
        pixels = decode_picture(data, "image", size, orientation, memory[:total], ImageScratch())
    except CodecError:
        good = False
    else:
        assert pixels.shape == (*size, 3)
        good = True
    assert (memory[total:] == GUARD).all()
    return good


NAMES = ["baseline", "turned", "progressive", "gray", "png", "palette", "png turned"]


@pytest.mark.parametrize("name", NAMES)
def test_truncated_at_any_place(originals, name):
    data = originals[name]
    picture = inspect_picture(data, "image", Scratches())
    size = (picture.height, picture.width)
    assert attempt(data, size, picture.orientation)
    for length in range(0, len(data), max(1, len(data) // 60)):
        assert not attempt(data[:length], size, picture.orientation), length
    assert not attempt(data[:-1], size, picture.orientation)


@pytest.mark.parametrize("name", NAMES)
def test_mutated_anywhere(originals, name):
    generator = np.random.default_rng(7)
    data = np.frombuffer(originals[name], np.uint8)
    picture = inspect_picture(originals[name], "image", Scratches())
    size = (picture.height, picture.width)
    scratch = Scratches()
    failed = 0
    for turn in range(120):
        bad = data.copy()
        reach = min(len(data), 700) if turn % 2 else len(data)
        places = generator.integers(3, reach, int(generator.integers(1, 5)))
        bad[places] = generator.integers(0, 256, places.size)
        failed += not attempt(bad.tobytes(), size, picture.orientation)
        with contextlib.suppress(CodecError):
            inspect_picture(bad.tobytes(), "image", scratch)
    assert failed


@pytest.mark.parametrize("form", ["BMP", "GIF", "TIFF", "WEBP", "PPM"])
def test_mutated_pictures_of_other_formats(photographs, form):
    generator = np.random.default_rng(8)
    out = io.BytesIO()
    Image.fromarray(photographs["rocket"][:40, :30]).save(out, form)
    data = np.frombuffer(out.getvalue(), np.uint8)
    scratch, refused = Scratches(), 0
    for _ in range(60):
        bad = data.copy()
        places = generator.integers(2, min(len(data), 200), 4)
        bad[places] = generator.integers(0, 256, places.size)
        try:
            inspect_picture(bad.tobytes(), "image", scratch)
        except CodecError:
            refused += 1
    assert refused


def test_random_bytes_behind_a_signature():
    generator = np.random.default_rng(9)
    scratch = Scratches()
    for start in (
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"BM",
        b"GIF89a",
        b"II*\0",
        b"P6",
        b"RIFF",
    ):
        for _ in range(20):
            noise = generator.integers(0, 256, 300).astype(np.uint8).tobytes()
            with pytest.raises(CodecError):
                inspect_picture(start + noise, "image", scratch)
