"""Ranges of steps to leave out: against plain sets, their form, and their room in a cursor."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.cursor import MAX_BYTES, Cursor
from stoker.protocol.errors import ResumeError, UsageError
from stoker.protocol.skips import Skips
from stoker.protocol.spec import OrderSpec, StreamSpec

HEX = "f" * 32
SPEC = StreamSpec(dataset="content:" + HEX, dataset_rows=100, pipeline=HEX, batch_size=8)
RANGES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 4)).map(
        lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2])
    ),
    max_size=8,
)


@given(RANGES, st.integers(0, 30), st.integers(0, 12))
def test_they_are_sets_of_steps(ranges, step: int, count: int) -> None:
    skips = Skips(ranges)
    for epoch in range(3):
        steps = {s for e, first, last in ranges if e == epoch for s in range(first, last + 1)}
        kept = [s for s in range(step, 100) if s not in steps]
        assert skips.past(epoch, step) == kept[0]
        assert skips.count(epoch, 3, step) == len(steps & set(range(3, step)))
        after = skips.after(epoch, step, count)
        assert [s for s in range(step, after) if s not in steps] == kept[:count]
    assert Skips(skips.ranges()) == skips
    assert Skips.from_data(json.loads(json.dumps(skips.to_data()))) == skips
    assert skips.since(1) | skips == skips
    assert bool(skips) == bool(ranges)


def test_their_form_and_words() -> None:
    skips = Skips([(3, 1021, 1021), (3, 1020, 1020), (3, 7, 7), (10, 0, 4)])
    assert skips.to_data() == {"3": [7, 7, 1020, 1021], "10": [0, 4]}
    assert str(skips) == "epoch 3: step 7, steps 1020 to 1021; epoch 10: steps 0 to 4"
    assert str(Skips()) == "no steps"


@pytest.mark.parametrize(
    "data",
    [
        {"0": [1]}, {"0": [2, 1]}, {"0": [4, 5, 1, 2]}, {"0": [1, 2, 3, 4]}, {"x": [1, 2]},
        {"00": [1, 2]}, {"-1": [1, 2]}, {"0": [-1, 2]}, {"0": []}, {"1": [1, 1], "0": [1, 1]},
        {"0": [0, 2**49]},
    ],
)  # fmt: skip
def test_other_forms_are_refused(data) -> None:
    """Equal ranges have one form, so cursors of ranks can be compared."""
    cursor = Cursor.at(SPEC, 0, 0).to_data()
    if data == {"1": [1, 1], "0": [1, 1]}:  # JSON objects have no order
        assert Cursor.from_data({**cursor, "skips": data}).skips == data
        return
    with pytest.raises(ResumeError, match=r"the cursor's skips: expected"):
        Cursor.from_data({**cursor, "skips": data})


def test_a_cursor_lists_those_that_may_still_come() -> None:
    skips = Skips([(0, 1, 2), (1, 5, 9), (2, 0, 0)])
    assert "skips" not in Cursor.at(SPEC, 3, 0, skips=skips).to_data()
    data = Cursor.at(SPEC, 1, 7, skips=skips).to_data()
    assert data["skips"] == {"1": [5, 9], "2": [0, 0]}
    assert Cursor.from_data(json.loads(json.dumps(data))) == Cursor.at(SPEC, 1, 7, skips=skips)


def test_no_later_cursor_is_too_large() -> None:
    """Skips that pass the check fit at any place, with any ids of crashed samples."""
    freeze = {"a stream with quite a long name": 1, "and another one": 2}
    spec = StreamSpec(
        dataset="declared:" + HEX, dataset_rows=2**48, pipeline=HEX, batch_size=8, freeze=freeze,
        order=OrderSpec(subset=HEX),
    )  # fmt: skip
    ranges = [(3, 1000 + 10 * number, 1004 + 10 * number) for number in range(100)]
    with pytest.raises(UsageError, match="a cursor has at most 1024 bytes, and with 100 ranges"):
        Cursor.check_room(spec, Skips(ranges))
    most = max(count for count in range(100) if fits(spec, Skips(ranges[:count])))
    assert most > 10
    ranges = ranges[:most]
    crashed = range(2**48 - 8, 2**48)
    data = Cursor.at(spec, 3, 2**48, 2**48, crashed, Skips(ranges)).to_data()
    assert len(json.dumps(data)) <= MAX_BYTES
    Cursor.from_data(data).check(spec)


def fits(spec: StreamSpec, skips: Skips) -> bool:
    try:
        Cursor.check_room(spec, skips)
    except UsageError:
        return False
    return True
