"""Ragged values: the published vectors, any fields there and back, and batches that cannot be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.digest import batch_digest
from stoker.protocol.item_fields import DTYPES, ItemField, item_words
from stoker.protocol.ragged import Ragged, gather, pack_items, spread, unpack_items

BOX = (ItemField("xyxy", "float32", 4), ItemField("label", "int64"))


def fields_of(case):
    return tuple(ItemField(*field) for field in case["fields"])


def test_vectors_of_items(vectors):
    cases = vectors("ragged")["items"]
    assert len(cases) == 3
    for case in cases:
        fields = fields_of(case)
        columns = {
            f.name: np.array([item[f.name] for item in case["items"]], f.dtype).reshape(
                (-1, f.width) if f.width > 1 else -1
            )
            for f in fields
        }
        words = pack_items(fields, columns)
        assert words.tolist() == case["words"]
        assert words.shape == (len(case["items"]), item_words(fields))
        for name, array in unpack_items(fields, words).items():
            assert array.dtype == columns[name].dtype
            assert np.array_equal(array, columns[name]), name


def test_vectors_of_batches(vectors):
    (case,) = vectors("ragged")["batches"]
    fields, records = fields_of(case), np.array(case["records"], np.uint32)
    arrays = spread("p", fields, records, np.array(case["rows"], np.int64))
    ragged = gather(arrays, {"p": fields})["p"]
    assert ragged.offsets.tolist() == case["offsets"]
    assert ragged.values.tolist() == case["values"]
    assert ragged.fields["visible"].tolist() == case["visible"]
    assert batch_digest({"p": ragged}, 4, 9) == case["digest"]


KINDS = st.sampled_from(sorted(DTYPES))
FIELDS = st.lists(st.tuples(KINDS, st.integers(1, 5)), min_size=1, max_size=5)


@given(FIELDS, st.lists(st.integers(0, 4), max_size=5), st.integers(0, 2**32 - 1))
def test_any_fields_there_and_back(kinds, rows, seed):
    fields = tuple(ItemField(f"f{i}", dtype, width) for i, (dtype, width) in enumerate(kinds))
    noise = np.random.default_rng(seed)
    bound, counts = max(rows, default=0) + 1, np.array(rows, np.int64)
    records = noise.integers(0, 2**32, (len(rows), bound, item_words(fields)), np.uint32)
    expected = [[] for _ in fields]
    for row, count in enumerate(rows):
        columns = {
            f.name: noise.integers(0, 2, (count, f.width))
            .astype(f.dtype)
            .reshape((count, f.width) if f.width > 1 else count)
            for f in fields
        }
        records[row, :count] = pack_items(fields, columns)
        for array, f in zip(expected, fields, strict=True):
            array.append(columns[f.name])
    ragged = gather({**spread("x", fields, records, counts), "y": 1}, {"x": fields})["x"]
    assert len(ragged) == len(rows)
    for row, found in enumerate(ragged):
        for array, f in zip(expected, fields, strict=True):
            assert found[f.name].dtype == f.dtype
            assert np.array_equal(found[f.name], array[row])


@pytest.mark.parametrize("count", [1, 3])
def test_unpacked_fields_are_copies(count):
    """Of a single item too, whose words are contiguous: its fields may be written to."""
    fields = (ItemField("xyxy", "float32", 4), ItemField("label", "int64"))
    words = np.zeros((count, item_words(fields)), np.uint32)
    for array in unpack_items(fields, words).values():
        array[...] = 1
    assert not words.any()


def test_rows_of_a_ragged():
    values, offsets = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([0, 2, 2, 3])
    ragged = Ragged("xyxy", values, offsets, {"label": np.array([5, 6, 7])})
    assert ragged[0]["label"].tolist() == [5, 6]
    assert ragged[1]["xyxy"].shape == (0, 4)
    assert ragged[-1]["label"].tolist() == [7]
    assert repr(ragged) == "Ragged(3 rows of xyxy (3, 4), label)"
    with pytest.raises(IndexError):
        ragged[3]


def test_gather_keeps_the_order():
    arrays = {"a": 1, **spread("b", BOX, np.zeros((1, 2, 6), np.uint32), np.ones(1, np.int64))}
    assert list(gather({**arrays, "c": 2}, {"b": BOX})) == ["a", "b", "c"]


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    records = np.zeros((2, 3, 6), np.uint32)
    arrays = spread("b", BOX, records, np.array([1, 2], np.int64))
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    ragged = gather(tensors, {"b": BOX})["b"]
    assert ragged.values.dtype == torch.float32
    assert [len(row["label"]) for row in ragged.to("cpu", non_blocking=True)] == [1, 2]
    plain = gather(arrays, {"b": BOX})
    assert batch_digest({"b": ragged}, 0, 0) == batch_digest(plain, 0, 0)
