"""Records on the wire: golden bytes, bounds of every field, and what a newer side may add."""

import math
import tracemalloc
import typing
from typing import Any

import msgpack
import msgspec
import pytest

from stoker.protocol import messages, version
from stoker.protocol.codec import (
    decode_from_client,
    decode_from_daemon,
    decode_packet,
    encode,
    encode_packet,
)
from stoker.protocol.errors import ProtocolError, VersionError
from stoker.protocol.request import stream_request

T = b"t" * 16
DECODERS = {
    "client": lambda data: decode_from_client(data)[1],
    "daemon": lambda data: decode_from_daemon(data)[1],
}
KINDS = {
    "client": typing.get_args(messages.ClientRecord),
    "daemon": typing.get_args(messages.DaemonRecord),
    "side": typing.get_args(messages.SideRecord),
}


def unpacked(value):
    match value:
        case {"$bytes": digits}:
            return bytes.fromhex(digits)
        case list():
            return [unpacked(item) for item in value]
        case dict():
            return {key: unpacked(item) for key, item in value.items()}
    return value


def decode(direction: str, record: list) -> messages.Record:
    """Decode one record given as plain values."""
    if direction == "side":
        return decode_packet(msgpack.packb(record))
    (found,) = DECODERS[direction](msgpack.packb([version.WIRE, T, [record]]))
    return found


def test_golden_records(vectors, packed) -> None:
    cases = vectors("messages")["records"]
    seen = set()
    for case in cases:
        data = bytes.fromhex(case["hex"])
        assert packed(case["record"]) == data, "the vector, by an encoder of our own"
        record = decode(case["direction"], unpacked(case["record"]))
        assert encode_packet(record) == data
        seen.add((case["direction"], type(record)))
    assert seen == {(direction, kind) for direction, kinds in KINDS.items() for kind in kinds}


def test_golden_envelopes(vectors, packed) -> None:
    cases = vectors("messages")
    for case in cases["envelopes"]:
        records = [cases["records"][number]["record"] for number in case["records"]]
        assert packed([1, {"$bytes": case["token"]}, records]).hex() == case["hex"]
        token, found = decode_from_client(bytes.fromhex(case["hex"]))
        assert token.hex() == case["token"]
        assert encode(token, found).hex() == case["hex"]


def test_unknown_trailing_fields_are_ignored(vectors) -> None:
    for case in vectors("messages")["records"]:
        record = unpacked(case["record"])
        plain = decode(case["direction"], record)
        newer = decode(case["direction"], [*record, "new", [1, {"x": None}], 7])
        assert newer == plain
    placed = ["image", "uint8", [2, 4], 64, "newer"]
    ready = ["ready", 1, "0" * 32, 0, 0, 0, 0, 1, 2, [placed]]
    assert decode("daemon", ready).outputs[0].offset == 64
    token, records = decode_from_client(msgpack.packb([1, T, [["close"]], "newer", 3]))
    assert (token, records) == (T, [messages.Close()])


def test_appended_fields_have_defaults(vectors) -> None:
    """An ERROR of a side that does not know `run` yet."""
    assert decode("daemon", ["error", 0, "data", "m", {}]) == messages.Error(0, "data", "m", {})
    opened = next(c["record"] for c in vectors("messages")["records"] if c["record"][0] == "opened")
    older = [*opened[:10], [output[:4] for output in opened[10][:2]]]
    found = decode("daemon", older)
    assert [output.items for output in found.outputs] == [(), ()]
    assert (found.drawn, found.buckets, found.leftovers) == ([], [], "carry")
    assert found.classes == {}
    assert decode("client", ["seek", 1, 2, 3]) == messages.Seek(1, 2, 3, [])
    assert decode("daemon", usual(vectors, "ready")[1][:10]).crashed == []
    assert found.mix == []
    assert decode("client", usual(vectors, "open")[1][:4]).job == b""
    assert decode("client", usual(vectors, "seek")[1][:5]).hosts == []
    assert decode("client", usual(vectors, "hello")[1][:4]).certificate == b""
    said = decode("client", usual(vectors, "hello")[1][:5])
    assert (said.name, said.host, said.pid, said.user) == ("", "", 0, "")
    assert decode("daemon", usual(vectors, "welcome")[1][:4]).certificate == b""
    assert decode("client", ["ask_status"]) == messages.AskStatus(sessions=False)
    assert decode("daemon", ["status", {"a": 1}]) == messages.Status({"a": 1}, [], [], [], "", 0)
    assert found.prefetch == 0
    assert (found.crash_policy, found.integrity) == ("", "")
    assert decode("side", usual(vectors, "carried")[1][:5]).ready is None
    found = decode("daemon", usual(vectors, "status")[1][:2])
    assert (found.stages, found.workers) == ([], [])


