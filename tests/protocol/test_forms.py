"""Rows of differing shape: the published vectors, any rows there and back, what cannot be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import ProtocolError
from stoker.protocol.output_forms import (
    RaggedArray,
    change_arrays,
    described,
    flatten,
    gather,
    within_sizes,
)
from stoker.protocol.slot_layout import Output, check_outputs


def outputs_of(name, dtype, shape, form, varies):
    sizes = Output(f"{name}.size", "int64", (len(varies),), "size")
    return (Output(name, dtype, tuple(shape), "array", (), form, tuple(varies)), sizes)


def made_of(outputs, slot, sizes):
    """The arrays that a client makes of a slot."""
    output = outputs[0]
    rows = np.array(slot, output.dtype).reshape(len(slot), *output.shape)
    arrays = {output.name: rows, f"{output.name}.size": np.array(sizes, np.int64)}
    return gather(flatten(arrays, outputs), outputs)


def test_vectors(vectors):
    cases = vectors("forms")["batches"]
    assert [case["form"] for case in cases] == ["list", "ragged", "ragged"]
    for case in cases:
        outputs = outputs_of(*(case[key] for key in ("name", "dtype", "shape", "form", "varies")))
        check_outputs(outputs)
        whole = made_of(outputs, case["slot"], case["sizes"])
        assert list(whole) == [case["name"]]
        rows = whole[case["name"]]
        assert [np.asarray(row).tolist() for row in rows] == case["rows"]
        assert {row.dtype.name for row in rows} == {case["dtype"]}
        if case["form"] == "ragged":
            assert rows.values.tolist() == case["values"]
            assert rows.offsets.tolist() == case["offsets"]
            assert rows.sizes.tolist() == case["sizes"]
        assert batch_digest(whole, 4, 9) == case["digest"]


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=5),
    st.sampled_from(["ragged", "list"]),
    st.integers(0, 2**32 - 1),
)
def test_any_rows_there_and_back(rank, free, sizes, form, seed):
    varies, noise = tuple(range(min(free, rank))), np.random.default_rng(seed)
    bound = (5, 6, 7)[:rank]
    shapes = [(*size[: len(varies)], *bound[len(varies) :]) for size in sizes]
    rows = [noise.integers(0, 1000, shape, np.uint16) for shape in shapes]
    slot = noise.integers(0, 1000, (len(rows), *bound), np.uint16)
    for room, row in zip(slot, rows, strict=True):
        room.reshape(-1)[: row.size] = row.reshape(-1)
    outputs = outputs_of("x", "uint16", bound, form, varies)
    found = made_of(outputs, slot, [shape[: len(varies)] for shape in shapes])["x"]
    assert len(found) == len(rows)
    assert all(map(np.array_equal, found, rows))
    if form == "list":
        return
    flat = [row.reshape(-1, *bound[len(varies) :]) for row in rows]
    assert np.array_equal(found.values, np.concatenate(flat))


def test_a_list_is_views_of_the_slot():
    outputs = outputs_of("x", "uint8", (4, 4), "list", (0, 1))
    slot = np.zeros((2, 4, 4), np.uint8)
    arrays = {"x": slot, "x.size": np.array([[2, 3], [4, 1]])}
    rows = gather(flatten(arrays, outputs), outputs)["x"]
    assert [row.shape for row in rows] == [(2, 3), (4, 1)]
    assert all(np.shares_memory(row, slot) for row in rows)


def test_rows_of_a_ragged_array():
    ragged = RaggedArray(np.arange(7), np.array([0, 3, 3, 7]), np.array([[3], [0], [4]]))
    assert ragged[0].tolist() == [0, 1, 2]
    assert ragged[1].size == 0
    assert ragged[-1].tolist() == [3, 4, 5, 6]
    assert repr(ragged) == "RaggedArray(3 rows, values (7,) int64)"
    with pytest.raises(IndexError):
        ragged[3]


def test_names_of_others_stay_where_they_are():
    outputs = outputs_of("b", "uint8", (2,), "list", (0,))
    arrays = {"a": np.ones(1), "b": np.ones((1, 2)), "b.size": np.ones((1, 1), np.int64)}
    whole = gather(flatten({**arrays, "c.d": np.ones(1)}, outputs), outputs)
    assert list(whole) == ["a", "b", "c.d"]


def test_what_is_within_sizes():
    sizes = np.array([[1, 2], [2, 3], [0, 0]])
    expected = np.zeros((3, 2, 3), bool)
    for row, (height, width) in enumerate(sizes):
        expected[row, :height, :width] = True
    assert np.array_equal(within_sizes((2, 3), sizes), expected)
    torch = pytest.importorskip("torch")
    found = within_sizes((2, 3), torch.from_numpy(sizes))
    assert found.dtype == torch.bool
    assert np.array_equal(found.numpy(), expected)


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    for form in ("ragged", "list"):
        outputs = outputs_of("x", "int32", (4,), form, (0,))
        slot = np.arange(8, dtype=np.int32).reshape(2, 4)
        plain = flatten({"x": slot, "x.size": np.array([[3], [1]])}, outputs)
        tensors = {name: torch.from_numpy(array) for name, array in plain.items()}
        rows = gather(tensors, outputs)["x"]
        assert [row.tolist() for row in rows] == [[0, 1, 2], [4]]
        there = change_arrays(rows, lambda part: part.to("cpu"))
        assert [row.tolist() for row in there] == [[0, 1, 2], [4]]
        expected = batch_digest(gather(plain, outputs), 0, 0)
        assert batch_digest({"x": there}, 0, 0) == expected
    assert described(rows) == "list of 2 int32"


@pytest.mark.parametrize("form", ["ragged", "list"])
@pytest.mark.parametrize("sizes", [[[1, 5]], [[-1, 2]], [[5, 0]]])
def test_sizes_that_a_daemon_cannot_have_meant(form, sizes):
    outputs = outputs_of("x", "uint8", (4, 4, 3), form, (0, 1))
    said = rf"output 'x': expected sizes of at most \(4, 4, 3\) along .* got \{sizes[0]}"
    with pytest.raises(ProtocolError, match=said.replace("[[", "[")):
        made_of(outputs, np.zeros((1, 4, 4, 3)), sizes)


def test_outputs_that_can_be():
    check_outputs((*outputs_of("x", "uint8", (4, 4), "pad", (0, 1)), Output("x.y", "uint8", ())))
    check_outputs((Output("x", "uint8", (4, 4, 3), "image", (), "stack", (0, 1)),))


@pytest.mark.parametrize("form", ["ragged", "list"])
def test_rows_have_the_room_that_their_bucket_needs(form):
    """READY tells less room than OPENED: rows are read from it, and none may claim more."""
    outputs = outputs_of("words", "int32", (9, 2), form, (0,))
    words = outputs[0]
    assert words.has_room((9, 2))
    assert words.has_room((4, 2))
    assert not words.allows((4, 2)), "an engine writes to rows of the whole room alone"
    assert not any(words.has_room(shape) for shape in ((10, 2), (0, 2), (4, 1), (4,)))
    room = np.arange(3 * 4 * 2, dtype=np.int32).reshape(3, 4, 2)
    sizes = np.array([[4], [0], [2]])
    found = gather(flatten({"words": room, "words.size": sizes}, outputs), outputs)["words"]
    assert [row.tolist() for row in found] == [room[0].tolist(), [], room[2, :2].tolist()]
    sizes[2] = 5
    with pytest.raises(ProtocolError, match=r"expected sizes of at most \(4, 2\) along the sides"):
        flatten({"words": room, "words.size": sizes}, outputs)


def test_a_stacked_output_has_one_room():
    assert not Output("x", "int32", (9, 2)).has_room((4, 2))
    assert Output("x", "int32", (9, 2), "array", (), "stack", (0,)).has_room((4, 2))
