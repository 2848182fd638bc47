"""Adding samples: the bytes of packing everything at once, where the order agrees."""

import io
import json
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import call
from PIL import Image

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.packing.build import Cut
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.packing.splitting import split
from stoker.dataset.verify import verify
from stoker.protocol.errors import UsageError

ONE = Options(workers=1, cut=Cut(rows=2))
MORE = Options(workers=1, cut=Cut(rows=2), append=True)
ADDER = """
import sys
from stoker.dataset.packing.build import Cut
from stoker.dataset.packing.pack import Options, pack

def stop(progress):
    if progress.rows >= 2:
        print(progress.rows, flush=True)
        sys.stdin.read()

pack(sys.argv[1], sys.argv[2], Options(workers=1, cut=Cut(rows=1), append=True), stop)
"""


@pytest.fixture
def tars(tmp_path, photographs, to_jpeg, to_png, write_tar):
    """Three tars of two samples, the last with other sizes and a PNG for a picture."""
    root = tmp_path / "shards"
    root.mkdir()
    for number, (name, pixels) in enumerate(photographs.items()):
        picture = ("png", to_png(pixels)) if number == 5 else ("jpg", to_jpeg(pixels))
        parts = [picture, ("seg.png", to_png(pixels[:, :, 0] // 64)), ("txt", name.encode())]
        members = [(f"{number}.{extension}", data) for extension, data in parts]
        write_tar(root / f"{number:02d}.tar", members)
    return root


def test_further_tars_give_the_fingerprint_of_all_at_once(tmp_path, tars):
    whole = pack(tars, tmp_path / "whole", ONE).manifest
    pack(f"{tars}/{{00..02}}.tar", tmp_path / "d", ONE)
    before = {path.name: path.stat().st_ino for path in (tmp_path / "d").glob("*.arrow")}
    report = pack(f"{tars}/{{03..04}}.tar", tmp_path / "d", MORE)
    assert report.manifest.rows == 5
    report = pack(tars, tmp_path / "d", MORE)
    assert report.ignored["samples that are there already"] == 5
    manifest = report.manifest
    after = {path.name: path.stat().st_ino for path in (tmp_path / "d").glob("*.arrow")}
    assert before.items() <= after.items()
    assert manifest.fingerprint == whole.fingerprint
    assert manifest.schema == whole.schema
    assert manifest.statistics == whole.statistics
    assert [file.first_row for file in manifest.files] == [0, 2, 3, 5]
    assert verify(tmp_path / "d", workers=1).holds
    with open_dataset(tmp_path / "d") as dataset, open_dataset(tmp_path / "whole") as other:
        for number in range(len(other)):
            assert dataset.digest(number) == other.digest(number)
            assert dataset.source(number) == other.source(number)


def test_splits_keep_their_samples(tmp_path, tars):
    pack(f"{tars}/{{00..02}}.tar", tmp_path / "d", ONE)
    splits = split(tmp_path / "d", {"train": [0, 2]}).splits
    report = pack(tars, tmp_path / "d", MORE)
    assert report.manifest.splits == splits
    assert report.warnings[-1].startswith("the new samples are in no split of the dataset (train);")
    assert not pack(tars, tmp_path / "d", MORE).warnings


def test_nothing_new_changes_nothing(tmp_path, tars):
    pack(tars, tmp_path / "d", ONE)
    before = {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()}
    report = pack(tars, tmp_path / "d", MORE)
    assert report.ignored["samples that are there already"] == 6
    assert {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()} == before


def folder_of(root: Path, names, photographs, to_jpeg) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(to_jpeg(list(photographs.values())[len(name) % 6]))
    return root


def test_new_classes_come_behind_the_old(tmp_path, photographs, to_jpeg):
    first = folder_of(tmp_path / "a", ["cat/1.jpg", "dog/22.jpg"], photographs, to_jpeg)
    pack(first, tmp_path / "d", ONE)
    more = ["ant/333.jpg", "cat/1.jpg", "dog/4444.jpg", "bee/5.jpg"]
    pack(folder_of(tmp_path / "b", more, photographs, to_jpeg), tmp_path / "d", MORE)
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("label").classes == ("cat", "dog", "ant", "bee")
        rows = [(dataset.source(n), int(dataset.read("label", n))) for n in range(len(dataset))]
        assert dataset.manifest.statistics.fields["label"].per_class == (1, 2, 1, 1)
    assert rows == [
        ("cat/1.jpg", 0),
        ("dog/22.jpg", 1),
        ("ant/333.jpg", 2),
        ("bee/5.jpg", 3),
        ("dog/4444.jpg", 1),
    ]


@pytest.mark.slow
def test_killed_while_adding(tmp_path, tars):
    """The dataset stays what it was; the same command goes on, to the same bytes."""
    for name in ("d", "clean"):
        pack(f"{tars}/00.tar", tmp_path / name, ONE)
    with open_dataset(tmp_path / "d") as dataset:
        before = dataset.fingerprint
    command = [sys.executable, "-c", ADDER, str(tars), str(tmp_path / "d")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as adder:
        assert select.select([adder.stdout], [], [], 60)[0]
        assert int(adder.stdout.readline()) >= 2
        adder.send_signal(signal.SIGKILL)
    assert verify(tmp_path / "d", workers=1).fingerprint == before
    options = Options(workers=1, cut=Cut(rows=1), append=True)
    assert pack(tars, tmp_path / "d", options).resumed_rows >= 1
    pack(tars, tmp_path / "clean", options)
    found = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("d", "clean")
    ]
    assert found[0] == found[1]
    assert json.loads(found[0]["manifest.json"])["rows"] == 6


def test_sources_that_do_not_fit_are_not_added(tmp_path, tars, photographs, to_jpeg, write_tar):
    def refused(reason, source, *flags, dest="d"):
        words = ("pack", source, tmp_path / dest, "--workers=1", "--append", *flags)
        code, _, error = call(*words, COLUMNS="9999")
        assert code in (1, 2)
        assert re.search(reason, error), error

    pack(f"{tars}/00.tar", tmp_path / "d", ONE)
    before = (tmp_path / "d" / "manifest.json").read_bytes()
    refused("there is no folder .*/none; check the path", tars, dest="none")
    refused("leave --overwrite out", tars, "--overwrite")
    refused(
        "expected the fields of the dataset, image, seg, txt, got image; give a source that has "
        "seg, txt too",
        folder_of(tmp_path / "plain", ["1.jpg"], photographs, to_jpeg),
    )
    refused(
        r"field 'image' is stored as image jpeg large_binary with height, width, orientation, grid "
        r"in the dataset, but would be image encoded large_binary with height, width, orientation",
        tars,
        "--no-grid",
    )
    refused("field 'seg' is stored as mask bands .* would be mask encoded", tars, "--no-bands")
    write(tmp_path / "rows", [schema.scalar("weight")], [{"weight": 1.0}])
    refused("cannot be added to: only a dataset written by `stoker pack` has", tars, dest="rows")
    write_tar(tars / "99.tar", [("x.jpg", b"no picture")])
    refused("99.tar/x: it has no member .seg.png", tars)
    assert (tmp_path / "d" / "manifest.json").read_bytes() == before
    with open_dataset(tmp_path / "d") as dataset:
        assert len(dataset) == 1


def test_a_source_without_an_added_field_is_told_how_to_give_it(tmp_path, photographs, to_jpeg):
    data, files, more = tmp_path / "d", tmp_path / "files", tmp_path / "a/dog/333.jpg"
    source = folder_of(tmp_path / "a", ["cat/1.jpg", "dog/22.jpg"], photographs, to_jpeg)
    pack(source, data, ONE)
    (tmp_path / "s.csv").write_text("source,score\ncat/1.jpg,1.5\ndog/22.jpg,2.5\n")
    assert call("add-column", data, "score", tmp_path / "s.csv")[0] == 0
    folder_of(tmp_path / "a", ["dog/333.jpg"], photographs, to_jpeg)
    code, _, error = call("pack", source, data, "--append", "--workers=1")
    assert (code, error) == (
        2,
        "stoker: expected the fields of the dataset, image, label, score, got image, label; give a"
        " source that has score too, such as a table, or the folder that `stoker unpack` writes,"
        " with the new samples in it\n",
    )
    assert call("unpack", data, files)[0] == 0
    shutil.copy(more, files / "image/dog")
    line = {"image": "image/dog/333.jpg", "label": "dog", "score": 3.5}
    with open(files / "samples.jsonl", "a") as lines:
        lines.write(json.dumps(line) + "\n")
    code, _, error = call("pack", files, data, "--append", "--workers=1")
    assert code == 0, error
    with open_dataset(data) as dataset:
        rows = range(len(dataset))
        assert [int(dataset.read("label", row)) for row in rows] == [0, 1, 1]
        assert [float(dataset.read("score", row)) for row in rows] == [1.5, 2.5, 3.5]
        stored = np.asarray(Image.open(io.BytesIO(dataset.read("image", 2))))
        np.testing.assert_array_equal(stored, np.asarray(Image.open(more)))


def test_classes_that_lie_in_the_source_cannot_change(tmp_path):
    import pyarrow as pa  # noqa: PLC0415

    def arrow(name, classes):
        features = {"kind": {"names": classes, "_type": "ClassLabel"}}
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        columns = pa.schema([("kind", pa.int64()), ("weight", pa.int8())], metadata=metadata)
        path = str(tmp_path / f"{name}.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, columns) as out:
            rows = [{"kind": 0, "weight": 1}]
            out.write_batch(pa.RecordBatch.from_pylist(rows, schema=columns))
        return path

    pack(arrow("a", ["cat", "dog"]), tmp_path / "d", ONE)
    assert pack(arrow("b", ["cat", "dog"]), tmp_path / "d", MORE).manifest.rows == 2
    assert pack(arrow("c", ["cat"]), tmp_path / "d", MORE).manifest.rows == 3
    with pytest.raises(UsageError, match="the classes differ from those of the dataset, and the"):
        pack(arrow("e", ["dog", "cat"]), tmp_path / "d", MORE)
    with open_dataset(tmp_path / "d") as dataset:
        kinds = np.array([dataset.read("kind", number) for number in range(3)])
    assert kinds.tolist() == [0, 0, 0]