def usual(vectors, tag: str) -> tuple[str, list]:
    case = next(c for c in vectors("messages")["records"] if c["record"][0] == tag)
    return case["direction"], unpacked(case["record"])


COUNT, SMALL = 2**48, 2**24
SESSION = [
    "run-17", "node3", 4711, "anna", "kernel", "open", "photos", "train", "0" * 32, "", 0, 1, 3,
    120, 500, 90, 1620, 1618, 2, 7, 12.5, 300.25,
]  # fmt: skip
WRONG_OF_SESSIONS = [
    *((at, wrong) for at in (0, 1, 3, 4, 6, 7, 8, 9) for wrong in ("n" * 65, 7, None, b"name")),
    *((at, wrong) for at in (2, *range(10, 20)) for wrong in (-1, COUNT + 1, "1", 1.5, None)),
    *((at, "1") for at in (20, 21)), (5, "closed"), (5, None), (10, SMALL + 1), (19, SMALL + 1),
]  # fmt: skip
"""Place in SESSION -> a value that it cannot have."""


WORKER = [
    3, 4713, "op", "blur (pipelines.py:15)", 0.5, 0.75, 0.25, "photos", "train", "run-17", 1,
    "0" * 32, "", 0, 3, 120, 17, 4711, 9, 300.5,
]  # fmt: skip
WRONG_OF_WORKERS = [
    *((at, wrong) for at in (3, 7, 8, 9, 11, 12) for wrong in ("n" * 65, 7, None, b"name")),
    *((at, wrong) for at in (0, 1, 10, 13, 14, 15, 18) for wrong in (-1, COUNT + 1, "1", None)),
    *((at, wrong) for at in (16, 17) for wrong in (-1, COUNT + 1, "1", 1.5)),
    *((at, "1") for at in (4, 5, 6, 19)), (2, "naps"), (2, None), (10, SMALL + 1),
]  # fmt: skip
"""Place in WORKER -> a value that it cannot have."""


def changed(values: list, at: int, value: object) -> list:
    return [*values[:at], value, *values[at + 1 :]]


