"""`stoker add-column`: a further field, by the command line, equals packing with it at once."""

import contextlib
import csv
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import counting
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from commands import call
from daemons import children, serving
from PIL import Image

from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.dataset.format.manifest import NAME, earlier_manifests, earlier_name, read_manifest
from stoker.dataset.packing.build import Cut
from stoker.dataset.packing.in_place import index_folder
from stoker.dataset.packing.pack import Options, pack
from stoker.pipeline import outputs, pipeline
from stoker.protocol.errors import DatasetError

ROWS = 10
USAGE, FAILED = 2, 1
NAMES = [f"images/{number}.{'png' if number % 3 else 'jpg'}" for number in range(ROWS)]
SCORES = [number / 8 for number in range(ROWS)]
KINDS = ["dog" if number % 3 else "cat" for number in range(ROWS)]


@pipeline
def stored(sample):
    return {"number": sample.number}


@pipeline
def scored(sample):
    return {"number": sample.number, "score": sample.score}


@pipeline
def looked(sample):
    return {"photo": outputs.as_list(sample.photo), "parts": sample.parts}


@pipeline
def posed(sample):
    return {"number": sample.number, "score": sample.score, "pose": sample.pose}


def table(path: Path, header: str, *columns: list[object]) -> Path:
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(header.split(","))
        rows.writerows(zip(*columns, strict=True))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A source with images, masks and numbers, packed into files of 4 rows as `data`."""
    rng = np.random.default_rng(5)
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    masks = [f"masks/{number}.png" for number in range(ROWS)]
    for name, mask in zip(NAMES, masks, strict=True):
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), np.uint8)).save(tmp_path / name)
        Image.fromarray(rng.integers(0, 5, (40, 50), np.uint8)).save(tmp_path / mask)
    plain = (NAMES, masks, list(range(ROWS)))
    table(tmp_path / "plain.csv", "image,mask,number", *plain)
    table(tmp_path / "full.csv", "image,mask,number,score,kind", *plain, SCORES, KINDS)
    pack(tmp_path / "plain.csv", tmp_path / "data", Options(workers=1, cut=Cut(rows=4)))
    return tmp_path


def lines(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def add(folder: Path, *arguments: object) -> dict[str, object]:
    code, output, errors = call("add-column", folder, *arguments, "--json")
    assert code == 0, errors
    found: dict[str, object] = json.loads(output)
    return found


def refused(folder: Path, *arguments: object, code: int = USAGE) -> str:
    """Return what the command says; the dataset's folder must stay as it was."""
    before = contents(folder)
    got, output, errors = call("add-column", folder, *arguments)
    assert (got, output, errors.count("\n")) == (code, "", 1), errors
    assert contents(folder) == before
    return errors


def contents(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.is_file()
    }


def test_it_equals_packing_with_the_columns_at_once(root):
    """Two columns, one after the other; in any order of the table's rows; no file is changed."""
    pack(root / "full.csv", root / "whole", Options(workers=1, cut=Cut(rows=7)))
    before = contents(root / "data")
    del before[NAME]
    order = np.random.default_rng(1).permutation(ROWS)
    names, scores, kinds = ([values[i] for i in order] for values in (NAMES, SCORES, KINDS))
    by_name = table(root / "s.csv", "note,source,score", kinds, names, scores)
    by_row = table(root / "k.csv", "kind,row", kinds, list(order))
    first = add(root / "data", "score", by_name)
    second = add(root / "data", "kind", by_row)
    assert first["fingerprint"] == second["fingerprint_before"] != first["fingerprint_before"]
    assert (first["kind"], first["dtype"], second["kind"]) == ("scalar", "float64", "bytes")
    assert before.items() <= contents(root / "data").items()
    with open_dataset(root / "data") as added, open_dataset(root / "whole") as whole:
        assert second["fingerprint"] == added.fingerprint == whole.fingerprint
        assert added.schema == whole.schema
        assert added.manifest.statistics == whole.manifest.statistics
        for row in range(ROWS):
            assert added.read("score", row) == SCORES[row]
            assert bytes(added.read("kind", row)) == KINDS[row].encode()
            assert added.is_intact(row)
            assert added.check_of(row) == whole.check_of(row)
            assert added.digest(row) == whole.digest(row)
    assert call("verify", root / "data", "--workers=1")[0] == 0
    files = read_manifest(root / "data").files
    kept = [earlier_name(one["fingerprint_before"]) for one in (first, second)]
    assert sorted(contents(root / "data")) == sorted(
        [NAME, *kept, *(part.name for file in files for part in file.parts)]
    )
    assert [len(file.beside) for file in files] == [2, 2, 2], "a file for each column"


