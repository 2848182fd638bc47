"""`stoker pack`, `verify` and `ls`: what they print, and their exit status."""

import json
import os
import subprocess
import sys

import msgspec
import pytest
from commands import call
from PIL import Image
from typer import Typer
from typer.testing import CliRunner

from stoker.dataset import open_dataset
from stoker.dataset.format.manifest import read_manifest, write_manifest
from stoker.dataset.packing import in_place
from stoker.protocol.errors import DatasetError, UsageError
from stoker.server.commands.dataset_commands import index, ls, pack, verify
from stoker.server.commands.split_command import split


@pytest.fixture
def run(monkeypatch):
    """Run a command with a terminal of 200 columns; errors come through as exceptions."""
    app = Typer()
    for command in (pack, index, verify, ls, split):
        app.command()(command)
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments, status=0):
        result = CliRunner().invoke(app, [str(part) for part in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return result.stdout

    return invoke


@pytest.fixture
def folder(tmp_path, image_folder, run):
    run("pack", image_folder, tmp_path / "d")
    return tmp_path / "d"


def test_pack_sums_up(tmp_path, image_folder, run):
    (image_folder / "animals" / "notes.txt").touch()
    (image_folder / "animals" / "bad.png").touch()
    out = run(
        "pack", image_folder, tmp_path / "d", "--skip-bad", "--workers", 1, "--kind", "folder"
    )
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.fingerprint in out
    assert "packed 6 samples (folder) into" in out
    assert "1 file, " in out
    assert "animals: 3, things: 3" in out
    assert "ignored: 1 .txt files" in out
    assert "left out as bad: 1 samples" in out
    assert "animals/bad.png: it is empty" in out


def test_pack_keeps_the_orientation_on_request(tmp_path, photographs, to_jpeg, run):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.jpg").write_bytes(to_jpeg(photographs["rocket"], 6))
    assert "1 turned by EXIF" in run("pack", tmp_path / "s", tmp_path / "d")
    out = run("pack", tmp_path / "s", tmp_path / "e", "--orientation", "keep")
    note = "EXIF orientation kept: the pixels are used as stored: 1 file, such as a.jpg"
    assert f"note: image: {note}" in out
    assert "turned by EXIF" not in out
    assert "EXIF orientation kept" in run("ls", tmp_path / "e").partition("note:")[0]


def test_pack_says_what_it_kept_and_what_it_re_encoded(tmp_path, photographs, run):
    (tmp_path / "s").mkdir()
    Image.fromarray(photographs["rocket"]).save(tmp_path / "s" / "a.bmp")
    (tmp_path / "s" / "b.jpg").touch()
    with pytest.raises(DatasetError, match="1 of 2 samples"):
        run("pack", tmp_path / "s", tmp_path / "d")
    out = run("pack", tmp_path / "s", tmp_path / "d", "--skip-bad")
    assert "packed 1 samples" in out
    assert "1 of them were kept from an earlier run" in out
    assert "note: image: BMP re-encoded as PNG without loss: 1 file, such as a.bmp" in out


def test_pack_says_how_the_grid_changed_the_size(tmp_path, image_folder, run):
    out = " ".join(run("pack", image_folder, tmp_path / "d").split())
    with open_dataset(tmp_path / "d") as dataset:
        seen = dataset.manifest.statistics.fields["image"]
    change = 100 * (seen.gridded_bytes / seen.came_bytes - 1)
    how = f"{abs(change):.1f}% {'larger' if change > 0 else 'smaller'} now"
    assert f"{seen.gridded} JPEGs with a grid for crops" in out
    assert how in out
    assert how in " ".join(run("ls", tmp_path / "d").split())
    assert "with a grid" not in run("pack", image_folder, tmp_path / "e", "--no-grid")


def test_pack_takes_the_kinds_of_folders(tmp_path, parallel_folders, run):
    (parallel_folders / "masks").rename(parallel_folders / "regions")
    run("pack", parallel_folders, tmp_path / "d", "--field", "regions=mask", "--workers", 1)
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("region").kind == "mask"
    out = run(
        "pack", parallel_folders, tmp_path / "d", "--overwrite", "--json", "--field=regions/=image"
    )
    told = json.loads(out)
    assert out.count("\n") == 1
    assert told.pop("seconds") > 0
    listed = json.loads(run("ls", tmp_path / "d", "--samples", 0, "--json"))
    of_packing = {"kind": "parallel", "ignored": {}, "resumed_rows": 0}
    assert {**told, "samples": []} == {**listed, **of_packing}
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("region").kind == "image"


def test_pack_refuses_flags_that_it_does_not_know(tmp_path, image_folder, run):
    with pytest.raises(
        UsageError, match=r"--kind: expected one of auto, .*parallel, folder.*, got 'tapestry'"
    ):
        run("pack", image_folder, tmp_path / "d", "--kind", "tapestry")
    for text in ("masks", "=mask", "masks="):
        with pytest.raises(
            UsageError, match=f"--field '{text}': expected NAME=KIND, such as masks=mask"
        ):
            run("pack", image_folder, tmp_path / "d", "--field", text)


def test_verify_says_that_all_is_good(folder, run):
    assert "6 samples, all good, content:" in run("verify", folder)
    report = json.loads(run("verify", folder, "--json"))
    assert report["holds"] is True
    assert report["rows"] == 6


def test_verify_names_what_is_bad_and_exits_with_one(folder, run):
    with open_dataset(folder) as dataset:
        file, offset = dataset.locate("image", 2)
    with open(folder / file.name, "r+b") as stream:
        stream.seek(offset)
        stream.write(b"xx")
    out = run("verify", folder, "--workers", 1, status=1)
    assert "1 of 6 samples are bad" in out
    assert f"{file.name}: its content no longer has the hash in the manifest" in out
    assert "it does not have the checksums that its grid" in out
    report = json.loads(run("verify", folder, "--json", status=1))
    assert report["holds"] is False
    assert report["bad_rows"][0]["id"] == 2
    assert report["bad_rows"][0]["source"] == "animals/rocket.jpg"


def test_verify_exits_with_one_when_only_the_fingerprint_is_wrong(folder, run):
    wrong = "content:" + "a" * 32
    write_manifest(folder, msgspec.structs.replace(read_manifest(folder), fingerprint=wrong))
    out = run("verify", folder, "--workers", 1, status=1)
    assert "0 of 6 samples are bad" in out
    assert f"the content no longer has the fingerprint {wrong}" in out


def test_ls_shows_fields_statistics_and_samples(folder, run):
    out = run("ls", folder, "--samples", 2)
    assert "6 samples in 1 file" in out
    assert "animals/chelsea.jpg" in out
    assert "1 (things)" not in out
    assert "0 (animals)" in out
    assert "things/astronaut.jpg" not in out
    data = json.loads(run("ls", folder, "--json"))
    assert data["rows"] == 6
    assert len(data["samples"]) == 5
    assert [field["name"] for field in data["fields"]] == ["image", "label"]
    assert data["fields"][0]["statistics"]["height"][1] == 185


def test_index_and_append(tmp_path, photographs, to_jpeg, write_tar, run, monkeypatch):
    monkeypatch.setattr(in_place, "cache_root", lambda: tmp_path / "caches")
    data = [to_jpeg(pixels) for pixels in photographs.values()]
    for number in range(2):
        write_tar(
            tmp_path / f"{number}.tar", [(f"{number}.jpg", data[number]), (f"{number}.x", b"")]
        )
    out = run("index", f"{tmp_path}/{{0..1}}.tar", "--field", "x=ignore", "--workers", 1)
    assert "indexed 2 samples (webdataset) into" in out
    with pytest.raises(UsageError, match="is an index of files that are read in place"):
        run("split", next(tmp_path.rglob("manifest.json")).parent, "train=1.0")
    assert "stat:" in out
    assert "2 samples" in run("ls", f"{tmp_path}/{{0..1}}.tar")
    assert "2 samples, all good, stat:" in run("verify", f"{tmp_path}/{{0..1}}.tar")
    arguments = (tmp_path / "d", "--field", "x=ignore", "--workers", 1)
    run("pack", tmp_path / "0.tar", *arguments)
    out = run("pack", f"{tmp_path}/{{0..1}}.tar", *arguments, "--append")
    assert "packed 2 samples (webdataset) into" in out
    assert "ignored: 1 samples that are there already" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["pack", "{}/missing", "{}/d"], 2, "missing does not exist; check the path"),
        (["verify", "{}/missing"], 1, "there is no folder {}/missing; check the path"),
        (["ls", "{}"], 1, "has no manifest.json: it is not a dataset"),
    ],
)
def test_faults_are_one_message_without_traceback(tmp_path, arguments, status, message):
    command = [part.format(tmp_path) for part in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "stoker.server", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert message.format(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pack", "~/photos", "d"], "~/photos does not exist; check the path; ~ is not expanded"),
        (["pack", "s3://bucket/photos", "d"], "it is an address: download the file"),
        (["ls", "$DATA/photos"], "check the path; variables are not expanded here: write their"),
        (["verify", "photos\\packed"], "folders are separated by / here, not by a backslash"),
    ],
)
def test_paths_that_a_shell_or_another_system_would_read(arguments, said):
    code, _, errors = call(*arguments)
    assert (code in (1, 2), said in " ".join(errors.split())) == (True, True), errors


