"""Packing CSV and Parquet files: what columns become, and what is wrong with a line."""

import csv
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.common.field_notation import field_name
from stoker.protocol.errors import DatasetError, UsageError

ONE = Options(workers=1)


@pytest.fixture
def listed(image_folder):
    """The image folder's files and classes, in the order in which packing it takes them."""
    files = sorted(image_folder.rglob("*.*"), key=lambda path: path.relative_to(image_folder).parts)
    names = [path.relative_to(image_folder) for path in files]
    return [(str(name), name.parts[0]) for name in names]


def write_csv(path, header, rows, **options):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, **options).writerows([header, *rows])
    return path


def kinds(dataset):
    return {field.name: (field.kind, field.dtype) for field in dataset.schema.fields}


def test_a_csv_of_an_image_folder_has_its_fingerprint(tmp_path, image_folder, listed):
    folder = pack(image_folder, tmp_path / "a", ONE)
    path = write_csv(image_folder / "all.csv", ["file_name", "class"], listed)
    table = pack(path, tmp_path / "b", ONE)
    assert table.kind == "table"
    assert table.manifest.fingerprint == folder.manifest.fingerprint
    moved = write_csv(tmp_path / "all.tsv", ["file_name", "class"], listed, delimiter="\t")
    again = pack(moved, tmp_path / "c", Options(workers=1, images=image_folder))
    assert again.manifest.fingerprint == folder.manifest.fingerprint
    columns = {name: list(values) for name, values in
               zip(("image", "label"), zip(*listed, strict=True), strict=True)}  # fmt: skip
    pq.write_table(pa.table(columns), image_folder / "all.parquet")
    parquet = pack(image_folder / "all.parquet", tmp_path / "d", ONE)
    assert parquet.manifest.fingerprint == folder.manifest.fingerprint
    assert parquet.manifest.statistics.fields["label"].per_class == (3, 3)


def test_columns_of_a_csv_become_what_they_hold(tmp_path, image_folder, listed):
    rows = [
        (path, number, f"{number / 7}", f'so "it" is, \u00fc{number}', number % 2 == 0, number - 3)
        for number, (path, _) in enumerate(listed)
    ]
    header = ["image", "shots", "weight", "caption (en)", "night", "target"]
    path = write_csv(image_folder / "all.csv", header, rows)
    options = Options(workers=1, fields={"night": "bool", "shots": "uint8"})
    pack(path, tmp_path / "d", options)
    with open_dataset(tmp_path / "d") as dataset:
        assert kinds(dataset) == {
            "image": ("image", "uint8"),
            "shots": ("scalar", "uint8"),
            "weight": ("scalar", "float64"),
            "caption__en_": ("bytes", "uint8"),
            "night": ("scalar", "bool"),
            "label": ("label", "int64"),
        }
        assert dataset.schema.field("label").classes is None
        for number in range(len(listed)):
            assert dataset.read("shots", number) == number
            assert dataset.read("weight", number) == number / 7
            assert bytes(dataset.read("caption__en_", number)).decode() == rows[number][3]
            assert dataset.read("night", number) == (number % 2 == 0)
            assert dataset.read("label", number) == number - 3


def test_numbers_that_are_none_are_kept(tmp_path):
    path = write_csv(tmp_path / "a.csv", ["x", "n"], [("nan", 2**63 - 1), ("-inf", -(2**63))])
    pack(path, tmp_path / "d", ONE)
    with open_dataset(tmp_path / "d") as dataset:
        assert math.isnan(dataset.read("x", 0))
        assert dataset.read("x", 1) == -math.inf
        assert [int(dataset.read("n", number)) for number in (0, 1)] == [2**63 - 1, -(2**63)]


def test_columns_of_parquet_become_what_their_types_say(tmp_path):
    rows = 5
    columns = {
        "half": pa.array(np.arange(rows, dtype=np.float16)),
        "count": pa.array(range(rows), pa.uint16()),
        "flag": pa.array([True, False, True, False, True]),
        "name": pa.array([f"n{number}" for number in range(rows)]).dictionary_encode(),
        "blob": pa.array([b"\0" * number for number in range(rows)]),
        "pose": pa.array([[number, 0.5, 2] for number in range(rows)], pa.list_(pa.float32(), 3)),
        "path": pa.array([[number] * number for number in range(rows)], pa.list_(pa.int32())),
        "when": pa.array(range(rows), pa.timestamp("s")),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match=r"column 'when' has type timestamp\[.*\], which cannot"):
        pack(tmp_path / "a.parquet", tmp_path / "d", ONE)
    pack(tmp_path / "a.parquet", tmp_path / "d", Options(workers=1, fields={"when": "ignore"}))
    with open_dataset(tmp_path / "d") as dataset:
        assert kinds(dataset) == {
            "half": ("scalar", "float16"),
            "count": ("scalar", "uint16"),
            "flag": ("scalar", "bool"),
            "name": ("bytes", "uint8"),
            "blob": ("bytes", "uint8"),
            "pose": ("array", "float32"),
            "path": ("array", "int32"),
        }
        assert dataset.schema.field("path").bound == (4,)
        for number in range(rows):
            assert dataset.read("half", number) == number
            assert bytes(dataset.read("name", number)).decode() == f"n{number}"
            assert bytes(dataset.read("blob", number)) == b"\0" * number
            assert dataset.read("pose", number).tolist() == [number, 0.5, 2]
            assert dataset.read("path", number).tolist() == [number] * number


