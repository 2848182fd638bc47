"""`stoker unpack`: pack, unpack and pack again gives the same samples, by the command line."""

import json
import operator
from pathlib import Path

import numpy as np
import pytest
from commands import call, pack_folder
from PIL import Image

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.packing import unpack as unpacking
from stoker.dataset.reading.dataset_interface import Dataset

FAILED, USAGE = 1, 2
CLASSES = ("cup", "spoon")
SIDE = 24
RNG = np.random.default_rng(3)


def levels(*shape: int, dtype: str = "uint8", top: int = 256) -> np.ndarray:
    return RNG.integers(0, top, shape).astype(dtype)


FIELDS = (
    schema.image("photo"),
    schema.image("plain", "raw"),
    schema.image("xray", "raw", dtype="uint16", channels=1),
    schema.image("ct", "bands", dtype="int16", channels=1),
    schema.image("spectrum", "raw", channels=5),
    schema.flow(),
    schema.optional(schema.mask(), fill=255),
    schema.mask("instances", "bands", dtype="int32"),
    schema.mask("parts", "raw", dtype="uint16"),
    schema.relative(schema.mask("half", "bands")),
    schema.optional(schema.label(classes=CLASSES), fill=-1),
    schema.label("number"),
    schema.scalar("weight", "float32"),
    schema.scalar("huge", "uint64"),
    schema.scalar("night", "bool"),
    schema.array("pose", "float64", (2, 3)),
    schema.array("track", "float16", (None, 2)),
    schema.optional(schema.blob("text")),
    schema.optional(schema.boxes(of="photo", fields={"label": "int64", "score": "float32[2]"})),
    schema.keypoints(of="photo", fields={"seen": "bool"}),
)
"""Every kind of field, in every form that differs."""
MEANING = operator.attrgetter(
    *("name", "kind", "dtype", "shape", "bound", "classes", "class_ids", "items"),
    *("optional", "fill", "relative", "vectors", "keeps_orientation"),
)


