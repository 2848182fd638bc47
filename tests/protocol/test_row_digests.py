"""Digests of rows, of batches and of a run: published vectors, and which bytes count."""

import hashlib
import struct

import numpy as np
import pytest
import xxhash

from stoker.protocol.chain import batch_of_rows, chain_on, chain_start
from stoker.protocol.item_fields import ItemField
from stoker.protocol.row_digests import RowDigests
from stoker.protocol.slot_layout import Output, batch_layout, slot_layout

ROWS = 4
BOX = (ItemField("xyxy", "float32", 4), ItemField("label", "int64"))
PLAIN = Output("image", "uint8", (3, 5))
OUTPUTS = (
    PLAIN,
    Output("boxes", "uint32", (7, 6), "boxes", BOX),
    Output("boxes.count", "int64", (), "count"),
    Output("words", "int32", (9,), "array", form="ragged", varies=(0,)),
    Output("words.size", "int64", (1,), "size"),
    Output("mask", "uint8", (4, 6), "mask", form="list", varies=(0, 1)),
    Output("mask.size", "int64", (2,), "size"),
    Output("tokens", "int32", (8,), "array", form="pad", varies=(0,)),
    Output("tokens.size", "int64", (1,), "size"),
)
USED = {"boxes": [0, 7, 2, 1], "words": [9, 0, 4, 1], "mask": [(4, 6), (1, 1), (0, 0), (2, 3)]}
"""The part of each row that counts."""


@pytest.fixture
def filled() -> tuple[np.ndarray, list, dict[str, np.ndarray]]:
    """A slot of noise with true counts and sizes: the slot, its outputs, and views of them."""
    layout = batch_layout(slot_layout(OUTPUTS, ROWS), {"tokens": (5,)})
    slot = np.random.default_rng(5).integers(0, 256, layout.slot_bytes, dtype=np.uint8)
    placed = list(layout.outputs)
    views = {one.name: np.ndarray(one.shape, one.dtype, slot, one.offset) for one in placed}
    views["valid"][:] = [True, False, True, True]
    views["boxes.count"][:] = USED["boxes"]
    views["words.size"][:, 0] = USED["words"]
    views["mask.size"][:] = USED["mask"]
    return slot, placed, views


def by_hand(placed: list, views: dict[str, np.ndarray], row: int) -> int:
    data = b""
    for one in placed:
        array = views[one.name][row]
        if one.name == "boxes":
            array = array[: USED["boxes"][row]]
        elif one.name == "words":
            array = array[: USED["words"][row]]
        elif one.name == "mask":
            height, width = USED["mask"][row]
            array = array.reshape(-1)[: height * width]
        data += array.tobytes()
    return xxhash.xxh64(data).intdigest()


def test_vectors(vectors) -> None:
    case = vectors("digests")
    rows = b"".join(
        struct.pack("<Q", xxhash.xxh64(bytes.fromhex(row)).intdigest()) for row in case["rows"]
    )
    assert rows.hex() == case["row_digests"]
    assert batch_of_rows(rows).hex() == case["digest"]
    start = chain_start(case["stream"], case["epoch"], case["step"])
    assert start.hex() == case["chain_start"]
    chain = chain_on(start, case["epoch"], case["step"], batch_of_rows(rows))
    assert chain.hex() == case["chain"]
    place = struct.pack("<2Q", case["epoch"], case["step"])  # and by hand
    first = hashlib.blake2b(bytes.fromhex(case["stream"]) + place, digest_size=16).digest()
    digest = hashlib.blake2b(rows, digest_size=16).digest()
    assert hashlib.blake2b(first + place + digest, digest_size=16).hexdigest() == case["chain"]


def test_rows_are_hashed_without_room_that_they_do_not_use(filled) -> None:
    slot, placed, views = filled
    expected = [by_hand(placed, views, row) for row in range(ROWS)]
    found = RowDigests(OUTPUTS).of(slot, placed, 0, ROWS)
    assert list(np.frombuffer(found, "<u8")) == expected
    assert len(set(expected)) == ROWS
    assert RowDigests(OUTPUTS).of(slot, placed, 1, 3) == found[8:24]


def test_every_byte_that_counts_changes_one_digest_and_no_other_byte_does(filled) -> None:
    slot, placed, views = filled
    digests = RowDigests(OUTPUTS)
    before = np.frombuffer(digests.of(slot, placed, 0, ROWS), "<u8")
    counts = {f"{name}.{part}" for name in USED for part in ("count", "size")}
    for one in placed:
        if one.name in counts:
            continue  # another count is another row altogether
        used = sum(
            len(views[one.name][row].reshape(-1)[:size].tobytes())
            for row, size in enumerate(_elements(one))
        )
        changed = 0
        for at in range(one.offset, one.offset + one.size_bytes):
            slot[at] ^= 0x40
            after = np.frombuffer(digests.of(slot, placed, 0, ROWS), "<u8")
            slot[at] ^= 0x40
            assert (after != before).sum() in (0, 1)
            changed += int((after != before).sum())
        assert changed == used, one.name


def _elements(one) -> list[int]:
    per_row = int(np.prod(one.shape[1:]))
    if one.name == "boxes":
        return [count * 6 for count in USED["boxes"]]
    if one.name in USED:
        return [int(np.prod(size)) for size in USED[one.name]]
    return [per_row] * ROWS


@pytest.mark.parametrize("name", ["boxes.count", "words.size", "mask.size"])
@pytest.mark.parametrize("value", [-1, 2**40, -(2**62)])
def test_impossible_counts_are_other_digests_and_read_no_other_memory(filled, name, value) -> None:
    slot, placed, views = filled
    before = RowDigests(OUTPUTS).of(slot, placed, 0, ROWS)
    views[name][2] = value
    after = RowDigests(OUTPUTS).of(slot, placed, 0, ROWS)
    changed = [before[i : i + 8] != after[i : i + 8] for i in range(0, 8 * ROWS, 8)]
    assert changed == [False, False, True, False]


def test_the_chain_depends_on_place_order_and_stream() -> None:
    one, two = batch_of_rows(b"1" * 8), batch_of_rows(b"2" * 8)
    start = chain_start("ab" * 16, 0, 0)
    chains = [
        chain_on(chain_on(start, 0, 0, one), 0, 1, two),
        chain_on(chain_on(start, 0, 0, two), 0, 1, one),
        chain_on(chain_on(start, 0, 1, one), 0, 0, two),
        chain_on(start, 0, 1, two),
        chain_on(chain_on(chain_start("ac" * 16, 0, 0), 0, 0, one), 0, 1, two),
        chain_on(chain_on(chain_start("ab" * 16, 1, 0), 0, 0, one), 0, 1, two),
    ]
    assert len(set(chains)) == len(chains)
