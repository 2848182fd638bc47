"""Files of more than 8 bits: masks of instances and depth maps, as Pillow wrote them."""

import numpy as np
import pytest
import skimage.data
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import DatasetError, UsageError

GRAY = skimage.data.coins()[:40, :60]
NUMBERS = GRAY.astype(np.uint16) * 200
DEPTH = (GRAY / 7).astype(np.float32)


@pytest.fixture
def scenes(tmp_path):
    for folder in ("images", "masks", "tiffs", "depth", "floats"):
        (tmp_path / "s" / folder).mkdir(parents=True)
    Image.fromarray(skimage.data.coffee()[:40, :60]).save(tmp_path / "s/images/1.jpg")
    Image.fromarray(NUMBERS).save(tmp_path / "s/masks/1.png")
    Image.fromarray(NUMBERS).save(tmp_path / "s/tiffs/1.tif")
    Image.fromarray(NUMBERS).save(tmp_path / "s/depth/1.png")
    Image.fromarray(DEPTH).save(tmp_path / "s/floats/1.tif")
    return tmp_path / "s"


KINDS = {
    "masks": "mask[uint16]",
    "tiffs": "mask[int32]",
    "depth": "image[float32]",
    "floats": "image[float32]",
}


@pytest.mark.parametrize("bands", [True, False])
def test_numbers_are_those_of_the_file(tmp_path, scenes, bands):
    pack(scenes, tmp_path / "d", Options(workers=1, fields=KINDS, bands=bands))
    wanted = {
        "mask": NUMBERS,
        "tiff": NUMBERS,
        "depth": NUMBERS[..., None],
        "float": DEPTH[..., None],
    }
    with open_dataset(tmp_path / "d") as dataset:
        for name, expected in wanted.items():
            field = dataset.schema.field(name)
            got = dataset.decode(name, 0, np.empty(expected.size * 4, np.uint8))
            assert got.dtype == field.dtype
            assert np.array_equal(got.reshape(expected.shape), expected), name


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("masks", "mask"), ("tiffs", "mask"), ("depth", "image"), ("floats", "image")],
)
def test_without_a_dtype_the_error_names_it(tmp_path, scenes, folder, kind):
    dtype = r"mask\[uint16\]" if kind == "mask" else r"image\[float32\]"
    with pytest.raises(DatasetError, match=f"{folder}/1.*--field NAME={dtype}"):
        pack(scenes, tmp_path / "d", Options(workers=1, fields={**KINDS, folder: kind}))


def test_numbers_that_do_not_fit_and_kinds_that_there_are_not(tmp_path, scenes):
    with pytest.raises(UsageError, match=r"expected one of image, mask, mask\[uint16\]"):
        pack(scenes, tmp_path / "d", Options(workers=1, fields={"masks": "mask[int8]"}))
    with pytest.raises(DatasetError, match="whole numbers in a mask, got floats"):
        pack(scenes, tmp_path / "d", Options(workers=1, fields={**KINDS, "floats": "mask[int32]"}))
    Image.fromarray(np.full((40, 60), 70000, np.int32)).save(scenes / "tiffs/1.tif")
    with pytest.raises(DatasetError, match="class numbers that fit uint16, got 70000"):
        pack(scenes, tmp_path / "d", Options(workers=1, fields={**KINDS, "tiffs": "mask[uint16]"}))
