"""Errors of datasets, schemas, and sources of files, as a table: call, error, message.

Calls get an empty folder. In a message, " ... " separates its parts.
"""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.format.arrow import parse_type
from stoker.dataset.format.field_checks import check_schema
from stoker.dataset.images.bands import decode_bands, encode_bands
from stoker.dataset.images.codecs import decode_picture
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.common.outlines import paint
from stoker.dataset.verify import verify
from stoker.protocol.errors import DatasetError, UnknownNameError, UsageError

PIXELS = np.zeros((4, 4, 3), np.uint8)
LABEL = [schema.label()]
FLOATS = schema.image("depth", "raw", dtype="float32", channels=1)
BOXES = [schema.image(), schema.boxes()]
FLAT_BOX = [{"image": PIXELS, "boxes": []}, {"image": PIXELS, "boxes": [[3, 3, 1, 1]]}]
BAND = np.zeros((4, 500), np.uint8)
COCO = {
    "images": [{"id": 1, "file_name": "a.png", "height": 4, "width": 4}],
    "annotations": [],
    "categories": [{"id": 1, "name": "dog"}],
}
OF_FOLDERS = (
    "does not apply to ... , a source of the kind folder; expected image=image or "
    "image=image[uint16] or image=image[int16] or image=image[float32], or another --kind"
)
PAIRS = ("images/a.png", "masks/a.png")


def picture(name, pixels=PIXELS):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG" if name.endswith(".jpg") else Path(name).suffix[1:])
    return out.getvalue()


def packed(folder, *names, files=(), source="s", dest="d", **options):
    """Pack a folder of images with these names, and of `files`, pairs of name and content."""
    for name, data in [*((name, picture(name)) for name in names), *files]:
        path = folder / "s" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return pack(folder / source, folder / dest, Options(workers=1, **options))


def masks(folder, kind, pixels):
    """Pack an image with a TIFF as its mask."""
    tiff = ("masks/a.tiff", picture("a.tiff", pixels))
    return packed(folder, "images/a.png", files=[tiff], fields={"masks": kind})


