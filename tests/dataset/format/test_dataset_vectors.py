"""docs/contracts/dataset.md and decoder.md recomputed by themselves and compared with the vectors.

The references here use hashlib, json and pyarrow, not the code of `stoker.dataset`; a vector that
changes is a new version of a contract.
"""

import hashlib
import io
import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest

from stoker.dataset import open_dataset, schema
from stoker.dataset.images.codecs import ImageScratch, decode_picture
from stoker.dataset.images.inspection import Scratches, inspect_picture
from stoker.dataset.images.orientation import oriented
from stoker.dataset.packing.build import write_dataset
from stoker.protocol import version

VECTORS = json.loads(
    (Path(__file__).parents[3] / "docs/contracts/vectors/dataset.json").read_text()
)


def canonical(value) -> bytes:
    """Canonical form of StreamSpec's page, for what a manifest holds."""

    def plain(part):
        if isinstance(part, float):
            return {"$f64": struct.pack(">d", part).hex()}
        if isinstance(part, dict):
            return {key: plain(item) for key, item in part.items()}
        return [plain(item) for item in part] if isinstance(part, list) else part

    return json.dumps(plain(value), sort_keys=True, separators=(",", ":")).encode("ascii")


def blake(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def test_row_digests_by_the_page():
    for row in VECTORS["rows"]:
        parts = [bytes.fromhex(text) for text in row["hashed"]]
        assert blake(b"".join(struct.pack("<Q", len(p)) + p for p in parts)) == row["digest"]


def test_fingerprint_by_the_page():
    described = canonical({"version": 1, "fields": VECTORS["fields"]})
    digests = b"".join(bytes.fromhex(row["digest"]) for row in VECTORS["rows"])
    sizes = [struct.pack("<Q", number) for number in (len(described), len(VECTORS["rows"]))]
    assert "content:" + blake(sizes[0] + described + sizes[1] + digests) == VECTORS["fingerprint"]


def test_checksum_by_the_page():
    manifest = dict(VECTORS["manifest"])
    claimed = manifest.pop("checksum")
    assert blake(canonical(manifest)) == claimed
    assert manifest["version"] == VECTORS["version"] == version.MANIFEST
    assert manifest["fingerprint"] == VECTORS["fingerprint"]


def test_writing_gives_the_same_bytes(tmp_path):
    fields = (
        schema.label(classes=("cat", "dog")),
        schema.image("raw", "raw"),
        schema.array("boxes", "float32", (None, 4)),
        schema.blob("caption"),
    )
    rows = [
        {
            "label": 0,
            "raw": np.arange(12, dtype=np.uint8).reshape(2, 2, 3),
            "boxes": np.array([[0, 1, 2.5, 4]], np.float32),
            "caption": b"a cat",
        },
        {
            "label": 1,
            "raw": np.arange(18, dtype=np.uint8).reshape(1, 6, 3),
            "boxes": np.zeros((0, 4), np.float32),
            "caption": b"",
        },
    ]
    manifest = write_dataset(tmp_path / "d", schema.Schema(fields), rows)
    data = (tmp_path / "d" / manifest.files[0].name).read_bytes()
    assert data.hex() == VECTORS["arrow_file"]["hex"]
    assert json.loads((tmp_path / "d" / "manifest.json").read_text()) == VECTORS["manifest"]


def test_the_recorded_file_is_readable_by_us_and_by_arrow(tmp_path):
    data = bytes.fromhex(VECTORS["arrow_file"]["hex"])
    manifest = VECTORS["manifest"]
    assert blake(data) == VECTORS["arrow_file"]["blake2b_128"] == manifest["files"][0]["digest"]
    (tmp_path / manifest["files"][0]["name"]).write_bytes(data)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    batch = pa.ipc.open_file(io.BytesIO(data)).get_batch(0)
    batch.validate(full=True)
    with open_dataset(tmp_path) as dataset:
        assert dataset.fingerprint == VECTORS["fingerprint"]
        for number, row in enumerate(batch.to_pylist()):
            assert row["raw"] == dataset.read("raw", number).tobytes()
            assert row["caption"] == dataset.read("caption", number)
            assert row["boxes"] == dataset.read("boxes", number).reshape(-1).tolist()
            assert row["stoker.digest"].hex() == VECTORS["rows"][number]["digest"]


@pytest.mark.parametrize("case", VECTORS["pictures"], ids=lambda case: case["what"])
def test_pictures_decode_to_the_golden_pixels(case):
    picture = inspect_picture(bytes.fromhex(case["file"]), case["kind"], Scratches())
    found = (picture.height, picture.width, picture.orientation)
    assert found == (case["height"], case["width"], case["orientation"])
    assert picture.data.hex() == case["file"]
    out = np.empty(case["height"] * case["width"] * 3, np.uint8)
    pixels = decode_picture(
        picture.data, case["kind"], found[:2], picture.orientation, out, ImageScratch()
    )
    assert pixels.reshape(-1)[:12].tolist() == case["first_pixels"]
    assert blake(pixels.tobytes()) == case["blake2b_128"]


def test_the_orientation_table_of_the_page():
    table = {
        1: lambda y, x, h, w: (y, x),
        2: lambda y, x, h, w: (y, w - 1 - x),
        3: lambda y, x, h, w: (h - 1 - y, w - 1 - x),
        4: lambda y, x, h, w: (h - 1 - y, x),
        5: lambda y, x, h, w: (x, y),
        6: lambda y, x, h, w: (h - 1 - x, y),
        7: lambda y, x, h, w: (h - 1 - x, w - 1 - y),
        8: lambda y, x, h, w: (x, w - 1 - y),
    }
    stored = np.arange(15).reshape(3, 5)
    for value, source in table.items():
        upright = oriented(stored, value)
        for y in range(upright.shape[0]):
            for x in range(upright.shape[1]):
                assert upright[y, x] == stored[source(y, x, 3, 5)], value
