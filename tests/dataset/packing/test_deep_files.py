"""Files of more than 8 bits from Pillow and OpenCV: images, masks of instances, depth maps."""

import io
import re
import struct

import cv2
import numpy as np
import pytest
import skimage.data
from commands import call
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.images.transcode import transcode
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import DatasetError

GRAY = skimage.data.coins()[:40, :60]
NUMBERS = GRAY.astype(np.uint16) * 200
DEPTH = (GRAY / 7).astype(np.float32)
UNITS = (GRAY.astype(np.int16) * 12 - 1024).astype("<i2")


def signed_tiff(numbers):
    """A TIFF of one strip of int16 (SampleFormat 2), which Pillow reads but does not write."""
    height, width = numbers.shape
    data, short, long = numbers.tobytes(), 3, 4
    tags = [
        (256, short, width), (257, short, height), (258, short, 16), (259, short, 1),
        (262, short, 1), (273, long, 8), (277, short, 1), (278, short, height),
        (279, long, len(data)), (339, short, 2),
    ]  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, form, 1, value) for tag, form, value in tags)
    folder = struct.pack("<H", len(tags)) + entries + bytes(4)
    return b"II*\0" + struct.pack("<I", 8 + len(data)) + data + folder


@pytest.fixture
def scenes(tmp_path):
    for folder in ("images", "masks", "tiffs", "depth", "floats", "xrays", "scans", "units"):
        (tmp_path / "s" / folder).mkdir(parents=True)
    Image.fromarray(skimage.data.coffee()[:40, :60]).save(tmp_path / "s/images/1.jpg")
    Image.fromarray(NUMBERS).save(tmp_path / "s/masks/1.png")
    Image.fromarray(NUMBERS).save(tmp_path / "s/tiffs/1.tif")
    Image.fromarray(NUMBERS).save(tmp_path / "s/depth/1.png")
    cv2.imwrite(str(tmp_path / "s/xrays/1.png"), NUMBERS)
    cv2.imwrite(str(tmp_path / "s/scans/1.tif"), NUMBERS)
    Image.fromarray(DEPTH).save(tmp_path / "s/floats/1.tif")
    (tmp_path / "s/units/1.tif").write_bytes(signed_tiff(UNITS))
    return tmp_path / "s"


KINDS = {
    "masks": "mask[uint16]",
    "tiffs": "mask[int32]",
    "depth": "image[float32]",
    "xrays": "image[uint16]",
    "scans": "image[uint16]",
    "floats": "image[float32]",
    "units": "image[int16]",
}


@pytest.mark.parametrize("bands", [True, False])
def test_numbers_are_those_of_the_file(tmp_path, scenes, bands):
    pack(scenes, tmp_path / "d", Options(workers=1, fields=KINDS, bands=bands))
    wanted = {
        "mask": NUMBERS,
        "tiff": NUMBERS,
        "depth": NUMBERS[..., None],
        "float": DEPTH[..., None],
        "xray": NUMBERS[..., None],
        "scan": NUMBERS[..., None],
        "unit": UNITS[..., None],
    }
    with open_dataset(tmp_path / "d") as dataset:
        for name, expected in wanted.items():
            field = dataset.schema.field(name)
            got = dataset.decode(name, 0, np.empty(expected.size * 4, np.uint8))
            assert got.dtype == field.dtype
            assert np.array_equal(got.reshape(expected.shape), expected), name


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("masks", "mask"),
        ("tiffs", "mask"),
        ("xrays", "uint16"),
        ("scans", "uint16"),
        ("floats", "float32"),
    ],
)
def test_without_a_dtype_the_error_names_it(tmp_path, scenes, folder, kind):
    dtype = r"mask\[uint16\]" if kind == "mask" else rf"image\[{kind}\]"
    kind = "mask" if kind == "mask" else "image"
    with pytest.raises(DatasetError, match=f"{folder}/1.*--field NAME={dtype}"):
        pack(scenes, tmp_path / "d", Options(workers=1, fields={**KINDS, folder: kind}))


def test_images_of_16_bits_that_are_not(tmp_path, scenes):
    def refused(name, kind, message):
        flags = [f"--field={field}={form}" for field, form in {**KINDS, name: kind}.items()]
        code, _, error = call("pack", scenes, tmp_path / "d", "--workers=1", *flags, COLUMNS="9999")
        assert code == 1
        assert re.search(message, error), error

    refused(
        "floats", "image[uint16]", r"whole numbers for uint16, got floats; declare image\[float"
    )
    refused("floats", "image[int16]", r"whole numbers for int16, got floats; declare image\[float")
    refused("xrays", "image[int16]", "numbers do not fit int16 exactly")
    cv2.imwrite(str(scenes / "xrays/1.png"), GRAY)
    refused("xrays", "image[uint16]", "expected 16 bits per channel.*got a file of 8 bits.*by 257")
    cv2.imwrite(str(scenes / "xrays/1.png"), np.dstack([NUMBERS] * 3))
    refused("xrays", "image[uint16]", "one frame of one channel, got mode RGB")
    cv2.imwrite(str(scenes / "xrays/1.png"), NUMBERS)
    Image.fromarray(np.full((40, 60), 70000, np.int32)).save(scenes / "scans/1.tif")
    refused("scans", "image[uint16]", "numbers do not fit uint16 exactly")


COLORS = np.dstack([NUMBERS, NUMBERS // 2, NUMBERS // 3])


@pytest.mark.parametrize("name", ["1.tif", "1.ppm", "1.png"])
def test_colors_of_16_bits_are_never_reduced_to_8(tmp_path, name):
    (tmp_path / "s/cat").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "s/cat" / name), COLORS)
    with pytest.raises(DatasetError, match=rf"{name}.*16 bits per channel"):
        pack(tmp_path / "s", tmp_path / "d", Options(workers=1))


@pytest.mark.parametrize("most", [1, 20, 255, 300])
@pytest.mark.parametrize("binary", [True, False])
def test_a_mask_of_a_pgm_keeps_its_class_numbers(most, binary):
    """Pillow scales the numbers of a PGM by its greatest level."""
    classes = (np.arange(48).reshape(6, 8) % min(most + 1, 256)).astype(
        ">u2" if most > 255 else "u1"
    )
    body = classes.tobytes() if binary else " ".join(map(str, classes.ravel())).encode()
    file = b"P%d\n# drawn\n8 6\n%d\n" % (5 if binary else 2, most) + body
    png, notes = transcode(file, "mask")
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png))), classes)
    assert notes == ("PNM re-encoded as PNG without loss",)


def test_a_folder_of_classes_with_images_of_16_bits(tmp_path):
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / "s" / name).mkdir(parents=True)
        cv2.imwrite(str(tmp_path / "s" / name / "1.png"), NUMBERS + number)
    with pytest.raises(DatasetError, match=r"cat/1.png.*--field NAME=image\[uint16\]"):
        pack(tmp_path / "s", tmp_path / "d", Options(workers=1))
    fields = {"image": "image[uint16]"}
    pack(tmp_path / "s", tmp_path / "d", Options(workers=1, fields=fields, overwrite=True))
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("label").classes == ("cat", "dog")
        for number in range(2):
            got = dataset.decode("image", number, np.empty(NUMBERS.size * 2, np.uint8))
            assert np.array_equal(got[..., 0], NUMBERS + number)