CRASHED = [None, 3, [-1], [COUNT + 1], ["1"], list(range(9))]
BOUNDS = {
    "hello": {
        "wire_min": SMALL,
        "wire_max": SMALL,
        "client": "name",
        "certificate": [b"x" * 2049, "text", None],
        "name": ["n" * 65, 7, None, b"name"],
        "host": "name",
        "pid": COUNT,
        "user": "name",
    },
    "open": {
        "request": SMALL,
        "stream": [None, [], {}, {"sources": [{}]}, {"batch": {"positions": 1}}],
        "delivery": [None, [], {}, {"prefetch": 1}],
        "rank": SMALL,
        "world_size": [0, 2**20 + 1],
        "job": [b"j" * 17, "text", None],
    },
    "seek": {
        "run": COUNT, "epoch": COUNT, "step": COUNT, "crashed": CRASHED,
        "hosts": [None, 3, [-1], ["1"], list(range(65))], "host": SMALL,
    },
    "credit": {"run": COUNT, "batches": SMALL},
    "release": {
        "slots": [None, [1], [[1]], [[-1, 0]], [[0, -1]], [[SMALL + 1, 0]], [[0, COUNT + 1]],
                  [[0, 0]] * 4097, [[0, 0, 0]]],
    },
    "close": {},
    "ask_status": {"sessions": [0, "yes", None]},
    "set_workers": {"workers": SMALL},
    "ask_replay": {
        "request": SMALL, "id": COUNT, "epoch": COUNT, "visit": COUNT, "view": 2**16 - 2,
        "stored": [None, 1, "true"],
    },
    "welcome": {
        "wire": SMALL,
        "token": [b"", b"x" * 15, b"x" * 17, "x" * 16, "eHh4eHh4eHh4eHh4eHh4eA=="],
        "daemon": "name",
        "certificate": [b"x" * 2049, "text", None],
    },
    "building": {"request": SMALL, "done": SMALL, "total": SMALL},
    "opened": {
        "request": SMALL,
        "spec": [None, [], {1: 2}],
        "stream": ["", "A" * 32, "0" * 31, "0" * 33, b"0" * 32, "0" * 32 + "\n"],
        "steps": COUNT,
        "rows": SMALL,
        "first_row": COUNT,
        "slab": COUNT,
        "slots": SMALL,
        "slot_bytes": COUNT,
        "outputs": [None, [["a"]], [["a", "uint8", [-1]]], [["a", "uint8", [2**48 + 1]]],
                    [["a", "u" * 17, []]], [["n" * 257, "uint8", []]], [["a", "uint8", [1] * 17]],
                    [["a", "uint8", [], "k" * 17]], [["a", "uint8", []]] * 257],
        "drawn": [None, [["a", "a", 0]], [["a", "a", -1, []]], [["a", "a", 2**20 + 1, []]],
                  [["n" * 273, "a", 0, []]], [["a", "a", 0, [["x", "uint8", [0], 1]]]],
                  [["a", "a", 0, [["x", "uint8", [1] * 5, 1]]]],
                  [["a", "a", 0, [["x", "uint8", [], 1]] * 65]], [["a", "a", 0, []]] * 2049],
        "buckets": [None, [[1, 1, 1]], [[0, 1, 1, 1]], [[1, 65536, 1, 1]], [[1, 1, 0, 1]],
                    [[1, 1, 1, 2**24 + 1]], [[1, 1, 1, 1]] * 4097],
        "leftovers": ["keep", 1, None],
        "merged": 2**48,
        "notes": [None, "note", [1], ["m" * 16385], [""] * 17],
        "classes": [None, [], {"label": None}, {"label": [1]}, {"label": ["m" * 16385]},
                    {"n" * 257: []}, {str(n): [] for n in range(257)}],
        "prefetch": SMALL,
        "mix": [None, [1], [["a"]], [["n" * 257, 1]], [["a", -1]], [["a", COUNT + 1]],
                [["a", 1]] * 65],
        "crash_policy": "name", "integrity": "name",
    },
    "ready": {
        "run": COUNT,
        "stream": ["", "g" * 32],
        "epoch": COUNT,
        "step": COUNT,
        "slab": COUNT,
        "slot": SMALL,
        "generation": COUNT,
        "rows": SMALL,
        "outputs": [None, [["a", "uint8", [1]]], [["a", "uint8", [1], -1]],
                    [["a", "uint8", [1], 2**48 + 1]], [["a", "uint8", [1], 0]] * 513],
        "crashed": CRASHED,
        "digests": [b"d" * (2**18 + 1), "text", None],
        "chain": [b"c" * 17, "text", None],
    },
    "error": {
        "request": SMALL,
        "code": "name",
        "message": ["m" * 16385, None, b"m"],
        "details": [None, {1: 2}, {"a": 1.5}, {"a": []}, {"n" * 257: 1}, {"a": "t" * 16385},
                    {str(number): 1 for number in range(65)}],
        "run": [-1, COUNT + 1, "1"],
    },
    "status": {
        "counters": [None, {"a": "1"}, {1: 1}, {str(n): 1 for n in range(4097)}],
        "sessions": [None, {}, [None], [{}], [[]], [SESSION[:-1]], [SESSION] * 1025,
                     *([changed(SESSION, at, wrong)] for at, wrong in WRONG_OF_SESSIONS)],
        "datasets": [None, "photos", [1], ["n" * 257], [""] * 1025],
        "pipelines": [None, "train", [1], ["n" * 257], [""] * 1025],
        "unready": ["m" * 16385, None, b"m"],
        "pid": COUNT,
        "stages": [None, [["d", "p", 1]], [["d", "p", -1, []]], [["n" * 257, "p", 1, []]],
                          [["d", "p", 1, [["op", "o", 1.0]]]],
                          [["d", "p", 1, [["s", "", "1", 1.0]]]],
                          [["d", "p", 1, [["s", "", 1.0, 1.0]] * 66]], [["d", "p", 1, []]] * 66],
        "workers": [None, {}, [None], [[]], [WORKER[:-1]], [WORKER] * 257,
                    *([changed(WORKER, at, wrong)] for at, wrong in WRONG_OF_WORKERS)],
        "page": ["m" * 16385, None, b"m"],
    },
    "bye": {"reason": ["r" * 16385, None]},
    "attach": {"token": [b"", b"x" * 15, b"x" * 17, None]},
    "attached": {},
    "slab": {"slab": COUNT, "slots": SMALL, "slot_bytes": COUNT, "writable": [0, "yes", None]},
    "replayed": {"request": SMALL, "size_bytes": 2**30},
    "carried": {
        "slab": COUNT,
        "slot": SMALL,
        "generation": COUNT,
        "size_bytes": COUNT,
        "ready": [1, b"r", [], ["bye", "r"], ["ready", 1], ["carried", 3, 2, 9, 1]],
    },
}  # fmt: skip


