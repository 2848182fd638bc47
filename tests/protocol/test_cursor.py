"""The cursor: published vectors, its size, and what it says when it does not fit."""

import hashlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.canonical import canonical_bytes
from stoker.protocol.cursor import MAX_BYTES, MAX_CRASHED, Cursor
from stoker.protocol.errors import ResumeError
from stoker.protocol.spec import OrderSpec, StreamSpec

HEX = "f" * 32
SPEC = StreamSpec(dataset="content:" + HEX, dataset_rows=100, pipeline=HEX, batch_size=8)


def test_vectors(vectors) -> None:
    cases = vectors("cursor")["cursors"]
    assert len(cases) == 4
    for case in cases:
        spec = StreamSpec.from_data(case["spec"])
        cursor = Cursor.at(spec, case["epoch"], case["step"], case["skipped"])
        assert cursor.to_data() == case["cursor"]
        expected = {key: case[key] for key in ("epoch", "step", "skipped")}
        freeze = case["spec"]["freeze"]
        if len(json.dumps(freeze)) > 192:
            freeze = hashlib.blake2b(canonical_bytes(freeze), digest_size=16).hexdigest()
        expected |= {"version": 1, "spec": {**case["spec"], "freeze": freeze}}
        canonical = canonical_bytes(case["spec"])
        expected["stream"] = hashlib.blake2b(canonical, digest_size=16).hexdigest()
        assert case["cursor"] == expected
        Cursor.from_data(json.loads(json.dumps(case["cursor"]))).check(spec)


@given(
    freeze=st.dictionaries(
        st.text(max_size=40).filter(lambda name: not name.startswith("$")),
        st.integers(0, 2**64 - 1),
        max_size=12,
    ),
    place=st.tuples(*[st.integers(0, 2**48)] * 3),
    crashed=st.lists(st.integers(2**47, 2**48 - 1), max_size=MAX_CRASHED),
    order=st.sampled_from(({"shuffle": False, "subset": HEX}, {"seed": 2**64 - 1})),
)
def test_at_most_a_kibibyte_whatever_the_spec(freeze, place, crashed, order) -> None:
    """Every field as long as it gets; a subset has no digest in `order`, which has room for it."""
    spec = StreamSpec(
        dataset="declared:" + HEX,
        dataset_rows=2**48,
        pipeline=HEX,
        batch_size=2**24,
        order=OrderSpec(kind="weighted", weights=HEX, block=2**48, **order),
        tail="drop",
        seed=2**64 - 1,
        freeze=freeze,
        views=2**16 - 1,
        total_epochs=2**48,
        on_error="replace",
        exclude=f"131072:{HEX}",
        buckets=HEX,
    )
    text = json.dumps(Cursor.at(spec, *place, crashed).to_data())
    assert len(text) <= MAX_BYTES
    cursor = Cursor.from_data(json.loads(text))
    cursor.check(spec)
    assert (cursor.epoch, cursor.step, cursor.skipped) == place
    assert cursor.crashed == tuple(sorted(set(crashed)))


def test_samples_that_crash_take_room_from_the_freeze_alone() -> None:
    freeze = {"a stream with quite a long name": 1}
    spec = StreamSpec(
        dataset="content:" + HEX, dataset_rows=9, pipeline=HEX, batch_size=8, freeze=freeze
    )
    plain, crashed = Cursor.at(spec, 1, 2), Cursor.at(spec, 1, 2, crashed=[7, 3, 7])
    assert "crashed" not in plain.to_data()
    assert crashed.to_data()["crashed"] == [3, 7]
    assert plain.spec["freeze"] == freeze
    assert (
        crashed.spec["freeze"]
        == hashlib.blake2b(canonical_bytes(freeze), digest_size=16).hexdigest()
    )
    other = msgspec.structs.replace(spec, seed=5)
    for cursor in (plain, crashed):
        assert cursor.differences(other) == ["seed: was 0, is 5"]


ANOTHER = (
    "the cursor belongs to another stream, so resuming would change the data:\n"
    f"  dataset: was 'content:{HEX}', is 'content:{'0' * 32}' (the samples and their fields)\n"
    "  seed: was 0, is 1\n"
    "use the same arguments as the run that saved it, or start without the cursor"
)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"dataset": "content:" + "0" * 32, "seed": 1}, [ANOTHER]),
        (
            {"exclude": f"1:{HEX}"},
            [f"exclude: was None, is '1:{HEX}'", "start epoch 3 again with set_epoch(3)"],
        ),
    ],
)
def test_another_stream_says_what_changed(changes, parts) -> None:
    with pytest.raises(ResumeError) as caught:
        Cursor.at(SPEC, 3, 4).check(msgspec.structs.replace(SPEC, **changes))
    assert all(part in str(caught.value) for part in parts)


def test_a_long_freeze_that_changed_is_still_noticed() -> None:
    def spec(last: int) -> StreamSpec:
        freeze = {**{f"stream/{number}": number for number in range(40)}, "last": last}
        return StreamSpec(
            dataset="content:" + HEX, dataset_rows=9, pipeline=HEX, batch_size=8, freeze=freeze
        )

    with pytest.raises(ResumeError, match=r"freeze: was '[0-9a-f]{32}', is '[0-9a-f]{32}'"):
        Cursor.at(spec(1), 0, 0).check(spec(2))


def test_a_cursor_of_exactly_a_kibibyte() -> None:
    bare = len(json.dumps({"stream": "", "epoch": 0, "step": 0}))
    Cursor.from_data({"stream": "f" * (MAX_BYTES - bare), "epoch": 0, "step": 0})
