"""Offsets of outputs in a slot: published vectors, and the invariants for any outputs."""

import json
import math

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.item_fields import DTYPES
from stoker.protocol.slot_layout import (
    ALIGN,
    META,
    PAGE,
    Output,
    batch_layout,
    check_outputs,
    slot_layout,
    told_shapes,
)


def test_vectors(vectors) -> None:
    cases = vectors("layout")["layouts"]
    assert len(cases) == 4
    for case in cases:
        outputs = tuple(Output(n, d, tuple(s), k) for n, d, s, k in case["outputs"])
        layout = slot_layout(outputs, case["rows"])
        found = [[p.name, p.dtype, list(p.shape), p.offset] for p in layout.outputs]
        assert found == case["placed"]
        assert (layout.rows, layout.slot_bytes) == (case["rows"], case["slot_bytes"])
        end, expected = 0, []  # and by hand, with NumPy's sizes
        meta = [["index", "int64", []], ["requested", "int64", []], ["valid", "bool", []]]
        for name, dtype, shape, *_ in [*case["outputs"], *meta]:
            offset = (end + 63) & ~63
            expected.append([name, dtype, [case["rows"], *shape], offset])
            end = offset + case["rows"] * math.prod(shape) * np.dtype(dtype).itemsize
        assert found == expected
        assert layout.slot_bytes == (end + 4095) & ~4095


def test_vectors_of_batches_in_shapes_of_their_own(vectors) -> None:
    (case,) = vectors("layout")["batches"]
    outputs = msgspec.convert(case["outputs"], tuple[Output, ...])
    check_outputs(outputs)
    whole = slot_layout(outputs, case["rows"])
    batch = batch_layout(whole, told_shapes(outputs, case["told"]))
    assert json.loads(msgspec.json.encode(batch.outputs)) == case["placed"]
    assert (batch.rows, batch.slot_bytes) == (case["rows"], case["slot_bytes"])
    assert [p.offset for p in batch.outputs] == [p.offset for p in whole.outputs]
    assert batch_layout(whole, {}) is whole


def test_item_sizes_are_numpys() -> None:
    assert {name: np.dtype(name).itemsize for name in DTYPES} == DTYPES


OUTPUTS = st.lists(
    st.builds(
        Output,
        st.text(min_size=1, max_size=8).filter(lambda name: name not in dict(META)),
        st.sampled_from(sorted(DTYPES)),
        st.lists(st.integers(1, 50), max_size=3).map(tuple),
    ),
    max_size=6,
    unique_by=lambda output: output.name,
).map(tuple)


@given(OUTPUTS, st.integers(1, 300))
def test_outputs_are_aligned_and_apart(outputs: tuple[Output, ...], rows: int) -> None:
    check_outputs(outputs)
    layout = slot_layout(outputs, rows)
    end = 0
    for placed, output in zip(layout.outputs, outputs, strict=False):
        assert placed.offset % ALIGN == 0
        assert end <= placed.offset < end + ALIGN
        assert placed.shape == (rows, *output.shape)
        assert placed.size_bytes == rows * output.row_bytes
        end = placed.offset + placed.size_bytes
    assert [placed.name for placed in layout.outputs[-3:]] == ["index", "requested", "valid"]
    last = layout.outputs[-1]
    assert layout.slot_bytes % PAGE == 0
    assert last.offset + last.size_bytes <= layout.slot_bytes < last.offset + last.size_bytes + PAGE
