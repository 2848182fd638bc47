"""WebDataset tars written by the standard library, packed; every fault named."""

import gzip
import io
import json

import numpy as np
import pytest
from files import npy_bytes, tar_of
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import DatasetError, UsageError

ONE = Options(workers=1, grid=False)


@pytest.fixture
def pictures(photographs, to_jpeg):
    return [to_jpeg(pixels) for pixels in photographs.values()]


@pytest.fixture
def shards(tmp_path, photographs, to_jpeg, to_png):
    """Two tars of three samples each: picture, mask, class, text, JSON, array, number."""
    root = tmp_path / "shards"
    root.mkdir()
    for shard in range(2):
        members = []
        for number, pixels in list(enumerate(photographs.values()))[3 * shard : 3 * shard + 3]:
            members += [
                (f"part/{number:04d}.jpg", to_jpeg(pixels)),
                (f"part/{number:04d}.seg.png", to_png(pixels[:, :, 1] // 32)),
                (f"part/{number:04d}.cls", f"{number % 3}\n".encode()),
                (f"part/{number:04d}.txt", f"photograph {number}".encode()),
                (f"part/{number:04d}.json", json.dumps({"number": number}).encode()),
                (f"part/{number:04d}.npy", npy_bytes(np.arange(number, dtype="<f4"))),
                (f"part/{number:04d}.id", str(number - 2).encode()),
            ]
        tar_of(root / f"photos-{shard:06d}.tar", members)
    return root


def test_every_part_becomes_a_field(tmp_path, shards, photographs, to_jpeg):
    report = pack(shards, tmp_path / "d", ONE)
    assert report.kind == "webdataset"
    with open_dataset(tmp_path / "d") as dataset:
        kinds = {field.name: field.kind for field in dataset.schema.fields}
        assert list(kinds.items()) == [
            ("image", "image"),
            ("seg", "mask"),
            ("label", "label"),
            ("id", "scalar"),
            ("json", "bytes"),
            ("npy", "array"),
            ("txt", "bytes"),
        ]
        for number, pixels in enumerate(photographs.values()):
            out = np.empty(pixels.size, np.uint8)
            with Image.open(io.BytesIO(to_jpeg(pixels))) as picture:
                expected = np.asarray(picture)
            assert np.array_equal(dataset.decode("image", number, out), expected)
            assert np.array_equal(dataset.decode("seg", number, out), pixels[:, :, 1] // 32)
            assert dataset.read("label", number) == number % 3
            assert dataset.read("id", number) == number - 2
            assert np.array_equal(dataset.read("npy", number), np.arange(number, dtype="f4"))
            assert json.loads(bytes(dataset.read("json", number))) == {"number": number}
            assert bytes(dataset.read("txt", number)) == f"photograph {number}".encode()
            assert dataset.source(number) == f"photos-{number // 3:06d}.tar/part/{number:04d}"


def test_a_tar_has_the_fingerprint_of_a_folder_with_the_same_pictures(tmp_path, pictures):
    (tmp_path / "folder").mkdir()
    for number, data in enumerate(pictures):
        (tmp_path / "folder" / f"{number}.jpg").write_bytes(data)
    tar_of(tmp_path / "a.tar", [(f"{n}.jpg", data) for n, data in enumerate(pictures)])
    of_folder = pack(tmp_path / "folder", tmp_path / "d", ONE).manifest.fingerprint
    assert pack(tmp_path / "a.tar", tmp_path / "e", ONE).manifest.fingerprint == of_folder


def test_patterns_name_shards(tmp_path, shards):
    whole = pack(shards, tmp_path / "whole", ONE).manifest
    for number, pattern in enumerate(
        ["photos-{000000..000001}.tar", "*.tar", "photos-00000[01].tar"]
    ):
        packed = pack(f"{shards}/{pattern}", tmp_path / f"d{number}", ONE)
        assert packed.manifest.fingerprint == whole.fingerprint
    one = pack(f"{shards}/photos-00000{{1}}.tar", tmp_path / "one", ONE).manifest
    assert one.rows == 3


def test_what_a_part_is_can_be_said(tmp_path, shards):
    kinds = {"seg.png": "image", "cls": "int64", "npy": "ignore", "json": "ignore", "txt": "ignore"}
    pack(shards, tmp_path / "d", Options(workers=1, grid=False, fields=kinds))
    with open_dataset(tmp_path / "d") as dataset:
        fields = {field.name: field.kind for field in dataset.schema.fields}
    assert fields == {"image": "image", "seg": "image", "cls": "scalar", "id": "scalar"}


def bad(tmp_path, members, reason, **options):
    tar_of(tmp_path / "bad.tar", members)
    with pytest.raises((DatasetError, UsageError), match=reason):
        pack(tmp_path / "bad.tar", tmp_path / "d", Options(workers=1, grid=False, **options))


def test_partial_and_double_samples_are_named(tmp_path, pictures):
    one, two, *_ = pictures
    whole = [("a.jpg", one), ("a.cls", b"1")]
    bad(tmp_path, [*whole, ("b.jpg", two)], r"bad.tar/b: it has no member .cls, but other samples")
    bad(
        tmp_path,
        [*whole, ("b.jpg", two), ("b.cls", b"2"), ("a.jpg", two), ("a.cls", b"3")],
        r"bad.tar/a: its key occurred before, ahead of other samples \(again at byte \d+\)",
    )
    bad(
        tmp_path,
        [*whole, ("a.jpg", two)],
        r"bad.tar/a: it has two members .jpg, the second at byte \d+",
    )
    bad(
        tmp_path,
        [*whole, ("a.png", two)],
        r"several members that could be its image \(.jpg or .png\); declare them, for example with "
        r"--field png=mask, or =ignore",
    )


def test_values_that_do_not_fit_are_named(tmp_path, pictures):
    one, *_ = pictures
    start = [("a.jpg", one)]
    bad(tmp_path, [*start, ("a.cls", b"cat")], r"a: field 'label': expected an integer as text")
    bad(tmp_path, [*start, ("a.cls", b"1" * 40)], r"expected an integer as text, got b'111")
    bad(
        tmp_path,
        [*start, ("a.x", b"one")],
        r"field 'x': expected a number as text, got b'one'",
        fields={"x": "float32"},
    )
    ragged = [
        ("a.npy", npy_bytes(np.zeros((1, 2)))),
        ("b.jpg", one),
        ("b.npy", npy_bytes(np.zeros((1, 3)))),
    ]
    bad(tmp_path, [*start, *ragged], r"bad.tar/b: .*expected shape \(1, 2\), got \(1, 3\)")
    cut = npy_bytes(np.zeros(9))[:-1]
    bad(
        tmp_path,
        [*start, ("a.npy", cut)],
        r"field 'npy': expected 72 bytes of data, from its header, got 71",
    )
    bad(tmp_path, [("a.jpg", b"no picture")], r"bad.tar/a: .*expected a JPEG, PNG")


def test_objects_in_arrays_are_refused(tmp_path, pictures):
    out = io.BytesIO()
    np.save(out, np.array([{}], dtype=object), allow_pickle=True)
    good = [("a.jpg", pictures[0]), ("a.npy", npy_bytes(np.zeros(1)))]
    members = [*good, ("b.jpg", pictures[1]), ("b.npy", out.getvalue())]
    bad(
        tmp_path,
        members,
        r"bad.tar/b: field 'npy': expected an array of numbers, got one of object",
    )


def test_arrays_keep_their_values_whatever_their_order(tmp_path, pictures):
    arrays = [
        np.asfortranarray(np.arange(12, dtype=">i2").reshape(3, 4)),
        np.arange(12, dtype="<i2").reshape(3, 4) + 100,
    ]
    members = []
    for number, array in enumerate(arrays):
        members += [(f"{number}.jpg", pictures[number]), (f"{number}.npy", npy_bytes(array))]
    tar_of(tmp_path / "a.tar", members)
    pack(tmp_path / "a.tar", tmp_path / "d", ONE)
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("npy").shape == (3, 4)
        for number, array in enumerate(arrays):
            assert np.array_equal(dataset.read("npy", number), array)


def test_a_damaged_tar_is_named_and_can_be_left_behind(tmp_path, shards, capsys):
    path = shards / "photos-000001.tar"
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"part/0004.jpg") + 1000])
    with pytest.raises(DatasetError, match=r"photos-000001.tar: at byte \d+: .*truncated; every"):
        pack(shards, tmp_path / "d", ONE)
    manifest = pack(shards, tmp_path / "d", Options(workers=1, grid=False, skip_bad=True)).manifest
    assert manifest.rows == 4
    assert manifest.statistics.skipped == 1