def full_row(number: int, to_jpeg, to_png) -> dict[str, object]:
    pixels = levels(SIDE, SIDE + number, 3)
    row: dict[str, object] = {
        "photo": to_png(pixels) if number == 2 else to_jpeg(pixels, orientation=1 + number),
    }
    high, wide = SIDE, SIDE + number
    size = (wide, high) if number >= 4 else (high, wide)  # EXIF turns those by a quarter
    row |= {
        "plain": levels(*size, 3),
        "xray": levels(*size, 1, dtype="uint16", top=2**16),
        "ct": (levels(*size, 1, dtype="int32", top=2**16) - 2**15).astype(np.int16),
        "spectrum": levels(*size, 5),
        "flow": RNG.normal(size=(*size, 2)).astype(np.float32),
        "mask": levels(*size, top=4),
        "instances": levels(*size, dtype="int32", top=2**31 - 1),
        "parts": levels(*size, dtype="uint16", top=2**16),
        "half": levels(size[0] // 2, size[1] // 2),
        "label": number % 2,
        "number": -number,
        "weight": [0.1, np.nan, np.inf, -np.inf, 1e-30, 3.0][number],
        "huge": 2**64 - 1 - number,
        "night": number % 2 == 0,
        "pose": RNG.normal(size=(2, 3)),
        "track": RNG.normal(size=(number, 2)).astype(np.float16),
        "text": b"a \xff\0 text\n" * number,
        "boxes": {
            "xyxy": [[0.1, 2, 3, 4 + box] for box in range(number)],
            "label": list(range(number)),
            "score": [[np.nan, box] for box in range(number)],
        },
        "keypoints": {"xy": [[1.5, 2.25]], "seen": [True]},
    }
    if number == 3:
        for name in ("mask", "label", "text", "boxes"):
            row[name] = None
    return row


@pytest.fixture
def dataset(tmp_path: Path, to_jpeg, to_png) -> Path:
    write(tmp_path / "d", FIELDS, [full_row(number, to_jpeg, to_png) for number in range(6)])
    return tmp_path / "d"


def unpack(*arguments: object) -> dict:
    code, printed, errors = call("unpack", *arguments, "--json")
    assert (code, errors) == (0, "")
    return json.loads(printed)


def decoded(dataset: Dataset, name: str, number: int) -> tuple[object, ...]:
    """A value as readers see it, with what equal samples have in common."""
    spec = dataset.schema.field(name)
    assert spec is not None
    if not spec.is_picture:
        value = dataset.read(name, number)
        plain = np.frombuffer(value, np.uint8) if isinstance(value, memoryview) else value
        return spec.kind, plain.dtype, plain.shape, plain.tobytes()
    height, width = dataset.size(name, number)
    out = np.empty(height * width * 8 * max(1, *spec.shape[2:], 1), np.uint8)
    pixels = dataset.decode(name, number, out)
    return spec.kind, pixels.dtype, pixels.shape, pixels.tobytes()


def same_samples(one: Path, two: Path) -> None:
    with open_dataset(one) as before, open_dataset(two) as after:
        assert len(before) == len(after)
        names = [field.name for field in before.schema.fields]
        assert names == [field.name for field in after.schema.fields]
        for number in range(len(before)):
            for name in names:
                assert decoded(before, name, number) == decoded(after, name, number), (name, number)
        for old, new in zip(before.schema.fields, after.schema.fields, strict=True):
            assert MEANING(old) == MEANING(new)


def test_every_kind_of_field_comes_back(dataset, tmp_path):
    facts = unpack(dataset, tmp_path / "u")
    pack_folder(tmp_path / "u", tmp_path / "again")
    same_samples(dataset, tmp_path / "again")
    assert (facts["rows"], facts["files"], facts["kept_files"]) == (6, 6 * 13 - 2, 0)
    assert facts["forms"]["photo"] == [".jpg", ".png"]
    assert {name: facts["forms"][name] for name in ("xray", "ct", "label", "boxes")} == {
        "xray": [".png"], "ct": [".npy"], "label": ["samples.jsonl"], "boxes": ["samples.jsonl"],
    }  # fmt: skip
    unpack(tmp_path / "again", tmp_path / "u2")
    same = [(tmp_path / name / "samples.jsonl").read_bytes() for name in ("u", "u2")]
    assert same[0] == same[1]


def test_other_tools_read_the_files(dataset, tmp_path):
    unpack(dataset, tmp_path / "u")
    lines = [json.loads(line) for line in (tmp_path / "u/samples.jsonl").read_text().splitlines()]
    assert [line["label"] for line in lines] == ["cup", "spoon", "cup", None, "cup", "spoon"]
    assert [line["weight"] for line in lines[1:4]] == ["nan", "inf", "-inf"]
    with open_dataset(dataset) as opened:
        with Image.open(tmp_path / "u" / lines[1]["xray"]) as xray:
            assert (np.asarray(xray) == opened.read("xray", 1)[..., 0]).all()
        ct = np.load(tmp_path / "u" / lines[1]["ct"], allow_pickle=False)
        assert ct.tobytes() == decoded(opened, "ct", 1)[3]
        assert (tmp_path / "u" / lines[1]["photo"]).read_bytes() == opened.read("photo", 1)
        assert (tmp_path / "u" / lines[1]["text"]).read_bytes() == opened.read("text", 1)


def test_folders_keep_names_and_fingerprint(tmp_path, parallel_folders, image_folder):
    for source in (parallel_folders, image_folder):
        name = source.name
        first, second = tmp_path / f"{name}-1", tmp_path / f"{name}-2"
        pack_folder(source, first)
        unpack(first, tmp_path / f"{name}-u")
        pack_folder(tmp_path / f"{name}-u", second)
        with open_dataset(first) as one, open_dataset(second) as two:
            assert one.fingerprint == two.fingerprint
            sources = [one.source(number) for number in range(len(one))]
            assert sources == [two.source(number) for number in range(len(two))]
        for path in sources:
            assert (tmp_path / f"{name}-u" / "image" / path).exists()


def test_a_dataset_is_no_source_and_is_answered_with_the_command(tmp_path, image_folder):
    data, files = tmp_path / "d", tmp_path / "FOLDER"
    pack_folder(image_folder, data)
    code, _, errors = call("pack", data, tmp_path / "raw", "--raw")
    assert (code, errors) == (
        2,
        f"stoker: {data} is a packed dataset already; to pack it in another way, write its samples"
        f" as files first: stoker unpack {data} FOLDER, then stoker pack FOLDER DEST\n",
    )
    unpack(data, files)
    pack_folder(files, tmp_path / "raw", "--raw")
    same_samples(data, tmp_path / "raw")


def test_orientation_that_is_kept_is_kept_again(tmp_path, to_jpeg):
    (tmp_path / "s/a").mkdir(parents=True)
    (tmp_path / "s/a/1.jpg").write_bytes(to_jpeg(levels(SIDE, 2 * SIDE, 3), orientation=6))
    assert call("pack", tmp_path / "s", tmp_path / "d", "--orientation", "keep")[0] == 0
    unpack(tmp_path / "d", tmp_path / "u")
    pack_folder(tmp_path / "u", tmp_path / "again")
    same_samples(tmp_path / "d", tmp_path / "again")
    with Image.open(tmp_path / "u/image/a/1.jpg") as file:
        assert file.getexif()[0x0112] == 6


def test_splits_are_lists_that_split_takes(tmp_path, image_folder):
    pack_folder(image_folder, tmp_path / "d")
    assert call("split", tmp_path / "d", "train=4", "val=rest")[0] == 0
    unpack(tmp_path / "d", tmp_path / "u")
    pack_folder(tmp_path / "u", tmp_path / "again")
    lists = [f"{name}={tmp_path}/u/{name}.split.txt" for name in ("train", "val")]
    assert call("split", tmp_path / "again", *lists)[0] == 0
    with open_dataset(tmp_path / "d") as one, open_dataset(tmp_path / "again") as two:
        assert one.manifest.splits.names == two.manifest.splits.names


def test_an_interrupted_run_continues(tmp_path, image_folder, monkeypatch):
    pack_folder(image_folder, tmp_path / "d")
    whole = unpack(tmp_path / "d", tmp_path / "whole")
    line_of, done = unpacking.line_value, []

    def interrupted(*arguments: object) -> object:
        done.append(None)
        if len(done) == 4:
            raise KeyboardInterrupt
        return line_of(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(unpacking, "line_value", interrupted)
        code, printed, errors = call("unpack", tmp_path / "d", tmp_path / "u")
    assert (code, printed) == (130, "")
    assert "interrupted; run the same command again" in errors
    code, _, errors = call("pack", tmp_path / "u", tmp_path / "no")
    assert (code, "was not unpacked to the end" in errors) == (USAGE, True)
    code, _, errors = call("unpack", tmp_path / "d", tmp_path / "u", "--numbered")
    assert (code, "of another run of stoker unpack" in errors) == (USAGE, True)
    facts = unpack(tmp_path / "d", tmp_path / "u")
    assert facts["kept_files"] == 4
    for path in (tmp_path / "whole").rglob("*"):
        other = tmp_path / "u" / path.relative_to(tmp_path / "whole")
        assert path.is_dir() or path.read_bytes() == other.read_bytes()
    assert not (tmp_path / "u" / ".unpacking").exists()
    assert whole["files"] == facts["files"] == 6


def test_a_folder_with_other_files_is_left_alone(tmp_path, image_folder):
    pack_folder(image_folder, tmp_path / "d")
    before = sorted(image_folder.rglob("*"))
    code, printed, errors = call("unpack", tmp_path / "d", image_folder)
    assert (code, printed) == (USAGE, "")
    assert errors == f"stoker: {image_folder} is not empty; choose another folder, or empty it\n"
    assert sorted(image_folder.rglob("*")) == before


@pytest.mark.parametrize("name", ["../a.jpg", "/etc/a.jpg", "a/../../b.jpg", "a//b.jpg", "a" * 300])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, name, to_jpeg, monkeypatch):
    source = tmp_path / "s/a"
    source.mkdir(parents=True)
    (source / "1.jpg").write_bytes(to_jpeg(levels(SIDE, SIDE, 3)))
    pack_folder(tmp_path / "s", tmp_path / "d")
    unpack(tmp_path / "d", tmp_path / "u")
    line = json.loads((tmp_path / "u/samples.jsonl").read_text())
    line["stoker.source"] = name
    (tmp_path / "u/samples.jsonl").write_text(json.dumps(line))
    pack_folder(tmp_path / "u", tmp_path / "planted")
    before = sorted(tmp_path.rglob("*"))
    code, printed, errors = call("unpack", tmp_path / "planted", tmp_path / "v")
    assert (code, printed) == (USAGE, "")
    assert f"the source of sample 0 is {name!r}, which names no file below a folder" in errors
    assert sorted(tmp_path.rglob("*")) == before
    assert unpack(tmp_path / "planted", tmp_path / "v", "--numbered")["files"] == 1
    assert (tmp_path / "v/image/0.jpg").read_bytes() == (tmp_path / "u/image/a/1.jpg").read_bytes()


def test_a_name_that_comes_twice_needs_numbers(tmp_path, to_jpeg):
    (tmp_path / "a.jpg").write_bytes(to_jpeg(levels(SIDE, SIDE, 3)))
    (tmp_path / "t.csv").write_text("image,label\na.jpg,1\na.jpg,2\n")
    pack_folder(tmp_path / "t.csv", tmp_path / "d")
    code, _, errors = call("unpack", tmp_path / "d", tmp_path / "u")
    assert code == USAGE
    assert "the samples 0 and 1 of" in errors
    assert "have one name, 'a'; pass --numbered" in errors
    assert not (tmp_path / "u").exists()
    unpack(tmp_path / "d", tmp_path / "u", "--numbered")
    pack_folder(tmp_path / "u", tmp_path / "again")
    same_samples(tmp_path / "d", tmp_path / "again")


def test_a_damaged_sample_is_named_and_nothing_is_complete(tmp_path, image_folder):
    pack_folder(image_folder, tmp_path / "d")
    with open_dataset(tmp_path / "d") as opened:
        file, offset = opened.locate("image", 3)
    data = bytearray((tmp_path / "d" / file.name).read_bytes())
    data[offset + 1000] ^= 1
    (tmp_path / "d" / file.name).write_bytes(data)
    code, _, errors = call("unpack", tmp_path / "d", tmp_path / "u")
    assert code == FAILED
    assert "id 3" in errors
    assert not (tmp_path / "u/stoker-unpacked.json").exists()


CHANGES = {
    "no JSON": ("{", "truncated"),
    "a list": ("[]", "Expected `object`"),
    "an unknown field": (
        '{"image": "a", "lable": 1}',
        "expected the fields image, label, got 'lable'",
    ),
    "no image": ('{"label": 1}', "field 'image' is missing"),
    "a number for a path": ('{"image": 5, "label": 1}', "expected the path of a file, got 5"),
    "a missing file": ('{"image": "b.jpg", "label": 1}', "it cannot be read"),
    "an unknown class": ('{"image": "image/a/1.jpg", "label": "dog"}', "expected one of 1 classes"),
    "text for a number": ('{"image": "image/a/1.jpg", "label": [[1], []]}', "expected numbers"),
    "a long number": ('{"image": "image/a/1.jpg", "label": 99999999999999999999999}', ""),
    "a deep value": ('{"image": "image/a/1.jpg", "label": ' + "[" * 5000 + "}", ""),
    "a name that is no text": ('{"stoker.source": 1}', "expected text, got 1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_lines_that_do_not_fit_are_bad_samples(tmp_path, change, to_jpeg):
    line, message = CHANGES[change]
    (tmp_path / "s/a").mkdir(parents=True)
    (tmp_path / "s/a/1.jpg").write_bytes(to_jpeg(levels(SIDE, SIDE, 3)))
    pack_folder(tmp_path / "s", tmp_path / "d")
    unpack(tmp_path / "d", tmp_path / "u")
    with open(tmp_path / "u/samples.jsonl", "a") as file:
        file.write(line + "\n")
    code, _, errors = call("pack", tmp_path / "u", tmp_path / "again", "--workers=1")
    assert (code, message in errors) == (FAILED, True), errors
    assert "1 of 2 samples" in errors
    skipped = call("pack", tmp_path / "u", tmp_path / "again", "--workers=1", "--skip-bad")
    assert skipped[0] == 0


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{", "is damaged"),
        ('{"fingerprint": "x", "fields": []}', "1 to 256 fields"),
        ('{"fingerprint": "x", "version": 2, "fields": []}', "this Stoker reads version 1"),
        ('{"fingerprint": "x", "format": "y", "fields": []}', "expected format 'stoker-unpacked'"),
        ('{"fingerprint": "x", "fields": [{"name": "a", "kind": "image"}]}', "height and width"),
    ],
)
def test_headers_that_cannot_be(tmp_path, header, message):
    (tmp_path / "stoker-unpacked.json").write_text(header)
    (tmp_path / "samples.jsonl").write_text("{}")
    code, _, errors = call("pack", tmp_path, tmp_path.parent / "never")
    assert (code in (FAILED, USAGE), message in errors) == (True, True), errors


def test_a_live_source_is_not_unpacked(tmp_path, monkeypatch):
    (tmp_path / "rows_to_unpack.py").write_text(
        "from stoker.dataset import schema\n"
        "class Rows:\n"
        "    fields = (schema.scalar('x'),)\n"
        "    fingerprint = '1'\n"
        "    def __len__(self): return 1\n"
        "    def __getitem__(self, index): return {'x': 1.0}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    code, _, errors = call("unpack", "rows_to_unpack:Rows", tmp_path / "u")
    assert (code, "is a live source" in errors) == (USAGE, True), errors


def test_what_is_printed(tmp_path, image_folder):
    pack_folder(image_folder, tmp_path / "d")
    code, printed, errors = call("unpack", tmp_path / "d", tmp_path / "u", COLUMNS="60")
    assert (code, errors) == (0, "")
    lines = printed.splitlines()
    assert lines[0].startswith(f"unpacked 6 samples of {tmp_path / 'd'} into {tmp_path / 'u'}: 6 ")
    assert lines[1:3] == ["image: .jpg, .png", "label: samples.jsonl"]
    assert lines[3].startswith("not written: the bytes of JPEGs from before packing")
