"""Canonical form, StreamSpec and stream id: the published vectors, recomputed here in few lines."""

import hashlib
import json
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.canonical import canonical_bytes, canonical_digest, digest128
from stoker.protocol.spec import Contracts, StreamSpec, differences

GOOD = {
    "dataset": "content:" + "a" * 32,
    "dataset_rows": 100,
    "pipeline": "b" * 32,
    "batch_size": 8,
}


def by_hand(value: object) -> str:
    """The canonical form without the json module's encoder of containers."""
    match value:
        case float():
            return f'{{"$f64":"{struct.pack(">d", value).hex()}"}}'
        case list():
            return "[" + ",".join(map(by_hand, value)) + "]"
        case dict():
            keys = sorted(value, key=lambda key: [ord(letter) for letter in key])
            return "{" + ",".join(json.dumps(key) + ":" + by_hand(value[key]) for key in keys) + "}"
    return json.dumps(value)


def test_canonical_vectors(vectors) -> None:
    cases = vectors("spec")["canonical"]
    assert len(cases) >= 15
    for case in cases:
        assert canonical_bytes(case["value"]) == case["canonical"].encode("ascii")
        assert by_hand(case["value"]) == case["canonical"]


def test_stream_id_vectors(vectors) -> None:
    cases = vectors("spec")["specs"]
    assert [case["name"] for case in cases] == ["smallest", "usual", "everything"]
    for case in cases:
        text = by_hand(case["spec"])
        assert text == case["canonical"]
        stream = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        assert stream == case["stream"]
        spec = StreamSpec.from_data(case["spec"])
        assert spec.stream_id == case["stream"]
        assert spec.to_data() == case["spec"]
        assert canonical_bytes(spec.to_data()).decode() == case["canonical"]


def test_every_field_counts(vectors) -> None:
    """The vectors with everything set differ from the usual one in every field that may differ."""
    _, usual, everything = (case["spec"] for case in vectors("spec")["specs"])
    same = {key for key in usual if usual[key] == everything[key]}
    assert same == {"version", "contracts"}
    base = StreamSpec.from_data(usual)
    ids = {base.stream_id}
    for key in everything.keys() - same:
        ids.add(StreamSpec.from_data({**usual, key: everything[key]}).stream_id)
    for number, contract in enumerate(Contracts.__struct_fields__, start=2):
        changed = msgspec.structs.replace(base.contracts, **{contract: number})
        ids.add(msgspec.structs.replace(base, contracts=changed).stream_id)
    assert len(ids) == 1 + len(everything) - 2 + 4


def test_a_seed_of_the_order_is_a_field_only_where_it_is_given(vectors) -> None:
    for case in vectors("spec")["specs"]:
        spec = StreamSpec.from_data(case["spec"])
        assert spec.order_seed == spec.seed
        assert "seed" not in spec.to_data()["order"]
    own = msgspec.structs.replace(spec, order=msgspec.structs.replace(spec.order, seed=0))
    assert own.order_seed == 0 != own.seed
    assert own.to_data()["order"] == {**spec.to_data()["order"], "seed": 0}
    assert (
        own.stream_id
        == hashlib.blake2b(by_hand(own.to_data()).encode(), digest_size=16).hexdigest()
    )
    assert own.stream_id != spec.stream_id
    assert StreamSpec.from_data(own.to_data()) == own


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text().filter(lambda key: not key.startswith("$")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_canonical_form_is_what_it_says(value: object) -> None:
    data = canonical_bytes(value)
    assert data == by_hand(value).encode()
    assert data.isascii()
    assert (
        canonical_digest(value)
        == digest128(data)
        == hashlib.blake2b(data, digest_size=16).hexdigest()
    )


def test_canonical_form_does_not_see_order_or_tuples() -> None:
    assert canonical_bytes({"a": 1, "b": (1, 2)}) == canonical_bytes({"b": [1, 2], "a": 1})
    assert canonical_bytes(1) != canonical_bytes(1.0)
    assert canonical_bytes(True) != canonical_bytes(1)


def test_differences_name_the_fields() -> None:
    before, now = StreamSpec(**GOOD).to_data(), StreamSpec(**GOOD, seed=3, views=2).to_data()
    assert differences(before, now) == ["seed: was 0, is 3", "views: was 1, is 2"]
    assert differences(before, before) == []
    assert differences({}, {"a": 1}) == ["a: was None, is 1"]


@pytest.mark.parametrize(
    ("field", "told"),
    [
        (
            "pipeline",
            "(its steps, their parameters, the version of each op, and your own code in it)",
        ),
        ("dataset", "(the samples and their fields)"),
        ("exclude", "(how many samples are left out, and which)"),
        ("buckets", "(sizes of the samples, and options of the buckets)"),
    ],
)
def test_differences_say_what_a_digest_is_made_of(field: str, told: str) -> None:
    assert differences({field: "a"}, {field: "b"}) == [f"{field}: was 'a', is 'b' {told}"]