def test_what_is_wrong_is_named_by_line(tmp_path, image_folder, listed):
    rows = [(path, 1, "7") for path, _ in listed]
    rows[1] = (rows[1][0], 1, "seven")
    rows[2] = (rows[2][0], "", "8")
    rows[3] = (rows[3][0], 300, "9")
    rows[4] = ("nowhere.jpg", 1, "9")
    path = write_csv(image_folder / "all.csv", ["image", "age", "n"], rows)
    with open(path, "a") as file:
        file.write("too,few\n")
    options = Options(workers=1, fields={"n": "int64", "age": "uint8"})
    with pytest.raises(DatasetError) as caught:
        pack(path, tmp_path / "d", options)
    message = str(caught.value)
    assert message.startswith("5 of 7 samples of")
    assert "all.csv:3: column 'n': expected int64, got 'seven'" in message
    assert "all.csv:4: column 'age' is empty" in message
    assert "all.csv:8: expected 3 values, as in the header, got 2" in message
    assert f"{rows[3][0]}: field 'age': a value does not fit uint8" in message
    assert "nowhere.jpg: it cannot be read: No such file or directory" in message
    skipping = Options(workers=1, fields=options.fields, skip_bad=True)
    assert pack(path, tmp_path / "d", skipping).manifest.rows == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "expected a header with a name per column"),
        (b"a,b\n", "has a header, but no rows"),
        (b"a,a\n1,2\n", "two columns are named 'a'; rename one"),
        (b"a;b\n1;2\n", "expected columns separated by ',', got 'a;b'; write it with ','"),
        (b"a\n\xff\n", "line 2: expected UTF-8, got the byte 0xff; save it as UTF-8, as in `iconv"),
        (b'a\n"b"c\n', "line 2: ',' expected after"),
        (b"a b,a-b\n1,2\n", "columns 'a b' and 'a-b' both give the field 'a_b'; rename one"),
    ],
)
def test_tables_that_cannot_be(tmp_path, text, message):
    (tmp_path / "a.csv").write_bytes(text)
    with pytest.raises(UsageError, match=message):
        pack(tmp_path / "a.csv", tmp_path / "d", ONE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"b": "int64"}, "--field b=...: .*a.csv has no such column; it has a"),
        ({"a": "ignore"}, "no column is left as a field"),
        ({"a": "photo"}, "--field a=photo: expected a kind among image, mask, label, text, bytes"),
        ({"a": "float32[3]"}, r"expected a kind without a shape for a CSV, got a=float32\[3\]"),
    ],
)
def test_kinds_that_cannot_be(tmp_path, fields, message):
    (tmp_path / "a.csv").write_bytes(b"a\n1\n")
    with pytest.raises(UsageError, match=message):
        pack(tmp_path / "a.csv", tmp_path / "d", Options(workers=1, fields=fields))


@pytest.mark.parametrize("kind", ["table", "huggingface"])
def test_a_parquet_file_with_a_name_that_is_not_text(tmp_path, kind):
    pq.write_table(pa.table({"column": [1]}), tmp_path / "a.parquet", store_schema=False)
    data = (tmp_path / "a.parquet").read_bytes().replace(b"column", b"col\xff\xfen")
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(UsageError, match=r"Parquet file"):
        pack(tmp_path / "a.parquet", tmp_path / "d", Options(workers=1, kind=kind))


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and so on")
    (tmp_path / "b.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    with pytest.raises(UsageError, match=r"b.parquet is not a Parquet file, or is damaged: \w+"):
        pack(tmp_path / "b.parquet", tmp_path / "d", Options(workers=1))
    with pytest.raises(UsageError, match=r"a.parquet is not a Parquet file, or is damaged"):
        pack(tmp_path / "a.parquet", tmp_path / "d", ONE)
    with pytest.raises(UsageError, match=r"c.txt: expected a table with the suffix .csv, .par"):
        pack(tmp_path / "c.txt", tmp_path / "d", Options(workers=1, kind="table"))
    with pytest.raises(UsageError, match=r"cannot read .*b.csv: No such file or directory"):
        pack(tmp_path / "b.csv", tmp_path / "d", Options(workers=1, kind="table"))


def test_names_become_identifiers():
    assert [field_name(text) for text in ("a b", "9", "", "\u00fc")] == ["a_b", "_9", "_", "_"]
