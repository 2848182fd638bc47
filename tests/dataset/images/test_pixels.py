"""Pictures of other pixels than bytes: float images of 1 to 16 channels, masks of many classes."""

import sys

import numpy as np
import pytest
import skimage.data

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.format.image_conversion import Conversion
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.verify import verify
from stoker.protocol.errors import DatasetError, UsageError

ONE = Options(workers=1)
FIELDS = [
    schema.image("depth", "raw", dtype="float32", channels=1),
    schema.image("radiance", "raw", dtype="float32"),
    schema.image("scan", "raw", channels=4),
    schema.mask("tissue", "raw", dtype="uint16"),
    schema.mask("instance", "raw", dtype="int32"),
    schema.image("banded_depth", "bands", dtype="float32", channels=1),
    schema.image("banded_scan", "bands", channels=4),
    schema.mask("banded_instance", "bands", dtype="int32"),
]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, np.ndarray]]:
    """Cuts of photographs and of skimage's stack of cells, of differing sizes."""
    coins, cells = skimage.data.coins(), skimage.data.astronaut()
    found = []
    for number in range(7):
        cut = (slice(9 * number, 60 + 5 * number), slice(4 * number, 50 + 7 * number))
        gray, color = coins[cut], cells[cut]
        found.append(
            {
                "depth": np.sqrt(gray[..., None].astype(np.float32)) - number,
                "radiance": np.exp2(color.astype(np.float32) / 16).astype(np.float32),
                "scan": np.dstack([color, gray]),
                "tissue": gray.astype(np.uint16) * 257,
                "instance": gray.astype(np.int32) * 100_000 - 7,
            }
        )
    found[0]["depth"][0, 0] = (np.nan,)
    for row in found:
        row |= {f"banded_{name}": row[name] for name in ("depth", "scan", "instance")}
    return found


def memory(dataset) -> np.ndarray:
    return np.empty(max(int(np.prod(f.bound)) * 4 for f in dataset.schema.fields), np.uint8)


def test_pixels_come_back(tmp_path, rows):
    write(tmp_path / "d", FIELDS, rows)
    with open_dataset(tmp_path / "d") as dataset:
        assert [f.dtype for f in dataset.schema.fields] == [f.dtype for f in FIELDS]
        out = memory(dataset)
        for number, row in enumerate(rows):
            for name, pixels in row.items():
                values = [dataset.decode(name, number, out)]
                if not name.startswith("banded"):
                    values.append(dataset.read(name, number))
                for found in values:
                    assert found.dtype == pixels.dtype
                    assert found.shape == pixels.shape
                    assert found.tobytes() == pixels.tobytes()
    assert verify(tmp_path / "d").bad == 0


def test_a_box_of_bands_is_the_box_of_the_whole(tmp_path, rows):
    write(tmp_path / "d", FIELDS, rows)
    with open_dataset(tmp_path / "d") as dataset:
        for name in ("banded_depth", "banded_scan", "banded_instance"):
            for number, row in enumerate(rows):
                box = (7, 3 + number, 20, 11)
                inside = (slice(7, 27), slice(3 + number, 14 + number))
                found = dataset.decode_box(name, number, box, memory(dataset))
                assert found.shape == row[name].shape
                assert np.array_equal(found[inside], row[name][inside], equal_nan=True)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (schema.image("x", dtype="float32"), "expected dtype uint8 of kind image and encoding enc"),
        (schema.image("x", channels=1), "and 3 channels of kind image and encoding encoded"),
        (schema.image("x", "raw", channels=17), "and 1 to 16 channels of kind image"),
        (
            schema.image("x", "raw", dtype="float64"),
            "expected dtype uint8 or uint16 or int16 or float32",
        ),
        (schema.mask("x", "raw", dtype="int64"), "dtype uint8 or uint16 or int32"),
    ],
)
def test_what_cannot_be_a_picture_is_refused(tmp_path, field, message):
    with pytest.raises(UsageError, match=message):
        write(tmp_path / "d", [field], [])


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4, 1), np.float64),
        np.zeros((4, 4), np.float32),
        np.zeros((4, 4, 3), np.float32),
    ],
)
def test_pixels_that_do_not_fit_are_named(tmp_path, pixels):
    with pytest.raises(DatasetError, match=r"expected float32 pixels of shape \(H, W, 1\), got"):
        write(tmp_path / "d", FIELDS[:1], [{"depth": pixels}])


def test_numpy_arrays_that_are_said_to_be_pictures(tmp_path):
    depth = np.random.default_rng(1).normal(size=(5, 8, 9, 1)).astype(np.float32)
    organs = np.arange(5 * 8 * 9, dtype=np.uint16).reshape(5, 8, 9)
    np.savez(tmp_path / "scan.npz", depth=depth, organs=organs)
    asked = Options(workers=1, fields={"depth": "image", "organs": "mask"})
    pack(str(tmp_path / "scan.npz"), tmp_path / "d", asked)
    with open_dataset(tmp_path / "d") as dataset:
        found = {f.name: (f.kind, f.dtype, f.shape) for f in dataset.schema.fields}
        assert found == {
            "depth": ("image", "float32", (8, 9, 1)),
            "organ": ("mask", "uint16", (8, 9)),
        }
        for number in range(5):
            assert np.array_equal(dataset.read("depth", number), depth[number])
            organ = dataset.decode("organ", number, memory(dataset))
            assert np.array_equal(organ, organs[number])


def test_rows_of_an_object_that_are_said_to_be_pictures(tmp_path, monkeypatch):
    (tmp_path / "scans.py").write_text(
        "import numpy as np\n"
        "class Rows:\n"
        "    def __len__(self):\n        return 3\n"
        "    def __getitem__(self, index):\n"
        "        return {'scan': np.full((4 + index, 5, 2), index / 3, np.float32),\n"
        "                'mask': np.full((4 + index, 5), 70_000 + index, np.int32)}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    asked = Options(workers=1, fields={"scan": "image", "mask": "mask"})
    try:
        pack("scans:Rows", tmp_path / "d", asked)
    finally:
        sys.modules.pop("scans", None)
    with open_dataset(tmp_path / "d") as dataset:
        assert (dataset.read("scan", 2) == np.float32(2 / 3)).all()
        assert dataset.read("scan", 2).shape == (6, 5, 2)
        assert (dataset.decode("mask", 1, memory(dataset)) == 70_001).all()


def test_floats_are_not_made_smaller(tmp_path):
    depth = np.zeros((2, 8, 9, 1), np.float32)
    np.savez(tmp_path / "a.npz", depth=depth)
    for resize, fine in ((8, True), (4, False)):
        asked = Options(workers=1, fields={"depth": "image"}, conversion=Conversion(resize=resize))
        if fine:
            pack(str(tmp_path / "a.npz"), tmp_path / str(resize), asked)
            continue
        with pytest.raises(DatasetError, match="--resize scales uint8 images of 3 channels"):
            pack(str(tmp_path / "a.npz"), tmp_path / str(resize), asked)