def wrong_values(bound):
    if bound == "name":
        return ["n" * 257, 7, None, b"name"]
    if isinstance(bound, int):
        return [-1, bound + 1, "1", 1.0, None, True]
    return bound


APPENDED = {("error", "run"), ("opened", "drawn"),
            ("opened", "buckets"), ("opened", "leftovers"), ("opened", "merged"),
            ("opened", "notes"), ("opened", "classes"), ("opened", "prefetch"),
            ("open", "rank"), ("open", "world_size"), ("open", "job"), ("opened", "mix"),
            ("seek", "crashed"), ("ready", "crashed"), ("ready", "digests"),
            ("ready", "chain"), ("hello", "certificate"), ("welcome", "certificate"),
            ("hello", "name"), ("hello", "host"), ("hello", "pid"), ("hello", "user"),
            ("seek", "hosts"), ("seek", "host"), ("opened", "crash_policy"),
            ("opened", "integrity"),
            ("ask_status", "sessions"), ("status", "sessions"), ("status", "datasets"),
            ("status", "pipelines"), ("status", "unready"), ("status", "pid"), ("status", "stages"),
            ("status", "workers"), ("status", "page"),
            ("carried", "ready"), ("ask_replay", "stored")}  # fmt: skip
"""Fields that came later: they have a default."""
FIELDS = [(tag, field) for tag, fields in BOUNDS.items() for field in fields]


def test_the_bounds_cover_every_field() -> None:
    kinds = {kind for group in KINDS.values() for kind in group}
    for kind in kinds:
        assert set(BOUNDS[kind.__struct_config__.tag]) == set(kind.__struct_fields__)
    assert len(BOUNDS) == len(kinds)


@pytest.mark.parametrize(("tag", "field"), FIELDS)
def test_every_bound(vectors, tag: str, field: str) -> None:
    direction, record = usual(vectors, tag)
    position = 1 + list(BOUNDS[tag]).index(field)
    for wrong in wrong_values(BOUNDS[tag][field]):
        changed = [*record]
        changed += [None] * (position + 1 - len(changed))
        changed[position] = wrong
        try:
            data = msgpack.packb(changed)
        except OverflowError:  # more than msgpack can say
            continue
        with pytest.raises(ProtocolError):
            decode(direction, msgpack.unpackb(data, raw=False, strict_map_key=False))


