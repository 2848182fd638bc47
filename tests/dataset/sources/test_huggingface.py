"""Hugging Face datasets as pyarrow writes them: Arrow streams and files, Parquet; faults named."""

import contextlib
import io
import json

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.formats.arrow_files import open_table
from stoker.dataset.sources.formats.huggingface import fields_of
from stoker.dataset.sources.formats.row_reader import value_of
from stoker.protocol.errors import DatasetError, UsageError

ONE = Options(workers=1, grid=False)
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
CLASSES = ["cat", "dog", "bird"]
FEATURES = {
    "image": {"_type": "Image"},
    "segmentation": {"_type": "Image"},
    "kind": {"names": CLASSES, "_type": "ClassLabel"},
    "weight": {"dtype": "float32", "_type": "Value"},
    "caption": {"dtype": "string", "_type": "Value"},
    "tags": {"feature": {"dtype": "int32", "_type": "Value"}, "length": -1, "_type": "Sequence"},
    "grid": {"shape": [2, 3], "dtype": "float32", "_type": "Array2D"},
}
COLUMNS = pa.schema(
    [
        ("weight", pa.float32()),
        ("image", PICTURE),
        ("kind", pa.int64()),
        ("segmentation", PICTURE),
        ("caption", pa.string()),
        ("tags", pa.list_(pa.int32())),
        ("grid", pa.list_(pa.list_(pa.float32()))),
    ],
    metadata={b"huggingface": json.dumps({"info": {"features": FEATURES}}).encode()},
)


@pytest.fixture
def rows(photographs, to_jpeg, to_png):
    return [
        {
            "weight": 0.5 * number,
            "image": {"bytes": to_jpeg(pixels), "path": f"{name}.jpg"},
            "kind": number % 3,
            "segmentation": {"bytes": to_png(pixels[:, :, 0] // 64), "path": None},
            "caption": f"a photograph: {name} \N{CAMERA}",
            "tags": list(range(number)),
            "grid": [[number, 1, 2], [3, 4, 5]],
        }
        for number, (name, pixels) in enumerate(photographs.items())
    ]


def batches(rows, columns=COLUMNS, each=2):
    for first in range(0, len(rows), each):
        yield pa.RecordBatch.from_pylist(rows[first : first + each], schema=columns)


def write_stream(path, rows, columns=COLUMNS, **options):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, columns, **options) as out:
        for batch in batches(rows, columns):
            out.write_batch(batch)


def write_file(path, rows, columns=COLUMNS):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, columns) as out:
        for batch in batches(rows, columns):
            out.write_batch(batch)


def write_parquet(path, rows, columns=COLUMNS):
    pq.write_table(pa.Table.from_pylist(rows, schema=columns), path, row_group_size=4)


WRITERS = {"stream": (write_stream, "arrow"), "file": (write_file, "arrow")}
WRITERS["parquet"] = (write_parquet, "parquet")


@pytest.fixture(params=WRITERS)
def folder(request, tmp_path, rows):
    """Two files of four and two rows."""
    write, suffix = WRITERS[request.param]
    root = tmp_path / "hf"
    (root / "data").mkdir(parents=True)
    write(root / "data" / f"train-00000-of-00002.{suffix}", rows[:4])
    write(root / "data" / f"train-00001-of-00002.{suffix}", rows[4:])
    (root / "README.md").write_text("a dataset card")
    return root


