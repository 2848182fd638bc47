"""FFCV's .beton files, written here from the format's description; every fault named.

The writer below uses `struct` and its own arithmetic, independently of the reader, and follows what
ffcv 1.0 does: header, field descriptors, metadata, data from a multiple of the page size on, pages
that no run of data crosses, allocation table. Files of ffcv itself are in `test_beton_of_ffcv.py`.
"""

import contextlib
import io
import json
import struct

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.formats.beton import Beton
from stoker.protocol.errors import DatasetError, UsageError

PAGE = 2**21
TYPES = {"float": 0, "int": 1, "jpg": 2, "raw": 2, "bytes": 3, "array": 4, "json": 5}


class BetonWriter:
    """Collects samples; `write` writes the file.

    `fields` are (name, type[, dtype, shape]) with type int, float, jpg, raw, bytes, json or array.
    """

    def __init__(self, fields) -> None:
        self.fields = fields
        self.pages = bytearray()
        self.runs = []
        self.records = []
        self.start = None

    def write(self, path, samples) -> None:
        head = 24 + 1041 * len(self.fields)
        size = len(self._record([(kind, 0, 0, 0, 0) for _, kind, *_ in self.fields]))
        self.start = -(-(head + size * len(samples)) // PAGE) * PAGE
        records = b"".join(self._sample(number, sample) for number, sample in enumerate(samples))
        end = self.start + len(self.pages)
        with open(path, "wb") as file:
            file.write(struct.pack("<HHIQQ", 2, len(self.fields), PAGE, len(samples), end))
            for name, kind, *more in self.fields:
                code = struct.pack("<B16s", TYPES[kind], name.encode())
                file.write(code + self._arguments(*more).ljust(1024, b"\0"))
            file.write(records)
            file.write(bytes(self.start - file.tell()))
            file.write(self.pages)
            for run in self.runs:
                file.write(struct.pack("<QQQ", *run))

    @staticmethod
    def _arguments(dtype=None, shape=()) -> bytes:
        if dtype is None:
            return b""
        text = json.dumps([["", dtype]]).encode()
        return struct.pack("<32Q", *shape, *[0] * (32 - len(shape))) + struct.pack(
            f"<Q{len(text)}s", len(text), text
        )

    def _sample(self, number, sample) -> bytes:
        parts = []
        for (_, kind, *_), value in zip(self.fields, sample, strict=True):
            if kind in ("int", "float"):
                parts.append((kind, value, 0, 0, 0))
            elif kind in ("jpg", "raw"):
                mode, height, width, data = value
                parts.append((kind, self._put(number, data), mode, width, height))
            else:
                data = value + b"\0" if kind == "json" else value
                parts.append((kind, self._put(number, data), len(data), 0, 0))
        return self._record(parts)

    def _put(self, number, data) -> int:
        left = -len(self.pages) % PAGE
        if len(data) > left:
            self.pages += bytes(left)
        place = self.start + len(self.pages)
        self.pages += data
        self.runs.append((number, place, len(data)))
        return place

    @staticmethod
    def _record(parts) -> bytes:
        """A record as C lays it out; a picture's part and a run's part are packed structs."""
        out = b""
        for kind, value, *more in parts:
            if kind in ("int", "float", "array"):
                out += bytes(-len(out) % 8) + struct.pack("<d" if kind == "float" else "<q", value)
            elif kind in ("jpg", "raw"):
                out += struct.pack("<BHHQ", more[0], more[1], more[2], value)
            else:
                out += struct.pack("<QQ", value, more[0])
        widest = 8 if any(part[0] in ("int", "float", "array") for part in parts) else 1
        return out + bytes(-len(out) % widest)


FIELDS = [
    ("image", "jpg"),
    ("label", "int"),
    ("weight", "float"),
    ("caption", "bytes"),
    ("details", "json"),
    ("embedding", "array", "<f4", (2, 3)),
    ("count", "int"),
]


def samples_of(photographs, to_jpeg):
    made = []
    for number, (name, pixels) in enumerate(photographs.items()):
        size = pixels.shape[:2]
        embedding = np.arange(6, dtype="<f4") + number
        made.append(
            [
                (0, *size, to_jpeg(pixels)),
                number % 2,
                number / 4,
                name.encode(),
                json.dumps({"name": name}).encode(),
                embedding.tobytes(),
                -number,
            ]
        )
    return made


@pytest.fixture
def samples(photographs, to_jpeg):
    return samples_of(photographs, to_jpeg)


@pytest.fixture
def beton(tmp_path, samples):
    path = tmp_path / "photos.beton"
    BetonWriter(FIELDS).write(path, samples)
    return path


def test_every_field_is_read(tmp_path, beton, samples, photographs):
    report = pack(beton, tmp_path / "d", Options(workers=1, grid=False))
    assert report.kind == "ffcv"
    with open_dataset(tmp_path / "d") as dataset:
        found = [(field.name, field.kind, field.dtype) for field in dataset.schema.fields]
        assert found == [
            ("image", "image", "uint8"),
            ("label", "label", "int64"),
            ("weight", "scalar", "float64"),
            ("caption", "bytes", "uint8"),
            ("details", "bytes", "uint8"),
            ("embedding", "array", "float32"),
            ("count", "scalar", "int64"),
        ]
        for number, (sample, pixels) in enumerate(zip(samples, photographs.values(), strict=True)):
            out = np.empty(pixels.size, np.uint8)
            with Image.open(io.BytesIO(sample[0][3])) as picture:
                expected = np.asarray(picture)
            assert np.array_equal(dataset.decode("image", number, out), expected)
            assert dataset.read("label", number) == sample[1]
            assert dataset.read("weight", number) == sample[2]
            assert bytes(dataset.read("caption", number)) == sample[3]
            assert bytes(dataset.read("details", number)) == sample[4]
            expected = np.arange(6, dtype="f4").reshape(2, 3) + number
            assert np.array_equal(dataset.read("embedding", number), expected)
            assert dataset.read("count", number) == sample[6]
            assert dataset.source(number) == f"photos.beton/{number}"


@pytest.mark.parametrize("mixed", [False, True])
def test_raw_pixels_stay_what_they_are(tmp_path, photographs, to_jpeg, mixed):
    rows = [[(1, *pixels.shape[:2], pixels.tobytes())] for pixels in photographs.values()]
    first = next(iter(photographs.values()))
    if mixed:
        rows[0] = [(0, *first.shape[:2], to_jpeg(first))]
    BetonWriter([("image", "raw")]).write(tmp_path / "a.beton", rows)
    pack(tmp_path / "a.beton", tmp_path / "d", Options(workers=1, grid=False))
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("image").encoding == ("encoded" if mixed else "raw")
        for number, pixels in list(enumerate(photographs.values()))[1:]:
            out = np.empty(pixels.size, np.uint8)
            assert np.array_equal(dataset.decode("image", number, out), pixels)


def test_data_on_several_pages(tmp_path):
    """Pictures of 1.2 MB: one a page of 2 MiB."""
    pixels = np.random.default_rng(3).integers(0, 255, (640, 640, 3), np.uint8)
    rows = [[(1, 640, 640, (pixels ^ number).tobytes()), number] for number in range(3)]
    BetonWriter([("image", "raw"), ("label", "int")]).write(tmp_path / "a.beton", rows)
    assert (tmp_path / "a.beton").stat().st_size > 3 * PAGE
    pack(tmp_path / "a.beton", tmp_path / "d", Options(workers=1, grid=False))
    with open_dataset(tmp_path / "d") as dataset:
        for number in range(3):
            assert np.array_equal(dataset.read("image", number), pixels ^ number)


def test_what_a_field_is_can_be_said(tmp_path, beton):
    kinds = {"label": "int32", "count": "label", "image": "ignore", "weight": "float32"}
    pack(beton, tmp_path / "d", Options(workers=1, grid=False, fields=kinds))
    with open_dataset(tmp_path / "d") as dataset:
        found = {field.name: (field.kind, field.dtype) for field in dataset.schema.fields}
        assert found["label"] == ("scalar", "int32")
        assert found["count"] == ("label", "int64")
        assert found["weight"] == ("scalar", "float32")
        assert "image" not in found
        assert dataset.read("count", 3) == -3


def refused(path, tmp_path, reason, error=UsageError, **options):
    with pytest.raises(error, match=reason):
        pack(path, tmp_path / "d", Options(workers=1, grid=False, **options))


def test_fields_that_cannot_be(tmp_path, beton, samples):
    def bad(reason, **kinds):
        refused(beton, tmp_path, reason, fields=kinds)

    bad("--field nose=label: .* has no such field, only image, label", nose="label")
    bad("label cannot be optional in a source of the kind ffcv", label="label,fill=-1")
    bad("--field image=mask: a field of type image can only be left out", image="mask")
    bad("every field is left out; keep at least one", **{name: "ignore" for name, *_ in FIELDS})
    twice = [("a b", "int"), ("a-b", "int")]
    BetonWriter(twice).write(tmp_path / "b.beton", [[1, 2]])
    refused(tmp_path / "b.beton", tmp_path, "two of its fields give 'a_b'; leave one out")
    BetonWriter(FIELDS).write(tmp_path / "c.beton", [])
    refused(tmp_path / "c.beton", tmp_path, "has no samples; write it again")
    refused(tmp_path / "x.beton", tmp_path, "cannot read .*: No such file", kind="ffcv")


def changed(path, tmp_path, place, data):
    whole = bytearray(path.read_bytes())
    whole[place : place + len(data)] = data
    (tmp_path / "bad.beton").write_bytes(whole)
    return tmp_path / "bad.beton"


def test_damaged_tables_are_named(tmp_path, beton):
    whole = beton.read_bytes()
    for size in (10, 3000, 24 + 7 * 1041 + 30):
        (tmp_path / "bad.beton").write_bytes(whole[:size])
        refused(tmp_path / "bad.beton", tmp_path, r"would end at byte \d+, but the file has")
    (tmp_path / "bad.beton").write_bytes(whole[:PAGE])
    refused(tmp_path / "bad.beton", tmp_path, "its allocation table should start at byte")
    for place, data, reason in [
        (0, b"\1\0", "expected a .beton file of format version 2, got version 1"),
        (2, b"\0\0", "got version 2 with 0 fields"),
        (24, b"\xff", "field 'image' has type 255, a custom field"),
        (24 + 5 * 1041 + 17 + 264, b"[", "field 'embedding' has an unreadable dtype"),
        (24 + 5 * 1041 + 17 + 264, b'[["", "(,f"]]', "field 'embedding' has an unreadable dtype"),
        (16, struct.pack("<Q", 5), "its allocation table should start at byte 5"),
    ]:
        bad = changed(beton, tmp_path, place, data)
        if data == b"[":
            bad = changed(beton, tmp_path, place, b"{}{}{}")
        refused(bad, tmp_path, reason)


def test_damaged_samples_are_named(tmp_path, beton):
    """The first sample's picture: another mode, a place where nothing was written."""
    start = 24 + 7 * 1041
    bad = changed(beton, tmp_path, start, b"\7")
    reason = r"bad.beton/0: field 'image': .*got \d+ bytes of mode 7"
    refused(bad, tmp_path, reason, DatasetError)
    bad = changed(beton, tmp_path, start + 5, struct.pack("<Q", 12345))
    reason = "bad.beton/0: field 'image': its data should be at byte 12345, where none was"
    refused(bad, tmp_path, reason, DatasetError)
    end = struct.unpack_from("<Q", beton.read_bytes(), 16)[0]
    bad = changed(beton, tmp_path, end + 16, struct.pack("<Q", 2**40))
    reason = r"its data, 1099511627776 bytes at \d+, is not within the file"
    refused(bad, tmp_path, reason, DatasetError)
    bad = changed(beton, tmp_path, end + 24 * 3 + 16, struct.pack("<Q", 23))
    reason = r"field 'embedding': expected an array of float32 \(2, 3\), got 23 bytes"
    refused(bad, tmp_path, reason, DatasetError)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_files_never_crash(tmp_path_factory, data):
    """Whatever the bytes are: values, or a typed error."""
    path = tmp_path_factory.getbasetemp() / "fuzzed.beton"
    row = [(0, 8, 8, b"\xff\xd8\xff" + bytes(50)), 3, 0.5, b"text", b"{}", bytes(24), 4]
    BetonWriter(FIELDS).write(path, [row, row])
    whole = bytearray(path.read_bytes())
    head = 24 + 7 * 1041 + 160
    tables = [*range(24), *range(24, 24 + 7 * 1041, 1041), *range(head - 160, head)]
    tables += range(24 + 5 * 1041, 24 + 5 * 1041 + 300)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from([*tables, *range(len(whole) - 100, len(whole))]))
        whole[place] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.sampled_from([len(whole), len(whole) - 24, head, 30]))])
    beton = None
    with contextlib.suppress(CodecError):
        beton = Beton(path)
    if beton is None:
        return
    assert len(beton.sizes()) == beton.samples
    for number in range(min(beton.samples, 4)):
        for place, field in enumerate(beton.fields):
            if field.type in ("image", "bytes", "json"):
                with contextlib.suppress(CodecError):
                    beton.data(int(beton.metadata[number][place]["place"]))
    beton.close()
