"""Sources read in place: the same values as packed, from an index that is small and up to date."""

import errno
import os
import subprocess
import sys
import threading

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from stoker.dataset import open_dataset
from stoker.dataset.format.manifest import read_manifest, write_manifest
from stoker.dataset.packing import in_place
from stoker.dataset.packing.in_place import index_folder, make_index
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.verify import verify
from stoker.protocol.errors import (
    ClosedError,
    DatasetError,
    ResourceError,
    SampleError,
    UsageError,
)

NUMBERS = np.arange(12, dtype="<f4").reshape(3, 4)


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setattr(in_place, "cache_root", lambda: tmp_path / "caches")


@pytest.fixture
def rows(photographs, to_jpeg, to_png):
    """Pictures (one of them turned, one with a header beyond 64 KiB), masks, numbers, text."""
    made = []
    for number, (name, pixels) in enumerate(photographs.items()):
        data = to_jpeg(pixels, orientation=6 if number == 2 else 1)
        if number == 3:  # comments of 130 KB ahead of the frame
            comments = b"".join(b"\xff\xfe\xff\xff" + bytes(65533) for _ in range(2))
            data = data[:2] + comments + data[2:]
        mask = pixels[:, :, 0] // 64
        mask = to_png(np.rot90(mask, -1) if number == 2 else mask)
        made.append((data, mask, number % 2, name, NUMBERS + number))
    return made


@pytest.fixture
def tars(tmp_path, rows, write_tar, npy):
    root = tmp_path / "shards"
    root.mkdir()
    for shard in range(2):
        members = []
        for number in range(3 * shard, 3 * shard + 3):
            data, mask, label, name, numbers = rows[number]
            parts = {
                "jpg": data,
                "mask.png": mask,
                "cls": str(label).encode(),
                "txt": name.encode(),
                "npy": npy(numbers),
            }
            members += [(f"{number:04d}.{part}", value) for part, value in parts.items()]
        write_tar(root / f"{shard}.tar", members)
    return root