MANY = [{"dataset": "d"}] * 65
REQUESTS: dict[str, list] = {
    "stream.sources": [[], [{}, 7], MANY, {}, None],
    "stream.sources.0.dataset": ["n" * 257, 7, None, b"name"],
    "stream.sources.0.pipeline": ["n" * 257, 7, None, b"name"],
    "stream.sources.0.graph": [b"x" * (2**20 + 1), "text", None],
    "stream.sources.0.ratio": [0.0, -1.0, math.nan, math.inf, "1", True],
    "stream.sources.0.other": [1],
    "stream.sources.0.selection.split": ["n" * 65, 7, None],
    "stream.sources.0.selection.condition": ["c" * 4097, 7, None],
    "stream.sources.0.selection.subset": [b"x" * (2**21 + 2**12 + 1), "text", None, [1]],
    "stream.sources.0.selection.exclude": [b"x" * (2**20 + 1), "text", None, [1]],
    "stream.sources.0.selection.weights": [b"x" * (2**21 + 1), "text", None, [1]],
    "stream.sources.0.selection.only": [b""],
    "stream.order.shuffle": [1, "yes", None],
    "stream.order.block": [-1, COUNT + 1, "1", 1.5, True],
    "stream.order.seed": [-1, 1.0, "7", True],
    "stream.order.buckets": [b"x", {}, {"kind": "sizes"}, {"kind": "other"},
                             {"kind": "sizes", "max_area": 2**40},
                             {"kind": "lengths", "field": "f", "multiple": 8, "max_area": 9}],
    "stream.order.turned": [False],
    "stream.batch.positions": [0, 2**24 + 1, "1", 1.5, True],
    "stream.batch.views": [0, 2**16],
    "stream.batch.tail": ["keep", 1, None],
    "stream.batch.on_error": ["skip", None],
    "stream.batch.size": [1],
    "stream.draws.seed": [-1, 1.0, "7", 2**64],
    "stream.draws.freeze": [{"a": -1}, {"a": "step"}, {1: 1}, {"a": 1.5}, {"n" * 257: 1}, [],
                            {str(n): 1 for n in range(1025)}],
    "stream.draws.total_epochs": [0, COUNT + 1, "1"],
    "stream.draws.epochs": [1],
    "stream.params": [1, "yes", None],
    "stream.mirror": [True],
    "delivery.prefetch": [0, 4097],
    "delivery.leases": [0, 4097],
    "delivery.prefetch_bytes": [-1, COUNT + 1, None],
    "delivery.verify": [0, "yes", None],
    "delivery.progress": [1, "yes", None],
    "delivery.group": [7, "g", {}, {"name": ""}, {"name": "g" * 257}, {"name": "g", "size": -1},
                       {"name": "g", "mode": "Fork"}, {"name": "g", "kind": 1},
                       {"name": "g", "hosts": ["a"] * 65}, {"name": "g", "hosts": ["a" * 1025]},
                       {"name": "g", "hosts": "a"}, {"name": "g", "begun": 1}],
    "delivery.retry": [0],
}  # fmt: skip
"""Path of a field in OPEN -> values that it cannot have, except for fields that do not exist."""


@pytest.mark.parametrize("path", REQUESTS)
def test_every_bound_of_a_request(vectors, path: str) -> None:
    """An unknown field is refused: a side that ignored an option would give other bytes."""
    for wrong in REQUESTS[path]:
        direction, record = usual(vectors, "open")
        part: Any = {"stream": record[2], "delivery": record[3]}
        *names, last = path.split(".")
        for name in names:
            part = part[int(name)] if name.isdecimal() else part.setdefault(name, {})
        part[last] = wrong
        try:
            data = msgpack.packb(record)
        except OverflowError:  # more than msgpack can say
            continue
        with pytest.raises(ProtocolError):
            decode(direction, msgpack.unpackb(data, raw=False, strict_map_key=False))