def archive(folder):
    """Pack an archive of NumPy that is damaged where scanning, which reads headers, is blind."""
    out = io.BytesIO()
    np.savez_compressed(out, images=np.random.default_rng(0).integers(0, 256, (4, 90, 90, 3), "u1"))
    data = bytearray(out.getvalue())
    data[len(data) // 2] ^= 0xFF
    return packed(folder, files=[("a.npz", bytes(data))], source="s/a.npz")


def table(folder):
    """Pack a table that is too large to be read, and takes no space on the disk."""
    with open(folder / "a.csv", "wb") as file:
        file.truncate(2**32 + 1)
    return packed(folder, source="a.csv")


def one(folder, change=None):
    """Write a dataset of one row; `change` gets the path of its manifest."""
    rows = [{"depth": np.zeros((4, 4, 1), np.float32), "label": 1}]
    write(folder / "one", [FLOATS, *LABEL], rows)
    if change is not None:
        change(folder / "one" / "manifest.json")
    return folder / "one"


def opened(folder, call):
    with open_dataset(one(folder)) as dataset:
        return call(dataset)


def replaced(path):
    path.unlink()
    path.mkdir()


def named(name):
    return schema.Schema((schema.image(), schema.boxes(fields={name: "int8"})))


ERRORS = [
    # Schemas and their fields
    (lambda _: check_schema(named("a b")), UsageError, "expected items of xyxy"),
    (lambda _: check_schema(named("count")), UsageError, "expected items of xyxy"),
    (lambda _: check_schema(named("offsets")), UsageError, "expected items of xyxy"),
    (lambda _: check_schema(named("xyxy")), UsageError, "expected items of xyxy"),
    (lambda _: parse_type("int8[2147483647,2]"), ValueError, "at most 2147483647 elements"),
    (lambda _: schema.bounded(schema.image()), UsageError,
     "field 'image' has 2 open sides, so expected as many"),
    (lambda _: schema.bounded(schema.image(), 1), UsageError,
     "field 'image' has 2 open sides, so expected as many"),
    (lambda _: schema.bounded(schema.image(), 1, 2, 3), UsageError,
     "field 'image' has 2 open sides, so expected as many"),
    (lambda _: schema.bounded(schema.image(), 0, 5), UsageError,
     "field 'image' has 2 open sides, so expected as many"),
    (lambda _: schema.bounded(schema.image(), 1.5, 2), UsageError,
     "field 'image' has 2 open sides, so expected as many"),
    (lambda _: schema.boxes(fields={"a": "int"}), UsageError,
     "'boxes': 'a': expected a dtype, ... got 'int'"),
    (lambda _: schema.image(encoding="png", grid=True), UsageError,
     "only images that may be JPEGs"),
    (lambda _: schema.relative(schema.label()), UsageError,
     "'label': only an image or mask can have a size relative"),
    (lambda _: schema.with_grid(schema.mask()), UsageError, "only images that may be JPEGs"),
    # Decoders
    (lambda _: decode_bands(encode_bands(np.zeros((4, 400), np.uint8)), BAND), CodecError,
     "expected 2000 bytes of pixels in a band, got 1600"),
    (lambda _: decode_bands(encode_bands(np.zeros((4, 600), np.uint8)), BAND), CodecError,
     "a band is damaged"),
    (lambda _: decode_picture(b"BMxxxxxxxxxx", "image", (1, 1), 1, np.empty(3, np.uint8), None),
     CodecError, "it is neither a JPEG nor a PNG"),
    (lambda _: paint([(1, json.dumps([[0, 0, 3000, 3000] * 3000]).encode())], (3000, 3000), False),
     CodecError, "boundary is ... pixels long, more than the limit of"),
    # Datasets
    (lambda folder: open_dataset(one(folder), integrity="all"), UsageError,
     "integrity: expected one of off, auto, rows, got 'all'"),
    (lambda folder: open_dataset(one(folder, replaced)), DatasetError,
     "cannot read ... manifest.json: Is a directory"),
    (lambda folder: open_dataset(one(folder, os.unlink)), DatasetError,
     "one has no manifest.json: it is not a dataset; make one"),
    (lambda folder: opened(folder, lambda dataset: dataset.decode("depth", 0, BAND[0, :16])),
     UsageError, "at least 64 bytes"),
    (lambda folder: opened(folder, lambda dataset: list(dataset.lengths("token"))),
     UnknownNameError, "no field 'token'"),
    (lambda folder: verify(one(folder), 0), UsageError, "expected at least 1 worker, got 0"),
    # write
    (lambda folder: write(folder / "d", BOXES, FLAT_BOX), DatasetError,
     "row 1, field 'boxes': a box has a negative size"),
    (lambda folder: write(folder / "d", [schema.image(encoding="raw", channels=17)], []),
     UsageError, "1 to 16 channels"),
    (lambda folder: write(folder / "d", LABEL, []), DatasetError,
     "expected at least one sample to write to"),
    (lambda folder: write(folder / "d", LABEL, [{"label": 1}, {"label": 1, "lable": 2}]),
     UsageError, "row 1: expected the fields label, got label, lable"),
    # pack: options
    (lambda folder: packed(folder, "cat/1.png", clip=True), UsageError,
     "--clip does not apply to ... , a source of the kind folder; leave it out, or"),
    (lambda folder: packed(folder, "cat/1.png", images="s"), UsageError,
     "--images does not apply to ... , a source of the kind folder; leave it out, or"),
    (lambda folder: packed(folder, "cat/1.png", masks="semantic"), UsageError,
     "--masks does not apply to ... , a source of the kind folder; leave it out, or"),
    (lambda folder: packed(folder, "cat/1.png", split="val"), UsageError,
     "--split does not apply to ... , a source of the kind folder; leave it out, or"),
    (lambda folder: packed(folder, "cat/1.png", fields={"x": "mask"}), UsageError,
     f"--field x=mask {OF_FOLDERS}"),
    (lambda folder: packed(folder, "cat/1.png", fields={"image": "mask"}), UsageError,
     f"--field image=mask {OF_FOLDERS}"),
    (lambda folder: packed(folder, "cat/1.png", fields={"images": "image"}), UsageError,
     f"--field images=image {OF_FOLDERS}"),
    (lambda folder: packed(folder, *PAIRS, fields={"masks": "label"}), UsageError,
     "--field masks=label: expected one of image, mask"),
    (lambda folder: packed(folder, *PAIRS, fields={"x": "mask"}), UsageError,
     "has no folder x/ with images"),
    (lambda folder: packed(folder, *PAIRS, fields={"masks": "mask[int8]"}), UsageError,
     "expected a kind among image, mask, label, text, bytes, flow, normals, mask[uint16]"),
    (lambda folder: packed(folder, *PAIRS, fields={"masks": "mask,fill=white"}), UsageError,
     "expected a number after fill=, got 'white'"),
    (lambda folder: packed(folder, "a.png", in_place=True, orientation="keep"), UsageError,
     "an index always applies the EXIF orientation"),
    (lambda folder: packed(folder, "a.png", orientation="turn"), UsageError,
     "--orientation: expected apply or keep, got 'turn'"),
    (lambda folder: packed(folder, "a.png", source="my_rows", kind="python"), UsageError,
     "expected module:attribute, such as my_data:Photos, got"),
    (lambda folder: packed(folder, "a.png", files=[("a.json", json.dumps(COCO))], source="s/a.json",
                           images=folder / "s", masks="x"),
     UsageError, "--masks: expected semantic or instance, got 'x'"),
    (lambda folder: packed(folder, "images/train/a.png", kind="yolo", split="test",
                           files=[("labels/train/a.txt", ""),
                                  ("data.yaml", "train: images/train\nnames: [dog]\n")]),
     UsageError, "--split test: ... has no such split, only train"),
    # pack: sources and destinations
    (lambda folder: packed(folder, source="missing"), UsageError,
     "missing does not exist; check the path"),
    (lambda folder: packed(folder, kind="folder"), UsageError,
     "s does not exist; expected a folder"),
    (lambda folder: packed(folder, files=[("file", b"")], source="s/file"), UsageError,
     "file: the kind of this source is not recognized"),
    (lambda folder: packed(folder, files=[("file", b"")], source="s/file", kind="parallel"),
     UsageError, "is a file; expected a folder"),
    (lambda folder: packed(folder, source="."), UsageError, "has no image"),
    (lambda folder: packed(folder, "cat/1.png", "dog/1.png", kind="parallel"), UsageError,
     "expected a folder images/ with images, or --field FOLDER=image, got cat/, dog/"),
    (lambda folder: packed(folder, *PAIRS, files=[("mask/a.png", b"")]), UsageError,
     "two folders give the field 'mask'; rename one"),
    (lambda folder: packed(folder, "cat/1.png", dest="s/packed"), UsageError,
     "would be inside its own source"),
    (lambda folder: packed(folder, "cat/1.png", files=[("../file", b"")], dest="file"), UsageError,
     "is a file, but a dataset is a folder"),
    (archive, DatasetError, "a.npz[0]: a.npz: its member images.npy is damaged"),
    (table, UsageError, "a.csv is larger than 4294967296 bytes; split it"),
    (lambda folder: packed(folder, "cat/1.png", "dog/1.png", classes=("cat",)), UsageError,
     "the source has classes that are missing in the list of 1: dog; add them at its end"),
    (lambda folder: packed(folder, "cat/1.png", files=[("mean.npy", b"")]), UsageError,
     "has images, but also files of the kind arrays; choose"),
    (lambda folder: packed(folder, "cat/1.png",
                           files=[("dog/3.heic", b"\0\0\0\x18ftypheic")]),
     DatasetError, "dog/3.heic: ... it is HEIF"),
    (lambda folder: packed(folder, "color/1.jpg", "depth/1.png"), UsageError,
     "the folders color, depth may be classes, or images"),
    (lambda folder: packed(folder, *PAIRS, "masks/b.png", fields={"masks": "mask,fill=255"}),
     DatasetError, "masks/b.png: its partner is missing: expected imag"),
    (lambda folder: packed(folder, "c.png", kind="clips"), UsageError,
     "expected folders of frames, ... found 1 images and none"),
    (lambda folder: packed(folder, "run/a/1.png", "b/1.png", "c.png", kind="clips"), DatasetError,
     "b: it is a clip next to folders of classes ... c.png: it is in no"),
    (lambda folder: masks(folder, "mask[int32]", np.zeros((4, 4), np.float32)), DatasetError,
     "whole numbers in a mask, got floats"),
    (lambda folder: masks(folder, "mask[uint16]", np.full((4, 4), 70000, np.int32)), DatasetError,
     "class numbers that fit uint16, got 70000"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[row[-1][:60] for row in ERRORS])
def test_errors(tmp_path, call, error, message):
    with pytest.raises(error) as caught:
        call(tmp_path)
    assert all(part in str(caught.value) for part in message.split(" ... ")), str(caught.value)