@pytest.fixture
def arrows(tmp_path, rows):
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = pa.schema(
        [
            ("image", picture),
            ("mask", picture),
            ("label", pa.int64()),
            ("txt", pa.string()),
            ("npy", pa.list_(pa.list_(pa.float32(), 4), 3)),
        ]
    )
    root = tmp_path / "hf"
    root.mkdir()
    for number in range(2):
        made = [
            {
                "image": {"bytes": data, "path": None},
                "mask": {"bytes": mask, "path": None},
                "label": label,
                "txt": name,
                "npy": numbers.tolist(),
            }
            for data, mask, label, name, numbers in rows[3 * number : 3 * number + 3]
        ]
        path = str(root / f"data-{number}.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, columns) as out:
            for row in made[:2], made[2:]:
                out.write_batch(pa.RecordBatch.from_pylist(row, schema=columns))
    return root


@pytest.fixture(params=["tars", "arrows"])
def source(request):
    return request.getfixturevalue(request.param)


def test_values_are_those_of_the_packed_source(tmp_path, source, rows):
    pack(source, tmp_path / "packed", Options(workers=1))
    with open_dataset(tmp_path / "packed") as packed, open_dataset(source) as dataset:
        assert dataset.fingerprint.startswith("stat:")
        assert len(dataset) == len(packed) == len(rows)
        for number in range(len(packed)):
            for name in ("image", "mask"):
                size = packed.size(name, number)
                assert dataset.size(name, number) == size
                out = [np.empty(3 * size[0] * size[1], np.uint8) for _ in range(2)]
                one, two = packed.decode(name, number, out[0]), dataset.decode(name, number, out[1])
                assert np.array_equal(one, two)
                box = (1, 2, size[0] // 2, size[1] // 2)
                assert np.array_equal(dataset.decode_box(name, number, box, out[1]), one)
            assert dataset.read("label", number) == packed.read("label", number)
            assert bytes(dataset.read("txt", number)) == bytes(packed.read("txt", number))
            assert np.array_equal(dataset.read("npy", number), rows[number][4])
            assert dataset.source(number) == packed.source(number)
    assert [p.name for p in source.iterdir() if p.suffix not in (".tar", ".arrow")] == []


def test_an_index_is_small(tmp_path, tars, write_tar, to_jpeg):
    """Of 3,000 samples, each a picture and a class: header, pictures and names do not count."""
    pixels = np.zeros((8, 8, 3), np.uint8)
    members = []
    for number in range(3000):
        members += [(f"train-{number:08d}.jpg", to_jpeg(pixels)), (f"train-{number:08d}.cls", b"7")]
    write_tar(tmp_path / "many.tar", members)
    manifest = make_index(tmp_path / "many.tar", Options(workers=1)).manifest
    assert manifest.rows == 3000
    assert sum(file.size_bytes for file in manifest.files) / 3000 <= 200


def test_an_index_is_made_once(source, monkeypatch):
    made = []
    monkeypatch.setattr(in_place, "pack", lambda *a: made.append(a) or pack(*a))
    for _ in range(2):
        with open_dataset(source) as dataset:
            first = dataset.fingerprint
    assert len(made) == 1
    os.utime(sorted(source.iterdir())[0], ns=(1, 1))
    with open_dataset(source) as dataset:
        second = dataset.fingerprint
    assert len(made) == 2
    with pytest.raises(
        DatasetError, match=rf"expected fingerprint {first}, as when .* got {second}; open the"
    ):
        open_dataset(source, expected=first)
    with open_dataset(source, expected=second) as dataset:
        assert len(dataset) == 6


def test_a_new_file_makes_another_dataset(tars, write_tar, rows):
    with open_dataset(tars) as dataset:
        first = dataset.fingerprint
    members = [("9.jpg", rows[0][0]), ("9.mask.png", rows[0][1]), ("9.cls", b"1"), ("9.txt", b"x")]
    write_tar(tars / "2.tar", members)
    with pytest.raises(DatasetError, match=r"2.tar/9: it has no member .npy, but other samples"):
        open_dataset(tars)
    make_index(tars, Options(workers=1, fields={"npy": "ignore"}))
    with open_dataset(tars) as dataset:
        assert (len(dataset), dataset.schema.field("npy")) == (7, None)
        assert dataset.fingerprint != first
    (tars / "2.tar").touch()
    with open_dataset(tars) as dataset:  # made again as it was asked for
        assert (len(dataset), dataset.schema.field("npy")) == (7, None)


def test_bad_samples_can_be_left_out_for_good(tars, write_tar, rows):
    write_tar(tars / "2.tar", [("9.jpg", b"no picture")])
    with pytest.raises(DatasetError, match=r"2.tar/9: it has no member .mask.png"):
        open_dataset(tars)
    assert make_index(tars, Options(workers=1, skip_bad=True)).manifest.rows == 6
    os.utime(tars / "2.tar", ns=(1, 1))
    with open_dataset(tars) as dataset:
        assert len(dataset) == 6


def test_a_change_while_reading_is_noticed(source):
    with open_dataset(source) as dataset:
        out = np.empty(10**6, np.uint8)
        dataset.decode("image", 5, out)
        file = sorted(source.iterdir())[1]
        with open(file, "r+b") as opened:
            opened.write(b"\0")
        with pytest.raises(DatasetError, match=r"source file .* changed while it is read in"):
            dataset.decode("image", 5, out)
        dataset.decode("image", 0, out)
        file.unlink()
        with pytest.raises(DatasetError, match=r"\d bytes and was written at \d+ ns when it"):
            dataset.read("txt", 4)


def test_a_source_that_is_cut_never_kills(source):
    """A map would end the process by SIGBUS."""
    with open_dataset(source) as dataset:
        dataset.read("txt", 5)
        os.truncate(sorted(source.iterdir())[1], 100)
        with pytest.raises(DatasetError, match="changed while it is read in place"):
            dataset.read("image", 5)


def test_what_cannot_be_read_or_written_is_named(tmp_path, tars, monkeypatch):
    def broken(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    with open_dataset(tars) as dataset:
        with monkeypatch.context() as patch:
            patch.setattr("stoker.dataset.reading.source_files.os.pread", broken)
            with pytest.raises(
                DatasetError, match=r"0.tar cannot be read: Input/output error; put"
            ):
                dataset.read("txt", 0)
        (tars / "1.tar").unlink()
        with pytest.raises(DatasetError, match=r"1.tar cannot be read: No such file or directory"):
            dataset.read("txt", 5)
    (tmp_path / "occupied").touch()
    monkeypatch.setattr(in_place, "cache_root", lambda: tmp_path / "occupied")
    with pytest.raises(ResourceError, match=r"cannot write an index to .*/occupied/indexes: Not a"):
        open_dataset(tars)


def test_an_index_takes_the_bytes_that_the_page_says(tars, rows):
    with open_dataset(tars) as dataset:
        names = [dataset.source(number).encode() for number in range(len(dataset))]
        columns = [place for file in dataset.manifest.files for place in file.columns.values()]
    taken = sum(place.data.length for place in columns)
    taken += sum(place.offsets.length - 8 for place in columns if place.offsets is not None)
    pictures, arrays_and_text, labels = 2, 2, 1
    each = 32 + 25 * pictures + 16 * arrays_and_text + 8 * labels
    assert taken == len(rows) * each + sum(map(len, names))
    assert names[0] == b"0.tar/0000"


@pytest.mark.parametrize("call", ["open", "pread", "posix_fadvise"])
def test_what_storage_refuses_is_tried_again(tars, monkeypatch, call):
    with open_dataset(tars) as dataset:
        expected = bytes(dataset.read("image", 0))
    calls, real = [], getattr(os, call)

    def failing(path, *arguments):
        if call != "open" or str(path).endswith(".tar"):
            calls.append(arguments)
            if len(calls) < 3:
                raise OSError(errno.EIO, "Input/output error")
        return real(path, *arguments)

    with open_dataset(tars) as dataset:
        monkeypatch.setattr(f"stoker.dataset.reading.source_files.os.{call}", failing)
        dataset.will_need(("image",), np.array([0]))
        assert bytes(dataset.read("image", 0)) == expected
    assert len(calls) == 3


def test_replaced_files_go_on_as_they_were(tars):
    with open_dataset(tars) as dataset:
        before = bytes(dataset.read("image", 5))
        other = tars.parent / "other.tar"
        other.write_bytes(bytes(2048))
        os.replace(other, tars / "1.tar")
        assert bytes(dataset.read("image", 5)) == before


def test_closed_is_closed(tars):
    dataset = open_dataset(tars)
    dataset.read("txt", 0)
    dataset.close()
    dataset.close()
    with pytest.raises(ClosedError, match="was closed; open it again"):
        dataset.read("txt", 0)


def test_one_process_makes_the_index_others_wait(tars, monkeypatch):
    made, opened = [], []
    monkeypatch.setattr(in_place, "pack", lambda *a: made.append(a) or pack(*a))

    def open_it():
        with open_dataset(tars) as dataset:
            opened.append(dataset.fingerprint)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(opened)) == 1
    assert (len(opened), len(made)) == (4, 1)


@pytest.mark.slow
def test_a_worker_reads_in_place_without_the_libraries_of_packing(tmp_path, source):
    with open_dataset(source) as dataset:
        fingerprint = dataset.fingerprint
    script = """
import sys
from pathlib import Path
from stoker.dataset import open_dataset
from stoker.dataset.packing import in_place

in_place.cache_root = lambda: Path(sys.argv[1])
with open_dataset(sys.argv[2], expected=sys.argv[3]) as dataset:
    print(len(dataset.read("image", 5)))
assert "pyarrow" not in sys.modules and "numba" not in sys.modules
"""
    command = [sys.executable, "-c", script, tmp_path / "caches", source, fingerprint]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) > 1000


def test_an_index_can_be_verified(source):
    assert verify(source, workers=1).holds
    with open_dataset(source) as dataset:
        folder = dataset.path
    manifest = read_manifest(folder)
    damaged = msgspec.structs.replace(manifest.source, files=manifest.source.files[:1])
    write_manifest(folder, msgspec.structs.replace(manifest, source=damaged))
    with (
        open_dataset(folder) as dataset,
        pytest.raises(
            SampleError, match="its reference is damaged: expected a file below 1, got 1"
        ),
    ):
        dataset.read("txt", 5)


def test_what_cannot_be_read_in_place_is_named(tmp_path, rows, write_tar, npy):
    def refused(reason, members, error=DatasetError):
        write_tar(tmp_path / "a.tar", members)
        with pytest.raises(error, match=reason):
            make_index(tmp_path / "a.tar", Options(workers=1))

    data, *_ = rows[0]
    start = [("a.jpg", data)]
    refused("a.tar/a: .*it is neither a JPEG nor a PNG .*pack the source", [("a.bmp", b"BM" * 50)])
    refused("a.tar/a: .*its header is damaged", [("a.jpg", data[:100])])
    refused("it is a JPEG, which changes values", [*start, ("a.mask.jpg", data)])
    refused("expected an integer as text", [*start, ("a.cls", b"x")])
    refused("big-endian, so it cannot", [*start, ("a.npy", npy(NUMBERS.astype(">f4")))])
    refused("in Fortran order", [*start, ("a.npy", npy(np.asfortranarray(NUMBERS)))])
    refused(r"expected shape \(3, 4\) and no more", [*start, ("a.npy", npy(NUMBERS) + b"1")])
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.jpg").write_bytes(data)
    with pytest.raises(DatasetError, match=r"has no manifest.json: it is no"):
        open_dataset(tmp_path / "folder")
    with pytest.raises(UsageError, match=r"this source \(folder\) cannot be read in place, only"):
        make_index(tmp_path / "folder", Options(workers=1))


def test_compressed_and_nested_arrow_is_packed(tmp_path):
    columns = pa.schema([("txt", pa.string())])

    def write(name, options=None):
        (tmp_path / name).mkdir()
        path = str(tmp_path / name / "a.arrow")
        batch = pa.RecordBatch.from_pylist([{"txt": "hello " * 99}], schema=columns)
        with (
            pa.OSFile(path, "wb") as file,
            pa.ipc.new_stream(file, columns, options=options) as out,
        ):
            out.write_batch(batch)

    write("plain")
    write("zstd", pa.ipc.IpcWriteOptions(compression="zstd"))
    with open_dataset(tmp_path / "plain") as dataset:
        assert bytes(dataset.read("txt", 0)) == b"hello " * 99
    with pytest.raises(DatasetError, match="it is compressed, so it cannot be read in place; pack"):
        open_dataset(tmp_path / "zstd")
    flags = pa.schema([("flags", pa.list_(pa.bool_()))])
    path = str(tmp_path / "plain" / "a.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, flags) as out:
        out.write_batch(pa.RecordBatch.from_pylist([{"flags": [True, False]}], schema=flags))
    with pytest.raises(DatasetError, match=r"expected bool \(None,\) as stored, got bool \[2\]"):
        open_dataset(tmp_path / "plain")


def test_folders_are_told_apart_and_patterns_work(tmp_path, tars):
    assert index_folder(tars) == index_folder(f"{tars}/") == index_folder(str(tars))
    assert index_folder(tars) != index_folder(tars / "0.tar")
    with open_dataset(f"{tars}/{{0..1}}.tar") as dataset:
        assert len(dataset) == 6
    with open_dataset(tars / "1.tar") as dataset:
        assert len(dataset) == 3