def test_the_bounds_cover_every_field_of_a_request() -> None:
    paths = {path.replace(".0", "") for path in REQUESTS}
    for where, kind in {
        "stream": stream_request.StreamRequest, "stream.sources": stream_request.SourceRequest,
        "stream.sources.selection": stream_request.Selection,
        "stream.order": stream_request.OrderRequest,
        "stream.batch": stream_request.BatchRequest, "stream.draws": stream_request.DrawRequest,
        "delivery": stream_request.DeliveryRequest,
    }.items():  # fmt: skip
        for name in kind.__struct_fields__:
            path = f"{where}.{name}"
            assert any(one.startswith(path) for one in paths), path


@pytest.mark.parametrize("tag", BOUNDS)
def test_too_short_a_record(vectors, tag: str) -> None:
    direction, record = usual(vectors, tag)
    required = len([f for f in BOUNDS[tag] if (tag, f) not in APPENDED])
    for length in range(1 + required):
        if length == 1 and not required:
            continue
        with pytest.raises(ProtocolError, match="message out of bounds"):
            decode(direction, record[:length])


def test_records_of_the_other_direction_are_refused(vectors) -> None:
    for case in vectors("messages")["records"]:
        for direction in {"client", "daemon", "side"} - {case["direction"]}:
            if case["record"][0] == "error":
                continue
            with pytest.raises(ProtocolError, match="Invalid value"):
                decode(direction, unpacked(case["record"]))


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        ([], r"expected an envelope \[version, token, records\]"),
        ({}, "expected an envelope"),
        (7, "expected an envelope"),
        ([1, T], "expected an envelope"),
        ([1, b"short", []], "expected a token of 0 or 16 bytes"),
        ([1, "t" * 16, []], "expected a token of 0 or 16 bytes"),
        ([1, T, {}], "expected a list of at most 4096 records"),
        ([1, T, [["close"]] * 4097], "expected a list of at most 4096 records"),
        ([1, T, [["explode"]]], "message out of bounds: Invalid value 'explode'"),
        ([1, T, [["x" * 60000]]], r"Invalid value 'x+\.\.\.$"),
        ([1, T, [7]], "message out of bounds: Expected `array`, got `int`"),
        ([1, T, [], [None] * 65537], r"65537 exceeds max_array_len\(65536\)"),
    ],
)
def test_wrong_envelopes(envelope, expected) -> None:
    with pytest.raises(ProtocolError, match=expected):
        decode_from_client(msgpack.packb(envelope))


@pytest.mark.parametrize(
    ("wire", "said"), [(2, "2"), (0, "0"), ("1", "str"), (None, "NoneType"), (["x" * 999], "list")]
)
def test_another_wire_version(wire, said: str) -> None:
    with pytest.raises(VersionError) as caught:
        decode_from_daemon(msgpack.packb([wire, T, []]))
    assert str(caught.value) == (
        f"expected wire version 1, got {said}; use the same release of Stoker on both sides"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x93\x01",
        b"\x93\x01\xc4\x00\x90\x00",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc7\x01\x05x",
        b"\xd6\xff\x00\x00\x00\x00",
        b"\xa2\xff\xfe",
        b"\x81\x01\x02",
        b"\x91" * 5000,
        b"\xdc\xff\xff" * 3000,
    ],
    ids=lambda data: data[:8].hex(),
)
def test_what_is_no_message(data: bytes) -> None:
    for decoder in (decode_from_client, decode_from_daemon, decode_packet):
        with pytest.raises(ProtocolError):
            decoder(data)


def test_a_small_message_takes_little_memory() -> None:
    """Nested headers that promise much: nothing is reserved for what was only promised."""
    data = b"\xdc\xff\xff" * 500 + b"\x00" * 70000
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decode_from_client(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 2**20


def test_records_are_immutable_and_typed() -> None:
    seek = messages.Seek(1, 2, 3)
    with pytest.raises(AttributeError):
        seek.run = 4
    for kind in {kind for group in KINDS.values() for kind in group}:
        assert kind.__struct_config__.array_like
        assert kind.__struct_config__.frozen
        assert msgspec.inspect.type_info(kind).tag == kind.__struct_config__.tag
