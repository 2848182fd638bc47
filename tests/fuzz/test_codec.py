"""Whatever arrives, the codec gives records or a typed error: never another exception.

Two sources: Hypothesis (any bytes, any msgpack values in the place of records), and seeded mutation
of the golden messages, which stays near what is valid. A message that decodes is encoded again and
must decode to the same: so nothing half-valid gets through.
"""

import json
import random
import typing
from collections import Counter
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.protocol import messages
from stoker.protocol.codec import (
    decode_from_client,
    decode_from_daemon,
    decode_packet,
    encode,
    encode_packet,
)
from stoker.protocol.errors import ProtocolError, VersionError

VECTORS = Path(__file__).parents[2] / "docs/contracts/vectors/messages.json"
MUTATIONS = 12_000
TAGS = sorted(
    kind.__struct_config__.tag
    for group in (messages.ClientRecord, messages.DaemonRecord, messages.SideRecord)
    for kind in typing.get_args(group)
)


def survives(data: bytes) -> str:
    """Give the data to every decoder; return what came of it."""
    outcome, said = "refused", []
    for decoder in (decode_from_client, decode_from_daemon):
        try:
            token, records = decoder(data)
        except VersionError:
            outcome = "version"
        except ProtocolError as error:
            said.append(error.message)
        else:
            outcome = "decoded"
            assert repr(decoder(encode(token, records))) == repr((token, records))
    try:
        record = decode_packet(data)
    except ProtocolError as error:
        said.append(error.message)
    else:
        outcome = "decoded"
        assert repr(decode_packet(encode_packet(record))) == repr(record)
    assert all(0 < len(message) < 400 for message in said)
    return outcome


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    survives(data)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | st.sampled_from([b"t" * 16, "0" * 32, 2**24, 2**48])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(SCALARS, inner, max_size=3),
    max_leaves=10,
)
RECORDS = st.tuples(st.sampled_from(TAGS), st.lists(VALUES, max_size=19)).map(
    lambda pair: [pair[0], *pair[1]]
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from([b"", b"t" * 16]), st.lists(RECORDS | VALUES, max_size=4))
def test_any_values_in_an_envelope(token: bytes, records: list) -> None:
    survives(msgpack.packb([1, token, records]))


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_any_value_as_a_message(value: object) -> None:
    survives(msgpack.packb(value))


@pytest.fixture(scope="module")
def golden() -> list[bytes]:
    cases = json.loads(VECTORS.read_text())
    packets = [bytes.fromhex(case["hex"]) for case in cases["records"]]
    envelopes = [bytes.fromhex(case["hex"]) for case in cases["envelopes"]]
    wrapped = [b"\x93\x01\xc4\x10" + b"t" * 16 + b"\x91" + packet for packet in packets]
    return packets + envelopes + wrapped


def mutate(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(6):
            case 0 if place < len(changed):
                changed[place] ^= 1 << rng.randrange(8)
            case 1 if place < len(changed):
                changed[place] = rng.choice(b"\x00\x7f\x80\x90\xa0\xc0\xc1\xc4\xcb\xcf\xdc\xdf\xff")
            case 2:
                del changed[place : place + rng.randrange(1, 5)]
            case 3:
                changed[place:place] = rng.randbytes(rng.randrange(1, 4))
            case 4:
                other = rng.choice(others)
                start = rng.randrange(len(other))
                changed[place:place] = other[start : start + rng.randrange(1, 24)]
            case 5:
                del changed[place:]
    return bytes(changed)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_messages(golden: list[bytes], seed: int) -> None:
    """12 000 neighbors of valid messages, the same in every run."""
    rng = random.Random(seed)
    outcomes = Counter(
        survives(mutate(rng.choice(golden), rng, golden)) for _ in range(MUTATIONS // 4)
    )
    # Both sides of the border are visited, else the mutations prove nothing.
    assert outcomes["refused"] > 500, outcomes
    assert outcomes["decoded"] > 100, outcomes
    assert outcomes["version"] > 5, outcomes
