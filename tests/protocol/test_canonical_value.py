"""Reading the canonical form back: the inverse, and nothing but the inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.canonical import canonical_bytes, canonical_value

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
KEYS = st.text(max_size=5).filter(lambda key: not key.startswith("$"))
VALUES = st.recursive(
    LEAVES | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(VALUES)
def test_it_is_the_inverse(value):
    data = canonical_bytes(value)
    back = canonical_value(data)
    assert canonical_bytes(back) == data
    assert back == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1, 2]",
        b'{"b":1,"a":2}',
        b"1.5",
        b"NaN",
        b'{"$f64":"7ff0000000000000"}',
        b'{"$f64":"xx"}',
        b'{"$f64":"3FF0000000000000"}',
        b'{"a":1,"a":1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_anything_else_is_refused(data):
    with pytest.raises(ValueError, match=r"canonical|Expecting|hexadecimal|finite|reserved"):
        canonical_value(data)
