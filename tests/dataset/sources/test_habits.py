"""Sources as people have them: read as meant, or told in one line, or refused with what to do.

All through `stoker pack`, in the process of the tests.
"""

import base64
import io
import pickle
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import call
from PIL import Image

from stoker.dataset import open_dataset, schema, write
from stoker.protocol.errors import DatasetError


def png(level: int = 0, mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.new(mode, (9, 8), (level, 0, 0) if mode == "RGB" else level).save(out, "PNG")
    return out.getvalue()


def columns_of(tmp_path) -> dict[str, list]:
    """The fields of what was packed: name -> values."""
    with open_dataset(tmp_path / "packed") as dataset:
        return {
            field.name: [dataset.read(field.name, n) for n in range(len(dataset))]
            for field in dataset.schema.fields
        }


@pytest.mark.parametrize(
    ("text", "labels", "said"),
    [
        ("image, label\n0.png, cat\n1.png ,cat \n2.png,dog\n", [0, 0, 1], "label: cat: 2, dog: 1"),
        ("image,label\n0.png,10.0\n1.png,2.0\n2.png,2\n", [10, 2, 2], ""),
        (
            ",image,label\n0,0.png,7\n1,1.png,8\n2,2.png,9\n", [7, 8, 9],
            "table.csv: the unnamed first column of row numbers is left out",
        ),
        ("image,target\n0.png,0.5\n1.png,2.0\n2.png,-3\n", None, "target scalar float64"),
    ],
)  # fmt: skip
def test_tables_that_are_read_as_they_are_meant(tmp_path, pack, text, labels, said):
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(png(number))
    (tmp_path / "table.csv").write_text(text)
    code, out = pack("table.csv")
    assert (code, said in out) == (0, True), out
    found = columns_of(tmp_path)
    assert len(found["image"]) == 3
    if labels is not None:
        assert [int(label) for label in found["label"]] == labels
    else:
        assert [float(number) for number in found["target"]] == [0.5, 2.0, -3.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "0.png,cat\n1.png,dog\n",
            "the first line holds a sample ('0.png'); add a first line such",
        ),
        ("0.5,1.25\n0.25,3\n", "the first line holds a sample ('0.5')"),
        ("image,label\nnone.png,2\n", "none.png: it cannot be read: No such file or directory"),
        ("a,,c\n1,2,3\n", "expected a header with a name per column"),
        (",image\n5,0.png\n", "its first column has no name, and holds no row numbers from 0"),
        (
            f"image,label\n{base64.b64encode(png(1) * 3).decode()},1\n",
            "expected paths of images, got image files in base64",
        ),
        (f"image,label\n{png(1)!r},1\n", "got image files as Python shows bytes"),
    ],
)
def test_tables_that_are_refused(tmp_path, pack, text, said):
    (tmp_path / "0.png").write_bytes(png())
    (tmp_path / "table.csv").write_text(text)
    code, out = pack("table.csv")
    assert (code in (1, 2), said in out) == (True, True), out
    assert len(out) < 500, "no bytes of images are shown"


@pytest.mark.parametrize("form", ["bytes", "struct"])
def test_a_parquet_column_of_image_files_becomes_images(tmp_path, pack, form):
    files = [png(number) for number in range(3)]
    column = files
    if form == "struct":
        column = pa.array([{"bytes": file, "path": "x.png"} for file in files])
    pq.write_table(pa.table({"image": column, "label": [3, 4, 5]}), tmp_path / "table.parquet")
    code, out = pack("table.parquet")
    assert code == 0, out
    found = columns_of(tmp_path)
    assert [bytes(file) for file in found["image"]] == files
    assert [int(label) for label in found["label"]] == [3, 4, 5]


