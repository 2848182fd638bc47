"""Records as kernels see them: the bytes and names of the op's dtype, without a header."""

import numpy as np
import pytest
from numba import from_dtype
from numba.core.errors import NumbaExperimentalFeatureWarning

from stoker.ops import registered
from stoker.ops.contract.machine_records import machine_record


def dtypes():
    """Return every dtype of parameters and of draw records, once."""
    found = [getattr(op, kind) for op in registered().values() for kind in ("parameters", "record")]
    return list(dict.fromkeys(found))


def test_names_offsets_and_bytes_stay():
    for dtype in dtypes():
        marked = machine_record(dtype)
        assert marked.names == dtype.names
        assert [marked.fields[n][:2] for n in marked.names] == [
            dtype.fields[n][:2] for n in dtype.names
        ]
        assert marked.itemsize == dtype.itemsize
        raw = np.arange(dtype.itemsize, dtype=np.uint8)
        values = raw.view(dtype)
        moved = np.zeros(1, marked)
        moved[0] = values[0]
        assert moved.tobytes() == raw.tobytes()


def test_no_record_is_a_subtype_of_another():
    types = [from_dtype(machine_record(dtype)) for dtype in dtypes()]
    assert len(set(types)) == len(types)
    for one in types:
        for other in types:
            if one is not other:
                assert one.can_convert_to(None, other) is None


def test_without_the_mark_one_would_be():
    short = np.dtype([("size", "<i8")])
    long = np.dtype([("size", "<i8"), ("fill", "u1")])
    with pytest.warns(NumbaExperimentalFeatureWarning, match="considered a subtype"):
        from_dtype(long).can_convert_to(None, from_dtype(short))
    marked = [from_dtype(machine_record(dtype)) for dtype in (long, short)]
    assert marked[0].can_convert_to(None, marked[1]) is None


def test_padding_counts_too():
    packed = np.dtype([("size", "<i8")])
    padded = np.dtype({"names": ["size"], "formats": ["<i8"], "offsets": [0], "itemsize": 16})
    types = [from_dtype(machine_record(dtype)) for dtype in (packed, padded)]
    assert types[0].can_convert_to(None, types[1]) is None
    assert types[1].can_convert_to(None, types[0]) is None