def test_the_second_files_are_arrow(root):
    add(root / "data", "score", table(root / "s.csv", "source,score", NAMES, SCORES))
    found = []
    for file in read_manifest(root / "data").files:
        with pa.ipc.open_file(root / "data" / file.beside[0].name) as opened:
            batch = opened.read_all()
        assert batch.column_names == ["score", "stoker.digest", "stoker.check"]
        found += batch["score"].to_pylist()
    assert found == SCORES


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (np.arange(ROWS, dtype=np.int16), "", ("scalar", "int16", [])),
        (np.arange(ROWS), "label", ("label", "int64", [])),
        (np.arange(ROWS * 6.0).reshape(ROWS, 2, 3), "", ("array", "float64", [2, 3])),
        (np.asfortranarray(np.arange(ROWS * 3.0).reshape(ROWS, 3)), "", ("array", "float64", [3])),
        (np.arange(ROWS, dtype=">f4"), "", ("scalar", "float32", [])),
        (np.arange(ROWS) % 2 == 0, "", ("scalar", "bool", [])),
    ],
)
def test_arrays(root, values, kind, expected):
    np.save(root / "v.npy", values)
    made = add(root / "data", "new", root / "v.npy", *([f"--kind={kind}"] if kind else []))
    assert (made["kind"], made["dtype"], made["shape"]) == expected
    with open_dataset(root / "data") as dataset:
        for row in range(ROWS):
            np.testing.assert_array_equal(dataset.read("new", row), values[row])


def test_lists_of_parquet_and_classes(root):
    """Lists that differ in length, and text that becomes classes; by name."""
    lists = [[0.5] * (number % 4) for number in range(ROWS)]
    columns = {"source": NAMES, "track": pa.array(lists, pa.list_(pa.float32())), "kind": KINDS}
    pyarrow.parquet.write_table(pa.table(columns), root / "v.parquet")
    assert add(root / "data", "track", root / "v.parquet")["shape"] == [None]
    made = add(root / "data", "kind", root / "v.parquet", "--kind=label")
    assert made["classes"] == ["cat", "dog"]
    with open_dataset(root / "data") as dataset:
        assert [list(dataset.read("track", row)) for row in range(ROWS)] == lists
        assert dataset.schema.fields[-2].bound == (3,)
        classes = dataset.schema.fields[-1].classes
        assert [classes[dataset.read("kind", row)] for row in range(ROWS)] == KINDS
    assert call("verify", root / "data", "--workers=1")[0] == 0


def test_numbers_as_text(root):
    values = [*map(str, SCORES[:-1]), "many"]
    path = table(root / "s.csv", "source,x", NAMES, values)
    assert add(root / "data", "x", path, "--kind=text")["kind"] == "bytes"
    with open_dataset(root / "data") as dataset:
        assert [bytes(dataset.read("x", row)).decode() for row in range(ROWS)] == values


