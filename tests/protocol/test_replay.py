"""Replays as bytes: they come back as they were, and damaged bytes are refused, never believed."""

import hashlib
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol import replayed_row as r
from stoker.protocol.errors import ProtocolError, ResourceError

IMAGE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
HALF = np.linspace(-1, 1, 6, dtype=np.float16).reshape(2, 3)


def value(array: np.ndarray, number: int = 0, of: int | None = None) -> r.ReplayValue:
    return r.ReplayValue("image", "image", number, of, array)


def example() -> r.Replay:
    step = r.ReplayStep(
        op="crop", stream="crop", file="train.py", line=7, made=True, applied=True, why="",
        settings={"size": [2, 3]}, parameters={"top": 1, "order": [0, 1], "scale": 0.5},
        units={"top": "px"}, values=(value(IMAGE, 1, 0), value(HALF, 2, 0)),
    )  # fmt: skip
    other = msgspec.structs.replace(step, stream=None, made=False, applied=False, values=())
    return r.Replay(
        pipeline_id="a" * 32, seed=2**64 - 1, id=41, epoch=3, visit=1, view=2,
        fields=(value(IMAGE),), steps=(step, other), outputs=(value(np.array(5), -1), value(HALF)),
    )  # fmt: skip


DATA = r.replay_to_bytes(example())


def test_round_trip() -> None:
    found = r.replay_from_bytes(DATA)
    assert found.to_data() == example().to_data()
    pairs = zip(
        [*found.values(), *found.outputs], [*example().values(), *example().outputs], strict=True
    )
    for got, expected in pairs:
        assert got.array.dtype == expected.array.dtype
        assert np.array_equal(got.array, expected.array)
        assert not got.array.flags.writeable


def test_plain_data_names_arrays_by_shape() -> None:
    data = example().to_data()
    assert data["id"] == 41
    assert data["steps"][0]["parameters"] == {"top": 1, "order": [0, 1], "scale": 0.5}
    assert data["steps"][0]["values"][1] == {
        "name": "image", "kind": "image", "dtype": "float16", "shape": [2, 3],
        "blake2b": hashlib.blake2b(HALF.tobytes(), digest_size=16).hexdigest(),
    }  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(data)) == data


def test_the_same_array_is_stored_once() -> None:
    big = np.zeros((100, 100, 3), np.uint8)
    fields = tuple(value(big, number) for number in range(9))
    assert len(r.replay_to_bytes(msgspec.structs.replace(example(), fields=fields))) < 2 * big.size


def test_a_replay_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(r, "MAX_REPLAY_BYTES", len(DATA) - 1)
    with pytest.raises(ResourceError, match=rf"sample 41 takes {len(DATA)} bytes, but at most"):
        r.replay_to_bytes(example())


def altered(**changes: object) -> bytes:
    """The example with another array record in its first field."""
    head = msgspec.msgpack.decode(DATA[8 : 8 + struct.unpack_from("<Q", DATA)[0]])
    head[6][0][4] = list(changes.values())
    data = msgspec.msgpack.encode(head)
    return struct.pack("<Q", len(data)) + data + bytes(512)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (b"abc", "at least 8 bytes, got 3"),
        (struct.pack("<Q", 2**60) + DATA[8:], "cannot have a head of"),
        ({"dtype": "object", "shape": [1], "offset": 0}, "as \\[dtype, shape, offset\\]"),
        ({"dtype": ["uint8"], "shape": [1], "offset": 0}, "as \\[dtype, shape, offset\\]"),
        ({"dtype": "uint8", "shape": 3, "offset": 0}, "as \\[dtype, shape, offset\\]"),
        ({"dtype": "uint8", "shape": [-1], "offset": 0}, "a shape of at most 16 sides"),
        ({"dtype": "uint8", "shape": [True], "offset": 0}, "a shape of at most 16 sides"),
        ({"dtype": "uint8", "shape": [1] * 17, "offset": 0}, "a shape of at most 16 sides"),
        ({"dtype": "uint8", "shape": [2**40, 2**40], "offset": 0}, "expected an array within"),
        ({"dtype": "uint8", "shape": [1], "offset": 2**48}, "expected an array within"),
    ],
)
def test_bytes_that_are_no_replay(changes: bytes | dict, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        r.replay_from_bytes(changes if isinstance(changes, bytes) else altered(**changes))


@given(st.data())
def test_damaged_bytes_are_a_replay_or_refused(data: st.DataObject) -> None:
    damaged = bytearray(DATA[: data.draw(st.integers(0, len(DATA)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = r.replay_from_bytes(bytes(damaged))
    except ProtocolError:
        return
    assert all(isinstance(v.array, np.ndarray) for v in [*found.values(), *found.outputs])