@pytest.mark.parametrize("kind", ["image_folder", "parallel_folders"])
def test_ls_fits_80_columns(tmp_path, request, kind, monkeypatch, run):
    run("pack", request.getfixturevalue(kind), tmp_path / "d")
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)  # a terminal without colors
    monkeypatch.chdir(tmp_path)
    out = run("ls", "d")
    assert max(map(len, out.splitlines())) <= 80
    with open_dataset("d") as dataset:
        for field in dataset.schema.fields:
            row = next(line for line in out.splitlines() if line.startswith(f"│ {field.name} "))
            sides = ", ".join("?" if side is None else str(side) for side in field.shape)
            assert f"{field.dtype} ({sides})" in row  # no word is broken
            assert f"  {field.name}: " in out or f"│ {field.name} " in out
        for number in range(5):
            assert dataset.source(number) in out


def test_into_a_pipe_each_row_is_one_plain_line(folder):
    """However long it is: a table on a terminal of 40 columns would break it."""
    command = [sys.executable, "-m", "stoker", "ls", folder]
    environment = {**os.environ, "COLUMNS": "40"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    lines = done.stdout.splitlines()
    with open_dataset(folder) as dataset:
        assert lines[0].startswith(f"{folder}: 6 samples in 1 file, ")
        assert lines[0].endswith(f", {dataset.fingerprint}")
        shown = [line.split() for line in lines if line[0].isdecimal()]
        assert [words[:2] for words in shown] == [[str(n), dataset.source(n)] for n in range(5)]
    assert ["label", "label", "int64", "()"] in [line.split()[:4] for line in lines]
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_split(tmp_path, folder, run):
    """Splits of a packed dataset, shown by `ls`; they are replaced only on request."""
    (tmp_path / "val.txt").write_text("1\n4\n")
    out = run("split", folder, "train=4", "test=rest", f"val={tmp_path}/val.txt", "--seed", 3)
    assert out == "train: 4 samples of 6\ntest: 2 samples of 6\nval: 2 samples of 6\n"
    assert "split val: 2 samples" in run("ls", folder)
    assert json.loads(run("ls", folder, "--json"))["splits"] == {"train": 4, "test": 2, "val": 2}
    with pytest.raises(UsageError, match="already has the splits train, test, val; runs that use"):
        run("split", folder, "--by", "label")
    told = json.loads(run("split", folder, "train=5", "val=1", "--overwrite", "--json"))
    assert told == {"dataset": str(folder), "rows": 6, "splits": {"train": 5, "val": 1}}
    out = run("split", folder, "--by", "label", "--overwrite")
    assert out.startswith(
        "animals: 3 samples of 6\nthings: 3 samples of 6\nstreams that are open keep"
    )
    run("split", folder, "train=0.67", "val=0.33", "--stratify", "label", "--overwrite")
    for given, message in (
        (["--by", "label", "train=0.5"], "--by makes all splits; leave NAME=PART and"),
        (["train"], "split: 'train': expected NAME=PART, such as train=0.9"),
        (["a=0.5", "a=0.5"], "'a' comes twice"),
        (["a=1_0"], "already has"),
        (["a=no.txt"], r"split: cannot read no\.txt: No such file"),
    ):
        with pytest.raises(UsageError, match=message):
            run("split", folder, *given)