def test_columns_become_fields(tmp_path, folder, rows, photographs):
    report = pack(folder, tmp_path / "d", ONE)
    assert report.kind == "huggingface"
    with open_dataset(tmp_path / "d") as dataset:
        fields = [(field.name, field.kind, field.dtype) for field in dataset.schema.fields]
        assert fields == [
            ("image", "image", "uint8"),
            ("segmentation", "mask", "uint8"),
            ("kind", "label", "int64"),
            ("weight", "scalar", "float32"),
            ("caption", "bytes", "uint8"),
            ("tags", "array", "int32"),
            ("grid", "array", "float32"),
        ]
        assert dataset.schema.field("kind").classes == tuple(CLASSES)
        assert dataset.schema.field("grid").shape == (2, 3)
        for number, (row, pixels) in enumerate(zip(rows, photographs.values(), strict=True)):
            out = np.empty(pixels.size, np.uint8)
            with Image.open(io.BytesIO(row["image"]["bytes"])) as picture:
                expected = np.asarray(picture)
            assert np.array_equal(dataset.decode("image", number, out), expected)
            assert np.array_equal(dataset.decode("segmentation", number, out), pixels[..., 0] // 64)
            assert dataset.read("kind", number) == row["kind"]
            assert dataset.read("weight", number) == row["weight"]
            assert bytes(dataset.read("caption", number)).decode() == row["caption"]
            assert dataset.read("tags", number).tolist() == row["tags"]
            assert dataset.read("grid", number).tolist() == row["grid"]
        assert dataset.source(4).endswith("/0")


def test_all_forms_give_one_fingerprint(tmp_path, rows):
    found = set()
    for name, (write, suffix) in WRITERS.items():
        write(tmp_path / f"{name}.{suffix}", rows)
        manifest = pack(tmp_path / f"{name}.{suffix}", tmp_path / name, ONE).manifest
        found.add(manifest.fingerprint)
    assert len(found) == 1


def test_files_that_save_to_disk_named(tmp_path, rows):
    root = tmp_path / "saved"
    root.mkdir()
    for number in range(3):
        write_stream(root / f"data-{number}.arrow", rows[2 * number : 2 * number + 2])
    write_stream(root / "cache-0123456789abcdef.arrow", rows)
    everything = pack(root, tmp_path / "all", ONE).manifest.rows
    state = {"_data_files": [{"filename": "data-2.arrow"}, {"filename": "data-0.arrow"}]}
    (root / "state.json").write_text(json.dumps(state))
    pack(root, tmp_path / "d", ONE)
    with open_dataset(tmp_path / "d") as dataset:
        weights = [float(dataset.read("weight", number)) for number in range(len(dataset))]
    assert everything == 6
    assert weights == [2.0, 2.5, 0.0, 0.5]
    for state in ("{}", "not json", '{"_data_files": [{"filename": "../data-2.arrow"}]}'):
        (root / "state.json").write_text(state)
        with pytest.raises(UsageError, match=r"state.json (does not list|lists no) "):
            pack(root, tmp_path / "e", ONE)


def test_what_a_column_is_can_be_said(tmp_path, rows, photographs, to_jpeg):
    """Plain Parquet: pictures in a binary column, no metadata."""
    plain = pa.schema([("jpg", pa.binary()), ("label", pa.int16()), ("width", pa.int32())])
    made = [
        {"jpg": row["image"]["bytes"], "label": row["kind"], "width": number}
        for number, row in enumerate(rows)
    ]
    write_parquet(tmp_path / "a.parquet", made, plain)
    options = Options(
        workers=1, grid=False, kind="huggingface", fields={"jpg": "image", "width": "ignore"}
    )
    pack(tmp_path / "a.parquet", tmp_path / "d", options)
    with open_dataset(tmp_path / "d") as dataset:
        assert [(f.name, f.kind) for f in dataset.schema.fields] == [
            ("jpg", "image"),
            ("label", "label"),
        ]
        assert dataset.read("label", 2) == rows[2]["kind"]


def bad(tmp_path, rows, reason, columns=COLUMNS, write=write_stream, **options):
    path = tmp_path / ("bad.parquet" if write is write_parquet else "bad.arrow")
    write(path, rows, columns)
    with pytest.raises((DatasetError, UsageError), match=reason):
        pack(path, tmp_path / "d", Options(workers=1, grid=False, **options))


@pytest.mark.parametrize("write", [write_stream, write_parquet])
def test_bad_rows_are_named(tmp_path, rows, write):
    for column, value, reason in [
        ("kind", None, r"/1: field 'kind': expected a value, because a dataset has one for every"),
        ("kind", 7, r"/1: .*expected a class from 0 to 2, got 7"),
        ("image", {"bytes": None, "path": "a.jpg"}, r"its image is in another file \(a.jpg\)"),
        ("image", {"bytes": b"text", "path": None}, r"/1: .*expected a JPEG, PNG"),
        ("tags", [1, None], r"field 'tags': a number in it is null"),
        ("grid", [[1, 2], [3]], r"field 'grid': its lists differ in length: \[1, 2\]"),
        ("grid", [[1, 2], [3, 4]], r"expected shape \(2, 3\), got \(2, 2\)"),
    ]:
        changed = [rows[0], {**rows[1], column: value}]
        bad(tmp_path, changed, reason, write=write)


def test_columns_without_a_kind_are_named(tmp_path, rows):
    odd = COLUMNS.append(pa.field("when", pa.timestamp("s")))
    made = [{**row, "when": None} for row in rows]
    reason = r"column 'when' of type timestamp\[s\] cannot be stored in a dataset; leave it"
    bad(tmp_path, made, reason, odd)
    write_stream(tmp_path / "a.arrow", made, odd)
    options = Options(workers=1, grid=False, fields={"when": "ignore"})
    assert pack(tmp_path / "a.arrow", tmp_path / "d", options).manifest.rows == len(rows)
    bad(
        tmp_path,
        rows,
        "--field nose=image: .* has no such column, only weight",
        fields={"nose": "image"},
    )
    bad(
        tmp_path,
        rows,
        r"column 'caption' of type string cannot be label",
        fields={"caption": "label"},
    )
    twice = COLUMNS.append(pa.field("ta gs", pa.int8())).append(pa.field("ta-gs", pa.int8()))
    made = [{**row, "ta gs": 1, "ta-gs": 1} for row in rows]
    bad(tmp_path, made, "two columns give the field 'ta_gs'; leave one out with", twice)


def test_files_that_do_not_go_together(tmp_path, rows):
    root = tmp_path / "hf"
    root.mkdir()

    def refused(reason, **options):
        with pytest.raises(UsageError, match=reason):
            pack(root, tmp_path / "d", Options(workers=1, grid=False, **options))

    write_stream(root / "a.arrow", rows)
    write_parquet(root / "a.parquet", rows)
    refused("has Arrow and Parquet files, which may be the same rows twice")
    (root / "a.parquet").unlink()
    write_stream(root / "b.arrow", [{"weight": 1.0}], pa.schema([("weight", pa.float32())]))
    refused("b.arrow has other columns than a.arrow: weight float; expected weight float, image")
    (root / "b.arrow").rename(root / "cache-b.arrow")
    (root / "a.arrow").unlink()
    refused(r"has no data, only files named cache-\*; check the path")
    (root / "c.arrow").write_bytes(b"no arrow file at all")
    refused("none of its files can be read:\n  c.arrow: expected an Arrow IPC file")
    (root / "c.arrow").unlink()
    (root / "c.parquet").write_bytes(b"no parquet file at all")
    refused(
        "none of its files can be read:\n  c.parquet: expected a Parquet file", kind="huggingface"
    )


def test_a_damaged_file_keeps_the_rows_before_it(tmp_path, rows):
    write_stream(tmp_path / "a.arrow", rows)
    whole = (tmp_path / "a.arrow").read_bytes()
    (tmp_path / "a.arrow").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match=r"its record batch \d cannot be read: .*after it"):
        pack(tmp_path / "a.arrow", tmp_path / "d", ONE)
    manifest = pack(
        tmp_path / "a.arrow", tmp_path / "d", Options(workers=1, grid=False, skip_bad=True)
    ).manifest
    assert manifest.rows == 2
    write_parquet(tmp_path / "a.parquet", rows)
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[100:4000] = bytes(3900)
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(DatasetError, match=r"a.parquet/0: its row group 0 cannot be decoded"):
        pack(tmp_path / "a.parquet", tmp_path / "e", ONE)