@pytest.mark.parametrize(
    ("names", "flags", "code", "said"),
    [
        (["0.png", "0_mask.png"], [], 2, "0_mask.png may be the mask of 0.*"),
        (["a/img_7.png", "a/mask_7.png"], [], 2, "a/mask_7.png may be the mask of a/img_7.*"),
        (["0.png", "0_gt.png"], ["--kind", "folder"], 0, "packed 2 samples"),
        (["0.png", "mask.png", "gas_mask.png"], [], 0, "packed 3 samples"),
        (["0.png", ".1.png", "._0.png", "Thumbs.db"], [], 0, "ignored: 2 hidden files or folders"),
        (["1/a.png", "2/a.png", "10/a.png"], [], 0, "class '1' has the label 0; if the labels"),
        (["0/a.png", "1/a.png", "2/a.png"], [], 0, "label: 0: 1, 1: 1, 2: 1"),
    ],
)
def test_folders_of_files(tmp_path, pack, names, flags, code, said):
    for name in names:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png())
    found, out = pack("photos", *flags)
    assert (found, said in out) == (code, True), out
    assert ("the classes are numbers" in out) == (names[0] == "1/a.png")


def test_arrays_of_gray_images_are_images(tmp_path, pack):
    """As in the NPZ of MNIST."""
    pixels = np.random.default_rng(0).integers(0, 256, (6, 28, 28), np.uint8)
    halves = {"x_train": pixels[:4], "y_train": np.arange(4), "x_test": pixels[4:]}
    np.savez(tmp_path / "mnist.npz", **halves, y_test=np.arange(2))
    code, out = pack("mnist.npz", "--split", "train")
    assert (code, "uint8 (28, 28, 1)" in out) == (0, True), out
    assert np.array_equal(np.stack(columns_of(tmp_path)["image"])[..., 0], pixels[:4])


@pytest.mark.parametrize(("shape", "told"), [((3, 8, 9), 1), ((1, 28, 28), 1), ((8, 9, 3), 0)])
def test_arrays_with_their_channels_first_are_told(tmp_path, pack, shape, told):
    np.savez(tmp_path / "a.npz", x=np.zeros((2, *shape), np.uint8), y=np.arange(2))
    code, out = pack("a.npz")
    said = "as images with their channels first, and is packed as an array; for images, save it"
    assert (code, said in out) == (0, told), out
    assert (
        "warning"
        not in pack("a.npz", "--overwrite", f"--field=x={'image' * (not told) or 'array'}")[1]
    )


@pytest.mark.parametrize(
    ("columns", "flags", "packed", "said"),
    [
        ({"label": [10.0, 2.0]}, (), [10.0, 2.0], "as float64, though its numbers are whole, as"),
        ({"label": [10.0, 2.0]}, ("--field", "label=label"), [10, 2], ""),
        ({"label": [10.0, 2.5]}, (), [10.0, 2.5], ""),
        (
            {"label": [1, 2], "__index_level_0__": [0, 1]},
            (),
            [1, 2],
            "the index of pandas, is left",
        ),
        ({" label ": ["cat", "dog"]}, (), [0, 1], ""),
    ],
)
def test_parquet_as_pandas_writes_it(tmp_path, pack, columns, flags, packed, said):
    pq.write_table(pa.table({"image": [png(), png(1)], **columns}), tmp_path / "t.parquet")
    code, out = pack("t.parquet", *flags)
    assert (code, said in out, "warning" in out) == (0, True, bool(said)), out
    found = columns_of(tmp_path)
    assert [value.item() for value in found["label"]] == packed
    assert "__index_level_0__" not in found


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32(), 2), pa.list_(pa.float64()), pa.list_(pa.int64())], ids=str
)
def test_labels_that_are_lists_are_packed_as_arrays(tmp_path, pack, kind):
    """As soft labels, or one number per class."""
    table = pa.table({"x": [1, 2], "target": pa.array([[0, 1], [1, 0]], kind)})
    pq.write_table(table, tmp_path / "t.parquet")
    code, out = pack("t.parquet")
    assert (code, "warning" in out) == (0, False), out
    assert [value.tolist() for value in columns_of(tmp_path)["target"]] == [[0, 1], [1, 0]]
    code, out = pack("t.parquet", "--overwrite", "--field", "target=label")
    assert (code, "column 'target': expected a label per row, got lists" in out) == (2, True), out


