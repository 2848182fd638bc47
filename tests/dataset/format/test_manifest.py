"""Manifests that are damaged, newer, or lie are refused by name; mutated ones never crash."""

import json
import os

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema
from stoker.dataset.format.manifest import MAX_BYTES, read_manifest, write_manifest
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import DataError, DatasetError, VersionError


@pytest.fixture
def folder(tmp_path, photographs, to_jpeg):
    rows = [
        {
            "image": to_jpeg(pixels[:60, :50]),
            "mask": pixels[:60, :50, 0] // 64,
            "label": number,
            "boxes": np.zeros((number, 4), np.float32),
        }
        for number, pixels in enumerate(photographs.values())
    ]
    fields = (
        schema.image(),
        schema.mask(),
        schema.label(),
        schema.array("boxes", "float32", (None, 4)),
    )
    write_dataset(tmp_path / "d", schema.Schema(fields), rows, cut=Cut(rows=4))
    return tmp_path / "d"


def change(folder, edit, *, seal: bool = True) -> None:
    """Edit the manifest as data, and give it a checksum that fits: the edit is what counts."""
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    edit(data)
    if seal:
        data.pop("checksum", None)
        data["checksum"] = canonical_digest(data)
    path.write_text(json.dumps(data))


def test_a_newer_version_names_both_and_the_remedy(folder):
    change(folder, lambda data: data.update(version=2, brand_new=True))
    message = (
        r"has format version 2, but this Stoker \(0\.1\.0\) reads up to version 1; "
        "update Stoker, or pack the dataset again"
    )
    with pytest.raises(VersionError, match=message) as caught:
        open_dataset(folder)
    assert caught.value.details["found"] == 2


@pytest.mark.parametrize(("key", "value"), [("encoding", "jpeg-grid"), ("kind", "video")])
def test_a_newer_encoding_or_kind_asks_for_an_update(folder, key, value):
    change(folder, lambda data: data["schema"]["fields"][0].update({key: value}))
    with pytest.raises(VersionError, match=rf"field 'image' is of kind .*{value}.* update Stoker"):
        open_dataset(folder)


def test_additions_of_a_newer_minor_are_ignored(folder):
    def edit(data):
        data["curator"] = {"name": "Ada"}
        data["files"][0]["zone"] = 3
        data["schema"]["fields"][0]["unit"] = "lux"

    change(folder, edit)
    with open_dataset(folder) as dataset:
        assert len(dataset) == 6


def test_any_other_byte_is_noticed_by_the_checksum(folder):
    change(folder, lambda data: data.update(rows=7), seal=False)
    with pytest.raises(
        DatasetError, match=r"is damaged: its checksum is '.*', but its content has"
    ):
        open_dataset(folder)


def test_a_manifest_is_on_disk_before_it_has_its_name(folder, monkeypatch):
    """After a power cut the manifest is the old one or the new one, never an empty file."""
    calls = []

    def fsync(descriptor, fsync=os.fsync):
        calls.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def replace(source, target, replace=os.replace):
        calls.append(("replace", str(source), str(target), source.stat().st_size))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_manifest(folder, read_manifest(folder))
    target = folder / "manifest.json"
    temporary = calls[0][1]
    assert calls == [
        ("fsync", temporary),
        ("replace", temporary, str(target), target.stat().st_size),
        ("fsync", str(folder)),
    ]