def test_json_lines(root):
    """Numbers, lists and text, by name; whole numbers among floats are floats."""
    rows = [
        {"source": name, "score": number / 2 if number else 0, "pose": [number, 1], "kind": kind}
        for number, (name, kind) in enumerate(zip(NAMES, KINDS, strict=True))
    ]
    path = lines(root / "v.jsonl", rows)
    assert add(root / "data", "score", path)["dtype"] == "float64"
    assert add(root / "data", "pose", path, "--kind=float32[2]")["shape"] == [2]
    assert add(root / "data", "kind", path)["kind"] == "bytes"
    with open_dataset(root / "data") as dataset:
        for number in range(ROWS):
            assert dataset.read("score", number) == number / 2
            assert dataset.read("pose", number).tolist() == [number, 1]
            assert bytes(dataset.read("kind", number)) == KINDS[number].encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": "1"}, "line 5: 'x' is text, but a whole number in line 1; write one type"),
        ({"x": True}, "line 5: 'x' is true or false, but a whole number in line 1"),
        ({"x": [1]}, "line 5: 'x' is an array of 1, but a whole number in line 1"),
        ({"x": {"y": 1}}, "line 5: 'x' is an object"),
        ({"x": None}, "line 5: 'x' is null"),
        ({"x": None}, "leave out the lines of samples that have none"),
        ({"x": [1, "a"]}, "line 5: 'x' is an array of values that are not numbers"),
        ({"y": 1}, "line 5: expected the keys row, x, got row, x, y"),
    ],
)
def test_json_of_mixed_types_is_refused(root, change, message):
    rows = [{"row": row, "x": 1} | (change if row == 4 else {}) for row in range(ROWS)]
    assert message in refused(root / "data", "x", lines(root / "v.jsonl", rows))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no lines"),
        ('{"row": 0, "x": 1}\n{"row": 1, ', "line 2: expected a JSON object"),
        ("[1, 2]\n", "line 1: expected a JSON object, got an array"),
        ('{"row": 0, "x": 1e999}\n', "line 1"),
    ],
)
def test_what_is_no_json_is_refused(root, text, message):
    (root / "v.jsonl").write_text(text)
    assert message in refused(root / "data", "x", root / "v.jsonl")


def test_splits_and_appending(root):
    """Splits stay. Samples are added to it from a source with the same fields."""
    assert call("split", root / "data", "train=0.5", "val=0.5")[0] == 0
    splits = read_manifest(root / "data").splits
    add(root / "data", "score", table(root / "s.csv", "source,score", NAMES, SCORES))
    assert read_manifest(root / "data").splits == splits
    code, _, errors = call("pack", root / "plain.csv", root / "data", "--append", "--workers=1")
    assert (code, "expected the fields of the dataset" in errors) == (USAGE, True)
    more = [f"images/more{number}.png" for number in range(2)]
    for name in more:
        Image.new("RGB", (50, 40)).save(root / name)
    masks = ["masks/0.png"] * (ROWS + 2)
    numbers = list(range(ROWS + 2))
    scores = [*SCORES, 7.0, 8.0]
    table(root / "more.csv", "image,mask,number,score", NAMES + more, masks, numbers, scores)
    code, _, errors = call("pack", root / "more.csv", root / "data", "--append", "--workers=1")
    assert code == 0, errors
    with open_dataset(root / "data") as dataset:
        assert [float(dataset.read("score", row)) for row in range(ROWS + 2)] == scores
    assert call("verify", root / "data", "--workers=1")[0] == 0


def test_rows_that_do_not_match_are_counted(root):
    short = table(root / "s.csv", "source,score", [*NAMES[1:8], *NAMES[1:3], "x.jpg"], SCORES)
    said = refused(root / "data", "score", short)
    for text in (
        "expected one value for each of the 10 samples",
        f"2 sources in it more than once: {NAMES[1]!r}, {NAMES[2]!r}",
        "1 source not in the dataset: 'x.jpg'",
        f"3 sources of the dataset without a value: {NAMES[0]!r}, {NAMES[8]!r}, {NAMES[9]!r}",
    ):
        assert text in said
    rows = table(root / "r.csv", "row,score", list(range(1, ROWS + 1)), SCORES)
    assert "1 row not in the dataset: 10; 1 row of the dataset without a value: 0" in refused(
        root / "data", "score", rows
    )
    np.save(root / "v.npy", np.zeros((ROWS, 0)))
    assert "shape (10, 0): expected at least one number for each sample" in refused(
        root / "data", "score", root / "v.npy"
    )
    np.save(root / "v.npy", np.arange(ROWS - 1))
    assert "has the shape (9,), but" in refused(root / "data", "score", root / "v.npy")