def test_a_label_that_is_nan_is_bad(tmp_path, pack):
    pq.write_table(pa.table({"x": [1, 2], "label": [1.0, float("nan")]}), tmp_path / "t.parquet")
    code, out = pack("t.parquet", "--field", "label=label")
    assert (code, "t.parquet:2: column 'label': expected int64, got nan" in out) == (1, True), out


def test_pickles_are_never_read_but_the_error_converts_those_of_cifar(tmp_path, pack, monkeypatch):
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (2, 5, 3072), np.uint8), rng.integers(0, 10, (2, 5))
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for number in range(2):
        batch = {b"data": pixels[number], b"labels": labels[number].tolist()}
        (folder / f"data_batch_{number + 1}").write_bytes(pickle.dumps(batch, protocol=2))
    for name in (folder.name, f"{folder.name}/data_batch_1"):
        code, out = pack(name)
        assert (code, "these are pickles, which Stoker does not read" in out) == (2, True), out
    _, _, errors = call("pack", folder, tmp_path / "packed")
    code = errors[errors.index("import pickle") : errors.index("and pack cifar.npz")]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "advice", "exec"), {})
    assert pack("cifar.npz")[0] == 0
    found = columns_of(tmp_path)
    assert [int(label) for label in found["label"]] == labels.ravel().tolist()
    expected = pixels.reshape(10, 3, 32, 32).transpose(0, 2, 3, 1)
    assert np.array_equal(np.stack(found["image"]), expected)


@pytest.mark.parametrize("name", ["model.pth", "data.pkl", "rows"])
def test_other_pickles(tmp_path, pack, name):
    (tmp_path / name).write_bytes(pickle.dumps([1, 2]))
    code, out = pack(name)
    assert (code, "is a pickle, which Stoker does not read" in out) == (2, True), out


def test_rows_with_labels_as_text(tmp_path):
    names = schema.label(classes=("cat", "dog"))
    write(tmp_path / "packed", [names], [{"label": "dog"}, {"label": 0}, {"label": "cat"}])
    assert [int(label) for label in columns_of(tmp_path)["label"]] == [1, 0, 0]
    for field, value, message in (
        (names, "dgo", "expected one of 2 classes, got 'dgo'; did you mean 'dog'"),
        (schema.label(), "dog", r"got text 'dog'; .* schema.label\(classes="),
        (schema.scalar("label", "float32"), "1.5", "expected float32, got text '1.5'"),
    ):
        with pytest.raises(DatasetError, match=message):
            write(tmp_path / "refused", [field], [{"label": value}])


def test_braces_name_files_that_must_all_exist(tmp_path, pack):
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        info = tarfile.TarInfo("a.png")
        info.size = len(png())
        tar.addfile(info, io.BytesIO(png()))
    assert pack("{0..0}.tar")[0] == 0
    code, out = pack("{0..1}.tar", "--overwrite")
    assert (code, "1.tar" in out) == (2, True), out


@pytest.mark.parametrize("place", ["annotations/instances_val.json", "all.json"])
def test_a_folder_with_annotations_is_not_packed_without_them(tmp_path, pack, place):
    for name in ("images/0.png", place):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "photos/images/0.png").write_bytes(png())
    (tmp_path / "photos" / place).write_text('{"images": [], "annotations": [], "categories": []}')
    code, out = pack("photos")
    remedy = (
        f"{place} has COCO annotations, which would be left out; to pack them, run `stoker pack"
    )
    assert (code, remedy in out) == (2, True), out
    assert pack("photos", "--kind", "folder")[0] == 0
    (tmp_path / "photos" / place).write_text('{"name": "of something else"}')
    assert pack("photos", "--kind", "folder", "--overwrite")[0] == 0