def first_place(data, column="image"):
    return data["files"][0]["columns"][column]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.update(format="other"), "expected format 'stoker-dataset' and a version"),
        (lambda d: d.update(version="1"), "expected format 'stoker-dataset' and a version"),
        (lambda d: d.pop("schema"), "missing required field `schema`"),
        (lambda d: d.update(rows=9), "expected 9 rows in total, got 6 in its files"),
        (lambda d: d.update(rows=0, files=[]), "expected 0 rows in total"),
        (lambda d: d.update(fingerprint="content:xyz"), "expected a fingerprint content:<32 hex>"),
        (lambda d: d["files"][1].update(first_row=5), "expected first row 4 and 1 to 1048576 rows"),
        (lambda d: d["files"][0].update(rows=-4), "expected first row 0 and 1 to"),
        (lambda d: d["files"][0].update(name="../evil.arrow"), "expected a plain file name"),
        (lambda d: d["files"][0].update(name="/etc/passwd"), "expected a plain file name"),
        (lambda d: d["files"][0]["columns"].pop("mask"), "'mask': the manifest has no offset"),
        (lambda d: first_place(d).pop("offsets"), "column 'image': expected 5 offsets"),
        (lambda d: first_place(d).update(data=[-64, 10]), "an end up to .* got offset -64"),
        (lambda d: first_place(d).update(data=[64, 2**40]), "data of column 'image': expected"),
        (lambda d: first_place(d).update(data=[3, 10]), "expected a multiple of 64 as offset"),
        (lambda d: first_place(d).update(data=[2**80, 1]), "is damaged"),
        (lambda d: first_place(d, "label").update(data=[0, 8]), "expected 4 items of 8 bytes"),
        (lambda d: first_place(d, "boxes").update(data=[0, 7]), ", got 7 bytes"),
        (lambda d: d["schema"]["fields"][0].update(bound=[1]), "field 'image': shape"),
        (lambda d: d["schema"]["fields"][2].update(dtype="int9"), "expected a dtype among"),
        (lambda d: d["schema"]["fields"][2].update(name="mask"), "column 'mask' is named twice"),
        (lambda d: d["schema"].update(side=[]), "expected the column 'stoker.digest'"),
        (lambda d: d["schema"].update(side=[{"name": "x", "type": "y"}]), "expected a column type"),
        (lambda d: d["schema"].update(fields=[]), "expected 1 to 256 fields in a schema, got 0"),
    ],
)  # fmt: skip
def test_manifests_that_cannot_be_obeyed(folder, edit, message):
    change(folder, edit)
    with pytest.raises(DatasetError, match=message) as caught:
        open_dataset(folder)
    assert "manifest.json is damaged" in caught.value.message


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 10**5])
def test_manifests_that_are_no_manifest(folder, text):
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(DatasetError, match="is damaged"):
        open_dataset(folder)


@pytest.mark.slow
def test_a_manifest_of_absurd_size_is_not_read(folder):
    with open(folder / "manifest.json", "ab") as file:
        file.truncate(MAX_BYTES + 2)
    with pytest.raises(DatasetError, match="it is larger than 268435456 bytes"):
        open_dataset(folder)


def use(folder) -> None:
    """Read and decode everything; only typed errors may come."""
    with open_dataset(folder) as dataset:
        out = np.empty(64 * 64 * 3, np.uint8)
        for number in range(min(len(dataset), 50)):
            for field in dataset.schema.fields:
                try:
                    dataset.read(field.name, number)
                    if field.is_picture and np.prod(field.bound) <= out.size:
                        dataset.decode(field.name, number, out)
                except DataError:
                    pass


def mutate(value, generator):
    """Return JSON data with one leaf replaced by something else."""
    if isinstance(value, dict) and value:
        key = sorted(value)[generator.integers(len(value))]
        return {**value, key: mutate(value[key], generator)}
    if isinstance(value, list) and value:
        place = int(generator.integers(len(value)))
        return [*value[:place], mutate(value[place], generator), *value[place + 1 :]]
    odd = [0, 1, -1, 63, 64, 2**31, 2**62, 2**63, 10**30, None, "", "x", [], {}, True, 0.5, "int8"]
    if isinstance(value, int):
        odd += [value + 64, value - 64, value * 2, value + 1, value // 2]
    return odd[generator.integers(len(odd))]


@pytest.mark.slow
def test_mutated_manifests_never_crash(folder):
    generator = np.random.default_rng(5)
    original = json.loads((folder / "manifest.json").read_text())
    original.pop("checksum")
    refused = 0
    for _ in range(400):
        data = mutate(original, generator)
        try:
            data["checksum"] = canonical_digest(data)
        except (TypeError, ValueError):
            continue
        (folder / "manifest.json").write_text(json.dumps(data))
        try:
            use(folder)
        except (DataError, VersionError):
            refused += 1
    assert refused > 100


def test_mutated_data_files_never_crash(folder):
    """Same sizes, other bytes: offsets, sizes and pictures may be anything."""
    generator = np.random.default_rng(6)
    victim = next(folder.glob("00000*"))
    original = np.frombuffer(victim.read_bytes(), np.uint8)
    for turn in range(150):
        data = original.copy()
        if turn % 3 == 0:  # aim at the columns of numbers
            places = generator.integers(1000, 2200, 8)
        else:
            places = generator.integers(0, data.size, 40)
        data[places] = generator.integers(0, 256, places.size)
        victim.write_bytes(data.tobytes())
        use(folder)