@pytest.mark.parametrize(
    ("name", "header", "columns", "kind", "message"),
    [
        ("number", "source,number", (NAMES, SCORES), "", "already has a field 'number' (it has "),
        ("a b", "source,a b", (NAMES, SCORES), "", "'a b'"),
        ("score", "name,score", (NAMES, SCORES), "", "got name, score"),
        ("scor", "source,score", (NAMES, SCORES), "", "expected the columns 'scor' and 'source'"),
        ("score", "source,row,score", (NAMES, range(ROWS), SCORES), "", "got source, row, score"),
        ("x", "source,x", (NAMES, [*SCORES[:-1], "many"]), "float32",
         "1 row cannot be used: s.csv:11: column 'x': expected float32, got 'many'"),
        ("x", "source,x", (NAMES, [*SCORES[:-1], ""]), "float32", "column 'x' is empty"),
        ("x", "source,x", (NAMES, [300] * ROWS), "uint8", "uint8"),
        ("x", "source,x", (NAMES, [*NAMES[:-1], "images/none.png"]), "image",
         "1 file of the column cannot be read: 'images/none.png'; paths are relative to the tab"),
        ("x", "source,x", (NAMES, [*NAMES[:-1], "plain.csv"]), "image",
         "the value of sample 9: plain.csv: expected a JPEG, PNG, BMP"),
        ("x", "source,x", (NAMES, ["images/0.jpg"] * ROWS), "mask",
         "the value of sample 0: images/0.jpg: "),
        ("x", "source,x", (NAMES, ["small.png"] * ROWS), "mask",
         "sample 0: it has 40x50 pixels (height x width, upright), but its x has 8x9; if that is "
         "meant, declare it with --kind mask,relative, or "),
        ("x", "source,x", (NAMES, NAMES), "boxes", "--kind boxes: expected a kind among"),
        ("x", "source,x", (NAMES, SCORES), "flot32", "--kind flot32: expected a kind among"),
        ("x", "source,x", (NAMES, [*SCORES[:-1], "many"]), "",
         "has values of several types: column 'x' is packed as text, because 'many' in line 11"),
        ("x", "source,x", (NAMES, [*SCORES[:-1], "many"]), "", "or pass --kind text"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be(root, name, header, columns, kind, message):
    Image.new("L", (9, 8)).save(root / "small.png")
    path = table(root / "s.csv", header, *map(list, columns))
    assert message in refused(root / "data", name, path, *([f"--kind={kind}"] if kind else []))


def test_datasets_that_cannot_be(root, to_jpeg):
    values = table(root / "s.csv", "source,score", NAMES, SCORES)
    write(root / "nameless", [schema.scalar("x", "int32")], [{"x": 1}] * ROWS)
    assert "the samples of" in refused(root / "nameless", "score", values)
    code, _, errors = call("add-column", root / "images", "score", values)
    assert (code, "it is not a dataset" in errors) == (FAILED, True), errors
    code, _, errors = call("add-column", root / "data", "score", root / "none.csv")
    assert (code, "cannot read" in errors) == (USAGE, True), errors
    code, _, errors = call("add-column", root / "data", "score", root / "none.npy")
    assert (code, "cannot read" in errors) == (USAGE, True), errors


def test_other_files_are_refused(root):
    assert "expected a .csv, .tsv, .parquet, .jsonl or .npy" in refused(root / "data", "x", root)


def test_an_index_is_refused(root):
    tar = root / "shard.tar"
    subprocess.run(["tar", "-cf", tar, "-C", root / "images", "."], check=True)
    code, _, errors = call("index", tar)
    assert code == 0, errors
    values = table(root / "s.csv", "row,score", list(range(ROWS)), SCORES)
    said = refused(index_folder(tar), "score", values)
    assert "is an index of files that are read in place" in said
    code, _, errors = call("add-column", tar, "score", values)
    assert (code, "is a file, but a dataset is a folder" in errors) == (FAILED, True), errors


def test_a_damaged_sample_ends_it(root):
    with open_dataset(root / "data") as dataset:
        file, offset = dataset.locate("number", 5)
    with open(root / "data" / file.name, "r+b") as opened:
        opened.seek(offset)
        opened.write(b"\x99")
    values = table(root / "s.csv", "source,score", NAMES, SCORES)
    assert "id 5" in refused(root / "data", "score", values, code=FAILED)


def test_a_second_file_that_is_missing_or_changed_is_named(root):
    add(root / "data", "score", table(root / "s.csv", "source,score", NAMES, SCORES))
    with open_dataset(root / "data") as dataset:
        file, offset = dataset.locate("score", 5)
    path = root / "data" / file.name
    with open(path, "r+b") as opened:
        opened.seek(offset)
        opened.write(b"\x99")
    code, output, _ = call("verify", root / "data", "--workers=1", "--json")
    assert (code, json.loads(output)["bad_files"]) == (FAILED, [file.name])
    path.unlink()
    with pytest.raises(DatasetError, match=f"cannot read its file {file.name}"):
        open_dataset(root / "data")


KILLED = """
import os, signal, sys
from stoker.dataset.packing import add_column
add_column.write_manifest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
add_column.add_column(*sys.argv[1:])
"""


def test_a_run_that_is_killed_leaves_the_dataset_as_it_was(root):
    values = table(root / "s.csv", "source,score", NAMES, SCORES)
    before = contents(root / "data")
    command = [sys.executable, "-c", KILLED, root / "data", "score", values]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert before.items() <= contents(root / "data").items()
    with open_dataset(root / "data") as dataset:
        assert [field.name for field in dataset.schema.fields] == ["image", "mask", "number"]
    add(root / "data", "score", values)
    parts = [part for file in read_manifest(root / "data").files for part in file.parts]
    (kept,) = [path.name for path in earlier_manifests(root / "data")]
    assert sorted(os.listdir(root / "data")) == sorted([NAME, kept, *(part.name for part in parts)])


@pytest.mark.as_a_user
def test_a_daemon_goes_on_with_each_stream_and_gives_new_ones_the_new_field(root):
    """Two columns while it serves, no restart; each stream goes on, also in a new worker."""
    poses = np.arange(ROWS * 2, dtype=np.float32).reshape(ROWS, 2)
    np.save(root / "pose.npy", poses)
    options = {
        "batch_size": 2, "device": "numpy", "seed": 3, "total_epochs": 1, "prefetch": 1,
        "dataset": "data",
    }  # fmt: skip
    (root / "d").mkdir()
    with (
        serving(root / "d", f"--dataset=data={root}/data", "--workers=1") as daemon,
        contextlib.ExitStack() as loaders,
    ):

        def reading(what):
            opened = loaders.enter_context(Loader(daemon.address, pipeline=what, **options))
            streams.append((opened, iter(opened), []))
            take(streams[-1])

        def take(stream, most=1):
            _, batches, found = stream
            found += [(batch.index, dict(batch)) for batch in itertools.islice(batches, most)]

        streams = []
        reading(stored)
        add(root / "data", "score", table(root / "s.csv", "source,score", NAMES, SCORES))
        reading(scored)
        add(root / "data", "pose", root / "pose.npy")
        reading(posed)
        (template,) = children(daemon.pid)
        os.kill(children(template)[0], signal.SIGKILL)
        for stream in streams:
            take(stream, ROWS)
        assert counting.counters(daemon.address)["worker_deaths_total"] == 1
    for (_, _, found), names in zip(
        streams, ({"number"}, {"score"}, {"score", "pose"}), strict=True
    ):
        assert sorted(row for ids, _ in found for row in ids) == list(range(ROWS))
        for ids, values in found:
            assert {*values} - {"index", "requested", "valid"} == names | {"number"}
            np.testing.assert_array_equal(values["number"], ids)
            if "score" in names:
                assert values["score"].tolist() == [SCORES[row] for row in ids]
            if "pose" in names:
                np.testing.assert_array_equal(values["pose"], poses[ids])


def test_a_dataset_is_opened_as_it_was_until_it_is_packed_again(root):
    """Its fingerprint finds the earlier manifest; packing over it removes both."""
    options = Options(workers=1, cut=Cut(rows=4), overwrite=True)
    with open_dataset(root / "data") as dataset:
        before = dataset.fingerprint
    add(root / "data", "score", table(root / "s.csv", "source,score", NAMES, SCORES))
    more = table(
        root / "more.csv", "image,mask,number,score", [*NAMES, NAMES[0]],
        ["masks/0.png"] * (ROWS + 1), [*range(ROWS), 99], [*SCORES, 9.0],
    )  # fmt: skip
    shutil.copy(root / NAMES[0], root / "images" / "more.jpg")
    text = more.read_text().splitlines()
    more.write_text("\n".join([*text[:-1], text[-1].replace(NAMES[0], "images/more.jpg")]))
    with open_dataset(root / "data") as dataset:
        added = dataset.fingerprint
    assert call("pack", more, root / "data", "--append", "--workers=1")[0] == 0
    for fingerprint, names in ((before, 3), (added, 4)):
        with open_dataset(root / "data", expected=fingerprint) as dataset:
            assert (len(dataset), len(dataset.schema.fields)) == (ROWS, names)
            assert dataset.read("number", ROWS - 1) == ROWS - 1
            assert all(dataset.is_intact(row) for row in range(ROWS))
    (root / "data" / earlier_name(added)).write_text("{}")
    with pytest.raises(DatasetError, match="is damaged"):
        open_dataset(root / "data", expected=added)
    pack(root / "full.csv", root / "data", options)
    assert earlier_manifests(root / "data") == []
    with pytest.raises(DatasetError, match="expected fingerprint content:"):
        open_dataset(root / "data", expected=before)


def test_samples_may_lack_an_optional_field(root):
    """As packing with it at once: empty cells and rows that are left out are absent samples."""
    shown = [f"{score}" if number % 3 else "" for number, score in enumerate(SCORES)]
    both = ("--field=score=float32,fill=-1", "--field=word=text,optional")
    table(
        root / "both.csv", "image,mask,number,score,word",
        NAMES, [f"masks/{number}.png" for number in range(ROWS)], range(ROWS), shown,
        ["", *KINDS[1:]],
    )  # fmt: skip
    code, _, errors = call("pack", root / "both.csv", root / "whole", "--workers=1", *both)
    assert code == 0, errors
    made = add(
        root / "data", "score", table(root / "s.csv", "source,score", NAMES, shown),
        "--kind=float32,fill=-1",
    )  # fmt: skip
    assert made["remarks"] == ["4 of 10 samples have no score: score_present says it"]
    rows = [{"row": row, "word": KINDS[row]} for row in range(1, ROWS)]
    made = add(root / "data", "word", lines(root / "w.jsonl", rows), "--kind=text,optional")
    with open_dataset(root / "data") as added, open_dataset(root / "whole") as whole:
        assert added.fingerprint == whole.fingerprint == made["fingerprint"]
        assert added.schema == whole.schema
        assert added.manifest.statistics == whole.manifest.statistics
        for row in range(ROWS):
            assert added.read("score", row) == (np.float32(SCORES[row]) if row % 3 else -1)
            assert added.read("score_present", row) == bool(row % 3)
            assert added.read("word_present", row) == bool(row)
            assert added.is_intact(row)
            assert added.check_of(row) == whole.check_of(row)
    assert call("verify", root / "data", "--workers=1")[0] == 0


def pictures(root: Path) -> tuple[list[str], list[np.ndarray]]:
    """Write further photographs and masks of the samples; return the photographs' pixels."""
    rng = np.random.default_rng(8)
    (root / "later").mkdir()
    names, seen = [f"photo{number}.{'png' if number % 2 else 'jpg'}" for number in range(ROWS)], []
    for number, name in enumerate(names):
        low = Image.fromarray(rng.integers(0, 255, (9, 12, 3), np.uint8))
        low.resize((120 + number, 90), Image.Resampling.BICUBIC).save(root / "later" / name)
        seen.append(np.asarray(Image.open(root / "later" / name)))
        Image.fromarray(rng.integers(0, 5, (40, 50), np.uint8)).save(root / f"later/m{number}.png")
    return names, seen


@pytest.mark.slow
def test_images_and_masks_equal_packing_with_them_at_once(root):
    """Paths and whole files; a Loader then reads the pixels that Pillow reads."""
    names, seen = pictures(root)
    masks = [f"m{number}.png" for number in range(ROWS)]
    packed = (NAMES, [f"masks/{number}.png" for number in range(ROWS)], list(range(ROWS)))
    later = [[f"later/{name}" for name in column] for column in (masks, names)]
    table(root / "full.csv", "image,mask,number,parts,photo", *packed, *later)
    kinds = {"parts": "mask", "photo": "image"}
    pack(root / "full.csv", root / "whole", Options(workers=1, cut=Cut(rows=3), fields=kinds))
    order = np.random.default_rng(2).permutation(ROWS)
    path = table(root / "m.csv", "source,parts", *([column[i] for i in order]
                 for column in (NAMES, masks)))  # fmt: skip
    made = add(root / "data", "parts", path, "--kind=mask", "--images", root / "later")
    assert (made["kind"], made["dtype"]) == ("mask", "uint8")
    files = [(root / "later" / name).read_bytes() for name in names]
    pa.parquet.write_table(pa.table({"source": NAMES, "photo": files}), root / "p.parquet")
    add(root / "data", "photo", root / "p.parquet", "--kind=image")
    with open_dataset(root / "data") as added, open_dataset(root / "whole") as whole:
        assert added.schema == whole.schema
        assert added.fingerprint == whole.fingerprint
        assert added.manifest.statistics == whole.manifest.statistics
        assert all(added.check_of(row) == whole.check_of(row) for row in range(ROWS))
    assert call("verify", root / "data", "--workers=1")[0] == 0
    options = {"batch_size": 5, "device": "numpy", "shuffle": False}
    with Loader(root / "data", pipeline=looked, **options) as loader:
        found = [(batch.photo[n], batch.parts[n]) for batch in loader for n in range(5)]
    assert len(found) == ROWS
    for number, (photo, parts) in enumerate(found):
        np.testing.assert_array_equal(photo, seen[number])
        np.testing.assert_array_equal(parts, np.asarray(Image.open(root / f"later/m{number}.png")))


def test_masks_that_some_samples_lack_and_arrays_of_pixels(root):
    """A mask that is absent has the size of its sample's image."""
    pictures(root)
    some = [f"later/m{number}.png" if number % 2 else "" for number in range(ROWS)]
    add(root / "data", "parts", table(root / "m.csv", "source,parts", NAMES, some),
        "--kind=mask,fill=255")  # fmt: skip
    depth = np.random.default_rng(1).integers(0, 2**16, (ROWS, 40, 50)).astype(np.uint16)
    np.save(root / "depth.npy", depth)
    add(root / "data", "depth", root / "depth.npy", "--kind=image")
    np.save(root / "zones.npy", depth.astype(np.uint8))
    add(root / "data", "zones", root / "zones.npy", "--kind=mask")
    with open_dataset(root / "data") as dataset:
        for row in range(ROWS):
            parts = np.full((40, 50), 255)
            if row % 2:
                parts = np.asarray(Image.open(root / f"later/m{row}.png"))
            np.testing.assert_array_equal(pixels(dataset, "parts", row), parts)
            assert dataset.read("parts_present", row) == row % 2
            np.testing.assert_array_equal(dataset.read("depth", row)[..., 0], depth[row])
            np.testing.assert_array_equal(
                pixels(dataset, "zones", row), depth[row].astype(np.uint8)
            )
            assert dataset.is_intact(row)


def pixels(dataset, field: str, row: int) -> np.ndarray:
    return dataset.decode(field, row, np.empty(2**16, np.uint8)).copy()


def test_added_images_keep_their_orientation_if_those_of_the_dataset_do(root, to_jpeg):
    kept = Options(workers=1, orientation="keep")
    pack(root / "plain.csv", root / "kept", kept)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (50, 40)).save(root / "turned.jpg", exif=exif)
    values = table(root / "t.csv", "source,photo", NAMES, ["turned.jpg"] * ROWS)
    for folder, size in (("kept", (40, 50)), ("data", (50, 40))):
        add(root / folder, "photo", values, "--kind=image")
        with open_dataset(root / folder) as dataset:
            assert dataset.size("photo", 0) == size


def test_text_with_some_numbers_says_that_it_is_text(root):
    """Below half of them: `stoker pack` says the same, with its own option."""
    values = ["1.5", "2", "3", *"abcdefg"]
    said = (
        "column 'x' is packed as text, though 3 of its 10 values are numbers, because 'a' in line "
        "5 is not one; for numbers pass {0}float64, and correct the values that are none; if it is "
        "text, {0}text says so"
    )
    path = table(root / "s.csv", "source,x", NAMES, values)
    made = add(root / "data", "x", path)
    assert (made["kind"], made["remarks"]) == ("bytes", [said.format("--kind ")])
    assert (
        add(root / "data", "y", table(root / "y.csv", "source,y", NAMES, values), "--kind=text")[
            "remarks"
        ]
        == []
    )
    table(root / "p.csv", "image,x", NAMES, values)
    code, _, errors = call("pack", root / "p.csv", root / "p", "--workers=1")
    assert (code, said.format("--field x=") in " ".join(errors.split())) == (0, True), errors
