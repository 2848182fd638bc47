"""Packing NumPy arrays: what np.load gives is what the dataset holds; what cannot be is named."""

import importlib

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import UsageError

ONE = Options(workers=1)


@pytest.fixture(scope="module")
def arrays(photographs):
    """Twenty-four small crops of photographs, and what belongs to them."""
    crops = [pixels[row : row + 24, 40:72] for pixels in photographs.values()
             for row in (0, 30, 60, 90)]  # fmt: skip
    images = np.stack(crops)
    numbers = np.arange(len(images))
    return {
        "images": images,
        "masks": (images.sum(3) // 200).astype(np.uint8),
        "labels": (numbers % 5).astype(np.uint8),
        "pose": (numbers[:, None, None] + np.ones((17, 2)) / 3).astype(">f4"),
        "weight": numbers / 7,
        "night": numbers % 2 == 0,
    }


def check(folder, arrays):
    """Every field holds the rows of its array."""
    with open_dataset(folder) as dataset:
        found = {field.name: (field.kind, field.dtype) for field in dataset.schema.fields}
        assert found == {
            "image": ("image", "uint8"),
            "mask": ("mask", "uint8"),
            "label": ("label", "int64"),
            "pose": ("array", "float32"),
            "weight": ("scalar", "float64"),
            "night": ("scalar", "bool"),
        }
        out = np.empty(2**16, np.uint8)
        for number in range(len(arrays["images"])):
            for name in ("image", "mask"):
                pixels = dataset.decode(name, number, out)
                assert np.array_equal(pixels, arrays[f"{name}s"][number])
            assert dataset.read("label", number) == arrays["labels"][number]
            for name in ("pose", "weight", "night"):
                assert np.array_equal(dataset.read(name, number), arrays[name][number])


def test_each_form_of_files_gives_the_same_dataset(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    np.savez_compressed(tmp_path / "b.npz", **arrays)
    (tmp_path / "c").mkdir()
    for name, array in arrays.items():
        np.save(tmp_path / "c" / f"{name}.npy", array)
    prints = set()
    for name in ("a.npz", "b.npz"):
        report = pack(tmp_path / name, tmp_path / f"d-{name}", ONE)
        assert report.kind == "arrays"
        check(tmp_path / f"d-{name}", arrays)
        prints.add(report.manifest.fingerprint)
    with open_dataset(tmp_path / "d-a.npz") as dataset:
        assert dataset.source(3) == "a.npz[3]"
    assert len(prints) == 1
    pack(tmp_path / "c", tmp_path / "d", ONE)  # in alphabetical order, so another fingerprint
    check(tmp_path / "d", arrays)


def test_the_fingerprint_is_that_of_rows_that_were_written(tmp_path, arrays):
    two = {name: arrays[name] for name in ("images", "labels")}
    np.savez(tmp_path / "a.npz", **two)
    rows = [
        {"image": image, "label": int(label)} for image, label in zip(*two.values(), strict=True)
    ]
    written = write(tmp_path / "w", [schema.image(encoding="raw"), schema.label()], rows)
    packed = pack(tmp_path / "a.npz", tmp_path / "d", ONE)
    assert packed.manifest.fingerprint == written.fingerprint


def test_files_of_plain_bytes(tmp_path, arrays):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "images.bin").write_bytes(arrays["images"].tobytes())
    (tmp_path / "s" / "labels.raw").write_bytes(arrays["labels"].astype("<i8").tobytes())
    (tmp_path / "s" / "pose.f4").write_bytes(arrays["pose"].astype("<f4").tobytes())
    fields = {"images.bin": "image[24,32,3]", "labels.raw": "label", "pose.f4": "float32[17,2]"}
    pack(tmp_path / "s", tmp_path / "d", Options(workers=1, kind="arrays", fields=fields))
    with open_dataset(tmp_path / "d") as dataset:
        assert [field.kind for field in dataset.schema.fields] == ["image", "label", "array"]
        for number in (0, 11, 23):
            assert np.array_equal(dataset.read("image", number), arrays["images"][number])
            assert dataset.read("label", number) == arrays["labels"][number]
            assert np.array_equal(dataset.read("pose", number), arrays["pose"][number])


def test_splits_by_their_names(tmp_path):
    digits = importlib.import_module("sklearn.datasets").load_digits()  # a slow import
    rows = digits.images.astype(np.uint8)
    split = {"x_train": rows[:1000], "y_train": digits.target[:1000, None],
             "x_test": rows[1000:], "y_test": digits.target[1000:, None]}  # fmt: skip
    np.savez_compressed(tmp_path / "digits.npz", **split)
    with pytest.raises(UsageError, match=r"both give|differ in their number of rows: x_train 1000"):
        pack(tmp_path / "digits.npz", tmp_path / "d", ONE)
    pack(tmp_path / "digits.npz", tmp_path / "d", Options(workers=1, split="test"))
    with open_dataset(tmp_path / "d") as dataset:
        assert [(field.name, field.kind) for field in dataset.schema.fields] == [
            ("image", "image"),
            ("label", "label"),
        ]
        assert dataset.schema.field("image").shape == (8, 8, 1)
        assert len(dataset) == len(rows) - 1000
        assert np.array_equal(dataset.read("image", 5)[..., 0], rows[1005])
        assert dataset.read("label", 5) == digits.target[1005]
    with pytest.raises(
        UsageError, match="--split dev: no array has it in its name; the arrays are x_t"
    ):
        pack(tmp_path / "digits.npz", tmp_path / "e", Options(workers=1, split="dev"))


def test_one_array_alone(tmp_path, arrays):
    np.save(tmp_path / "images.npy", arrays["images"])
    report = pack(tmp_path / "images.npy", tmp_path / "d", ONE)
    assert [field.name for field in report.manifest.schema.fields] == ["image"]
    assert report.manifest.rows == 24


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"a": np.array([{}, 1], object)},
            r"array 'a': expected an array of numbers, got one of object",
        ),
        ({"a": np.array(["x", "y"])}, r"array 'a': expected an array of numbers, got one of <U1"),
        ({"a": np.array(1)}, r"array 'a': expected one row per sample, got the shape \(\)"),
        ({"a": np.zeros((0, 3))}, r"expected one row per sample, got the shape \(0, 3\)"),
        ({"a": np.zeros((4, 3), order="F")}, r"expected an array in C order, got Fortran ord"),
        ({"a": np.zeros(4), "b": np.zeros(5)}, "differ in their number of rows: a 4, b 5; leave"),
        ({"a": np.zeros(4), "as": np.zeros(4)}, "arrays 'a' and 'as' both give the field 'a'"),
    ],
)
def test_arrays_that_cannot_be(tmp_path, change, message):
    np.savez(tmp_path / "a.npz", **change)
    with pytest.raises(UsageError, match=message):
        pack(tmp_path / "a.npz", tmp_path / "d", ONE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"x": "image"}, "--field x=image: .*a.npz has no such array, only images, weight"),
        ({"images": "photo"}, "--field images=photo: expected a kind among image, mask, label"),
        (
            {"images": "mask"},
            r"array 'images' has dtype uint8 and rows of shape \(24, 32, 3\), so it",
        ),
        (
            {"weight": "label"},
            r"array 'weight' has dtype float64 and rows of shape \(\), so it cannot",
        ),
        ({"images": "ignore", "weight": "ignore"}, "no array is left as a field"),
    ],
)
def test_kinds_that_cannot_be(tmp_path, arrays, fields, message):
    np.savez(tmp_path / "a.npz", images=arrays["images"], weight=arrays["weight"])
    with pytest.raises(UsageError, match=message):
        pack(tmp_path / "a.npz", tmp_path / "d", Options(workers=1, fields=fields))


