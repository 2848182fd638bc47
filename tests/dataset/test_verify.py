"""`verify` finds every sort of damage, by id, field and reason, with any number of workers."""

import msgspec
import numpy as np
import pytest

from stoker.dataset import open_dataset, schema
from stoker.dataset.format.manifest import read_manifest, write_manifest
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.verify import verify


@pytest.fixture
def folder(tmp_path, parallel_folders):
    pack(parallel_folders, tmp_path / "d", Options(workers=1, cut=Cut(rows=3)))
    return tmp_path / "d"


def overwrite(folder, field: str, number: int, skip: int, data: bytes) -> None:
    """Write over a field's bytes, `skip` bytes behind its beginning."""
    with open_dataset(folder) as dataset:
        file, offset = dataset.locate(field, number)
    with open(folder / file.name, "r+b") as stream:
        stream.seek(offset + skip)
        stream.write(data)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_whole_dataset(folder, workers, monkeypatch):
    monkeypatch.setattr("stoker.dataset.verify.ROWS_PER_JOB", 2)
    seen = []
    report = verify(folder, workers, lambda done, total: seen.append((done, total)))
    assert report.holds
    assert (report.rows, report.bad) == (6, 0)
    assert seen[-1] == (6, 6)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_damage_is_named(folder, workers, monkeypatch):
    monkeypatch.setattr("stoker.dataset.verify.ROWS_PER_JOB", 2)
    with open_dataset(folder) as dataset:
        length = len(dataset.read("image", 1))
    overwrite(folder, "image", 1, length - 2, b"xx")  # its end marker: cannot be decoded
    overwrite(folder, "mask", 4, 60, b"x")  # inside the pixels: the checksum tells
    report = verify(folder, workers)
    assert not report.holds
    assert report.bad == 2
    first, second = report.bad_rows
    assert (first.id, first.field, first.source) == (1, "image", "images/chelsea.jpg")
    assert "cannot decode it: it is damaged: " in first.reason
    assert (second.id, second.field) == (4, "mask")
    assert "the checksum of a band differs" in second.reason
    assert len(report.bad_files) == 2
    assert report.fingerprint_holds


@pytest.mark.parametrize(
    ("grid", "field", "reason"),
    [
        (True, "image", "it does not have the checksums that its grid stores"),
        (False, "", "its content no longer has the digest that it was packed with"),
    ],
)
def test_changes_that_still_decode_are_found(tmp_path, parallel_folders, grid, field, reason):
    """Another quantization table: a fine JPEG, but not the one that was packed."""
    folder = tmp_path / "d"
    pack(parallel_folders, folder, Options(workers=1, cut=Cut(rows=3), grid=grid))
    with open_dataset(folder) as dataset:
        data = bytes(dataset.read("image", 2))
    table = data.index(b"\xff\xdb") + 10
    overwrite(folder, "image", 2, table, bytes([data[table] ^ 1]))
    report = verify(folder, 1)
    assert [(row.id, row.field) for row in report.bad_rows] == [(2, field)]
    assert reason in report.bad_rows[0].reason


def test_a_changed_digest_breaks_the_fingerprint(folder):
    with open_dataset(folder) as dataset:
        place = dataset.manifest.files[0].columns["stoker.digest"].data.offset
        name = dataset.manifest.files[0].name
    with open(folder / name, "r+b") as file:
        file.seek(place)
        file.write(bytes(16))
    report = verify(folder, 1)
    assert not report.fingerprint_holds
    assert [(row.id, row.field) for row in report.bad_rows] == [(0, "")]


def test_another_fingerprint_with_a_checksum_that_fits(folder):
    """Files and rows are good: only the name of their content is wrong."""
    manifest = read_manifest(folder)
    write_manifest(folder, msgspec.structs.replace(manifest, fingerprint="content:" + "a" * 32))
    report = verify(folder, 1)
    assert (report.bad, report.bad_files, report.fingerprint_holds) == (0, (), False)
    assert not report.holds


def test_every_kind_of_field(tmp_path, photographs):
    fields = (
        schema.image("raw", "raw"),
        schema.mask("flat", "raw"),
        schema.scalar("night", "bool"),
        schema.array("boxes", "float32", (None, 4)),
        schema.array("flags", "bool", (None,)),
        schema.array("matrix", "int16", (2, 2)),
        schema.blob("caption"),
    )
    rows = [
        {
            "raw": pixels,
            "flat": pixels[:, :, 0].copy(),
            "night": number % 2 == 0,
            "boxes": np.zeros((number, 4), np.float32),
            "flags": np.ones(number, np.bool_),
            "matrix": np.ones((2, 2), np.int16),
            "caption": b"abc" * number,
        }
        for number, pixels in enumerate(photographs.values())
    ]
    write_dataset(tmp_path / "d", schema.Schema(fields), rows)
    assert verify(tmp_path / "d", 1).holds