def test_a_tar_that_changes_while_it_is_packed_is_noticed(tmp_path, shards, monkeypatch):
    def changed(*arguments):
        (shards / "photos-000001.tar").touch()
        return plan(*arguments)

    from stoker.dataset.packing import pack as module  # noqa: PLC0415

    plan = module.plan_jobs
    monkeypatch.setattr("stoker.dataset.packing.pack.plan_jobs", changed)
    with pytest.raises(DatasetError, match=r"photos-000001.tar: it changed while it was packed"):
        pack(shards, tmp_path / "d", ONE)


def test_what_is_no_dataset_of_tars(tmp_path, shards, pictures):
    def refused(reason, source, **options):
        with pytest.raises(UsageError, match=reason):
            pack(source, tmp_path / "d", Options(workers=1, grid=False, **options))

    (tmp_path / "e").mkdir()
    tar_of(tmp_path / "none.tar", [("README", b"hello"), (".hidden", b"x")])
    refused("has no samples: expected members with names such as KEY.jpg", tmp_path / "none.tar")
    whole = (tmp_path / "none.tar").read_bytes()
    for content, reason in (
        (b"", "it is empty"),
        (gzip.compress(whole), "it is compressed with gzip; decompress it first"),
        (b"x" + whole[1:], "expected a tar header with a valid checksum"),
    ):
        (tmp_path / "broken.tar").write_bytes(content)
        said = rf"no readable sample:\n  broken.tar: at byte 0: {reason}"
        refused(said, tmp_path / "broken.tar")
    (tmp_path / "broken.tar").unlink()
    tar_of(tmp_path / "dots.tar", [(f"{n}.{n}.jpg", b"") for n in range(300)])
    refused(
        "has more than 256 extensions, the last .*keys must have no dots", tmp_path / "dots.tar"
    )
    tar_of(tmp_path / "two.tar", [("a.seg.png", b""), ("a.seg.txt", b"")])
    refused("both give the field 'seg'; .* with --field EXTENSION=ignore", tmp_path / "two.tar")
    refused(r"cls=rgb: expected a kind among image, .* got 'rgb'", shards, fields={"cls": "rgb"})
    refused(
        r"there is no file .*photos-000002.tar; check", f"{shards}/photos-{{000000..000002}}.tar"
    )
    refused(
        "--field x=image: .* has no such extension, only cls, id", shards, fields={"x": "image"}
    )
    refused("matches no file; check the pattern", f"{shards}/nothing-*.tar")
    refused("expected a range from a number to a larger one", f"{shards}/{{5..1}}.tar")
    for name in ("train-0.tar", "test-0.tar"):
        tar_of(tmp_path / name, [("a.jpg", pictures[0])])
    for path in (tmp_path / "none.tar", tmp_path / "dots.tar", tmp_path / "two.tar"):
        path.unlink()
    refused(r"looks like splits \(test, train\); name the files of one, as in", tmp_path)
    refused("does not exist; expected a folder of them", tmp_path / "d", kind="webdataset")
    refused("has no .tar file; expected a folder of them", tmp_path / "e", kind="webdataset")