def test_compressed_arrow_is_packed_too(tmp_path, rows):
    write_stream(tmp_path / "a.arrow", rows)
    plain = pack(tmp_path / "a.arrow", tmp_path / "a", ONE).manifest.fingerprint
    write_stream(tmp_path / "b.arrow", rows, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    assert pack(tmp_path / "b.arrow", tmp_path / "b", ONE).manifest.fingerprint == plain


@pytest.mark.slow
def test_two_workers_give_the_same_bytes(tmp_path, folder):
    """Row groups of four rows, files of three: groups are read across the edges of files."""
    from stoker.dataset.packing.build import Cut  # noqa: PLC0415

    for workers in (1, 2):
        pack(folder, tmp_path / f"{workers}", Options(workers=workers, cut=Cut(rows=3)))
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in "12")
    assert one == two


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_arrow_files_never_crash(tmp_path_factory, data):
    """Whatever the bytes are: values, or a typed error."""
    row = {"image": {"bytes": b"\xff\xd8" * 9, "path": None}, "txt": "text", "tags": [1, 2, 3]}
    columns = pa.schema([("image", PICTURE), ("txt", pa.string()), ("tags", pa.list_(pa.int32()))])
    path = tmp_path_factory.getbasetemp() / "damaged.arrow"
    data.draw(st.sampled_from([write_stream, write_file]))(path, [row] * 3, columns)
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(len(whole) // 2, len(whole)))])
    with contextlib.suppress(CodecError):
        table = open_table(path, path.name)
        with contextlib.closing(table), contextlib.suppress(UsageError):
            fields = fields_of(table.schema, {}, "damaged")
            for number in range(table.rows):
                batch, place = table.row(number)
                for field in fields:
                    with contextlib.suppress(CodecError, KeyError):  # a damaged column's name
                        value_of(field, batch.column(field.name), place)