def test_ignored_arrays_are_not_looked_at(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", notes=np.array([{}], object), images=arrays["images"])
    options = Options(workers=1, fields={"notes": "ignore"})
    assert pack(tmp_path / "a.npz", tmp_path / "d", options).manifest.rows == 24


def test_files_that_cannot_be(tmp_path, arrays):
    def fails(message, source, **options):
        with pytest.raises(UsageError, match=message):
            pack(source, tmp_path / "d", Options(workers=1, kind="arrays", **options))

    (tmp_path / "a.npz").write_bytes(b"PK and so on")
    fails("a.npz as an .npz archive: File is not a zip file", tmp_path / "a.npz")
    (tmp_path / "b.npy").write_bytes(b"no array")
    fails("b.npy: expected a readable .npy file", tmp_path / "b.npy")
    head = b"{'descr': (\n"  # numpy takes an old header apart by tokens
    (tmp_path / "b.npy").write_bytes(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head)
    fails("b.npy: expected a readable .npy file", tmp_path / "b.npy")
    np.save(tmp_path / "c.npy", arrays["weight"])
    with open(tmp_path / "c.npy", "r+b") as file:
        file.truncate(200)
    fails("expected 192 bytes of data, from its header, got 72; it is damaged", tmp_path / "c.npy")
    fails("e.npy does not exist; check the path", tmp_path / "e.npy")
    (tmp_path / "s").mkdir()
    fails("has no .npy file; for files of plain bytes use --field FILE=", tmp_path / "s")
    (tmp_path / "s" / "x.bin").write_bytes(bytes(10))
    fails("the form of a row, such as image", tmp_path / "s", fields={"x.bin": "photo"})
    message = r"expected a whole number of rows of 3 bytes \(uint8 of shape \(3,\)\), got 10 bytes"
    fails(message, tmp_path / "s", fields={"x.bin": "uint8[3]"})
