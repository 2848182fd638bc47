"""Files that FFCV 1.0.2 wrote itself, compared with what FFCV reads from them.

`betons/write_betons.py` wrote them, and says what is in `betons`.
"""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack

BETONS = Path(__file__).parent / "betons"
JPEG = b"\xff\xd8\xff"


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Name -> (the packed dataset, what FFCV reads and was given)."""
    folder, found = tmp_path_factory.mktemp("betons"), {}
    for path in sorted(BETONS.glob("*.beton.xz")):
        beton = folder / path.stem
        beton.write_bytes(lzma.decompress(path.read_bytes()))
        pack(beton, folder / beton.stem, Options(workers=1, grid=False))
        beton.unlink()
        with np.load(BETONS / f"{beton.stem}.npz", allow_pickle=False) as arrays:
            found[beton.stem] = open_dataset(folder / beton.stem), dict(arrays)
    assert sorted(found) == ["pictures", "sizes", "two_writers", "values"]
    yield found
    for dataset, _ in found.values():
        dataset.close()


def given(arrays, name):
    """Return the values the writer was given, flat, one a row."""
    ends = np.cumsum(arrays[f"sizes_{name}"])
    return np.split(arrays[f"given_{name}"], ends[:-1])


@pytest.mark.parametrize("name", ["int", "float"])
def test_numbers(packed, name):
    dataset, arrays = packed["values"]
    found = np.array([dataset.read(name, row) for row in range(len(dataset))])
    assert found.tobytes() == arrays[name].tobytes()


@pytest.mark.parametrize("name", ["matrix", "flags", "words", "tensor", "bytes"])
def test_arrays_and_tensors(packed, name):
    dataset, arrays = packed["values"]
    for row, expected in enumerate(arrays[name]):
        found = dataset.read(name, row)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


@pytest.mark.parametrize(("name", "shape"), [("half", (1, 2, 1)), ("big_endian", (3,))])
def test_arrays_that_ffcv_writes_but_cannot_read(packed, name, shape):
    dataset, arrays = packed["values"]
    for row, expected in enumerate(given(arrays, name)):
        assert np.array_equal(dataset.read(name, row), expected.reshape(shape))


def test_bytes_also_where_some_are_empty(packed):
    """A run after an empty one begins at the same place."""
    dataset, arrays = packed["values"]
    for row, expected in enumerate(given(arrays, "sixteen_letters_")):
        assert bytes(dataset.read("sixteen_letters_", row)) == expected.tobytes()


def test_json(packed):
    dataset, arrays = packed["values"]
    texts = [expected.tobytes() for expected in given(arrays, "text")]
    assert json.loads(texts[3]) == "Grüße, 火"
    assert [bytes(dataset.read("text", row)) for row in range(len(dataset))] == texts


def picture(dataset, name, row, shape):
    out = np.empty(int(np.prod(shape)), np.uint8)
    found = dataset.decode(name, row, out)
    assert found.shape == tuple(shape)
    return found


def test_raw_pictures(packed):
    for which in ("pictures", "two_writers"):
        dataset, arrays = packed[which]
        for row, expected in enumerate(arrays["raw"]):
            assert np.array_equal(picture(dataset, "raw", row, expected.shape), expected)
            assert dataset.read("label", row) == arrays["label"][row, 0]


@pytest.mark.parametrize("name", ["jpg", "proportion"])
def test_jpegs(packed, name):
    """FFCV decodes by the fast DCT; so decoded, the stored JPEGs give its pixels exactly."""
    dataset, arrays = packed["pictures"]
    jpegs = 0
    for row, expected in enumerate(arrays[name]):
        data = bytes(dataset.read(name, row))
        if data.startswith(JPEG):
            found = simplejpeg.decode_jpeg(data, fastdct=True)
        else:
            found = picture(dataset, name, row, expected.shape)
        assert np.array_equal(found, expected)
        jpegs += data.startswith(JPEG)
    assert jpegs == {"jpg": len(dataset), "proportion": 1}[name]


def shapes(arrays):
    return [(20 + 8 * (row % 2), 28 - row, 3) for row in range(len(arrays["sizes_smart"]))]


def test_raw_pictures_of_several_sizes(packed):
    dataset, arrays = packed["sizes"]
    expected = given(arrays, "varying")
    for row, shape in enumerate(shapes(arrays)):
        found = picture(dataset, "varying", row, shape)
        assert np.array_equal(found.reshape(-1), expected[row])


def test_smart_mixes_raw_and_jpeg(packed):
    """Every second picture is above the threshold, so it is a JPEG; the others are exact."""
    dataset, arrays = packed["sizes"]
    expected = [value.astype(np.int16) for value in given(arrays, "smart")]
    differences = [
        float(np.abs(picture(dataset, "smart", row, shape) - expected[row].reshape(shape)).mean())
        for row, shape in enumerate(shapes(arrays))
    ]
    assert max(differences[::2]) == 0
    assert 0 < min(differences[1::2]) <= max(differences[1::2]) < 12
