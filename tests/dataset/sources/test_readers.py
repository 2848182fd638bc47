"""Values of items: whole files, extracts of containers, given values; listings keep them."""

import os
import struct

import numpy as np
import pytest

from stoker.dataset import schema
from stoker.dataset.format.image_conversion import Conversion
from stoker.dataset.format.source_item import (
    Container,
    ContainerRow,
    Extract,
    Given,
    Item,
    SourceFile,
    WholeFile,
)
from stoker.dataset.packing.item_listing import listed, read_listing
from stoker.dataset.sources.common.readers import BadItemError
from stoker.dataset.sources.common.recipe import Recipe
from stoker.dataset.sources.common.walk import look_at
from stoker.dataset.sources.open_reader import open_reader

FIELDS = (schema.image(), schema.array("embedding", "float32", (3,)), schema.scalar("weight"))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"a picture's bytes")
    table = np.arange(12, dtype=">f4").reshape(4, 3)
    (tmp_path / "table").write_bytes(b"head" + table.tobytes())
    return tmp_path


def recipe(root, fields=FIELDS, containers=()) -> Recipe:
    return Recipe(
        source=str(root),
        reader="files",
        settings={},
        containers=tuple(containers),
        aligned=True,
        schema=schema.Schema(fields),
        conversion=Conversion(),
        max_bad=1,
    )


def found(root, name) -> SourceFile:
    return look_at(root / name, name)


def test_each_place_is_read(root):
    item = Item(
        "a",
        29,
        (WholeFile(found(root, "a.bin")), Extract(0, 4 + 12 * 2, 12), Given(float("nan"))),
    )
    containers = [Container(found(root, "table"), ">f4", (3,))]
    with open_reader(recipe(root, containers=containers)) as reader:
        values = reader.read(item)
        again = reader.read(item)
    assert values["image"] == again["image"] == b"a picture's bytes"
    assert values["embedding"].tolist() == [6, 7, 8]
    assert np.isnan(values["weight"])


def test_an_extract_of_bytes(root):
    with open_reader(recipe(root, FIELDS[:1], [Container(found(root, "table"))])) as reader:
        assert reader.read(Item("a", 4, (Extract(0, 0, 4),)))["image"] == b"head"


def bad(root, place, containers=()):
    with (
        open_reader(recipe(root, FIELDS[:1], containers)) as reader,
        pytest.raises(BadItemError) as caught,
    ):
        reader.read(Item("the item", 0, (place,)))
    return str(caught.value)


def test_what_cannot_be_read_is_named(root):
    assert bad(root, WholeFile(SourceFile("b.bin", 1, 1))) == (
        "b.bin: it cannot be read: No such file or directory"
    )
    os.mkfifo(root / "pipe.jpg")
    assert bad(root, WholeFile(found(root, "pipe.jpg"))) == (
        "pipe.jpg: it cannot be read: it is not a regular file"
    )
    table = found(root, "table")
    assert bad(root, Extract(0, 50, 9), [Container(table)]) == (
        "the item: table is too short: expected 9 bytes at 50, got 2"
    )
    os.utime(root / "table", ns=(1, 1_700_000_000_000_000_001))
    old = SourceFile("table", table.size_bytes, 1_600_000_000_000_000_000)
    assert bad(root, Extract(0, 0, 4), [Container(old)]) == (
        "the item: table: it changed while it was packed: it was written at "
        "2020-09-13T12:26:40.000000000 UTC and again at 2023-11-14T22:13:20.000000001 UTC; "
        "stop changing it, and run the same command again"
    )
    shorter = SourceFile("table", 51, 1_600_000_000_000_000_000)
    assert "it changed while it was packed: it had 51 bytes and now has 52; stop" in bad(
        root, Extract(0, 0, 4), [Container(shorter)]
    )


def test_a_listing_keeps_items_as_they_are(tmp_path):
    items = [
        Item("a", 1, (WholeFile(SourceFile("a", 1, 2**62)), Given(b"\0\xff\n"))),
        Item("\u00fc", 2**40, (Extract(3, 2**40, 7), Given({"xyxy": [[0.1, 1.0, 2.5, 1e300]]}))),
        Item("c", 0, (ContainerRow(1, 2**40),), (480, 640)),
    ]
    parts = [listed(item) for item in items]
    (tmp_path / "listing").write_bytes(b"".join(parts))
    assert list(read_listing(tmp_path / "listing", 0, 3)) == items
    assert list(read_listing(tmp_path / "listing", len(parts[0]), 1)) == items[1:2]
    assert struct.unpack("<I", parts[0][:4]) == (len(parts[0]) - 4,)
