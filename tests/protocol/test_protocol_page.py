"""docs/protocol.md says what the code does: records, fields, types, limits, times, examples."""

import re
import typing

import msgspec
import pytest
import xxhash

from stoker.client import Connection
from stoker.protocol import (
    codec,
    cursor,
    draw_records,
    item_fields,
    messages,
    replayed_row,
    size_buckets,
    slot_layout,
    spec,
    version,
)
from stoker.protocol.errors import StokerError, _by_code
from stoker.protocol.remote import shares, tcp
from stoker.protocol.request import stream_request
from stoker.server.daemon import connections, sidesocket
from stoker.server.daemon.remote import carriers
from stoker.server.state.settings import Settings

DIRECTIONS = {
    "Client to daemon": messages.ClientRecord,
    "Daemon to client": messages.DaemonRecord,
    "Side socket": messages.SideRecord,
}
LIMITS = {
    "message": codec.MAX_MESSAGE_BYTES,
    "packet of the side socket": codec.MAX_PACKET_BYTES,
    "records in a message": codec.MAX_RECORDS,
    "elements of a list or map, characters of a text": codec.MAX_LENGTH,
    "outputs of a pipeline": slot_layout.MAX_OUTPUTS,
    "cursor as JSON": cursor.MAX_BYTES,
    "ids of an exclude list": spec.MAX_EXCLUDED,
    "samples that crashed workers": cursor.MAX_CRASHED,
    "replay": replayed_row.MAX_REPLAY_BYTES,
}


@pytest.fixture(scope="module")
def page(docs) -> str:
    return (docs / "protocol.md").read_text()


def section(page: str, title: str) -> str:
    found = re.search(rf"^##+ {re.escape(title)}$(.*?)(?=^##? |\Z)", page, re.M | re.S)
    assert found, f"docs/protocol.md has no section {title!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The rows of all tables, without the heads."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("|"):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
            if set(found[-1][0]) <= set("-: "):
                del found[-2:]
    return found


def number(value: int) -> str:
    power = value.bit_length() - 1
    if value >= 1024 and value == 2**power:
        return f"2^{power}"
    if value >= 1024 and value == 2 ** (power + 1) - 1:
        return f"2^{power + 1}-1"
    return str(value)


def said(kind: msgspec.inspect.Type) -> str:
    """A type in the words of the page, which does not name unbounded texts, lists or maps."""
    return WORDS[type(kind).__name__.removesuffix("Type")](kind)


def said_int(kind: msgspec.inspect.IntType) -> str:
    return f"int from {kind.ge}" if kind.le is None else f"int {kind.ge}..{number(kind.le)}"


def said_text(kind: msgspec.inspect.StrType) -> str:
    if kind.pattern:
        assert kind.pattern == r"\A[0-9a-f]{32}\Z"
        return "32 hex digits"
    if kind.min_length:
        return f"text {kind.min_length}..{kind.max_length}"
    return f"text <= {number(kind.max_length)}"


def said_bytes(kind: msgspec.inspect.BytesType) -> str:
    most = number(kind.max_length)
    return f"bytes {most}" if kind.min_length == kind.max_length else f"bytes <= {most}"


def said_union(kind: msgspec.inspect.UnionType) -> str:
    words = sorted(map(said, kind.types), key=lambda text: (text == "null", text))
    return " or ".join(words)


WORDS = {
    "Any": lambda kind: "any",
    "Bool": lambda kind: "bool",
    "Float": lambda kind: "float",
    "None": lambda kind: "null",
    "Int": said_int,
    "Str": said_text,
    "Bytes": said_bytes,
    "Union": said_union,
    "Literal": lambda kind: " or ".join(f'"{value}"' for value in kind.values),
    "List": lambda kind: f"list <= {number(kind.max_length)} of {said(kind.item_type)}",
    "VarTuple": lambda kind: f"list <= {number(kind.max_length)} of {said(kind.item_type)}",
    "Tuple": lambda kind: f"[{', '.join(map(said, kind.item_types))}]",
    "Dict": lambda kind: (
        f"map <= {number(kind.max_length)} of {said(kind.key_type)} to {said(kind.value_type)}"
    ),
    "Struct": lambda kind: kind.cls.__name__,
}


def fields(kind: type[msgspec.Struct]) -> list[list[str]]:
    information = msgspec.inspect.type_info(kind)
    tag = kind.__struct_config__.tag or kind.__name__
    return [[f"`{tag}`", f"`{field.name}`", said(field.type)] for field in information.fields]


def test_unbounded_types_have_no_words() -> None:
    for unbounded in (str, list[int], dict[str, int], bytes):
        with pytest.raises(AttributeError):
            said(msgspec.inspect.type_info(unbounded))


@pytest.mark.parametrize("title", DIRECTIONS)
def test_tables_of_records(page: str, title: str) -> None:
    kinds = typing.get_args(DIRECTIONS[title])
    expected = [
        [f"`{kind.__struct_config__.tag}`", ", ".join(f"`{f}`" for f in kind.__struct_fields__)]
        for kind in kinds
    ]
    found = rows(section(page, title))
    assert [[row[0], row[1].replace("none", "")] for row in found] == expected
    codes = set(_by_code(StokerError))
    for row in found:
        assert len(row) == 5, row
        assert all(row[2:]), row
        for code in re.findall("`([a-z_]+)`", row[4]):
            assert code in codes, f"{row[0]}: no error has the code {code}"


def test_table_of_fields(page: str) -> None:
    kinds = [kind for union in DIRECTIONS.values() for kind in typing.get_args(union)]
    kinds = [*dict.fromkeys(kinds), slot_layout.Output, slot_layout.Placed, item_fields.ItemField]
    kinds += [draw_records.Drawn, draw_records.DrawnField, size_buckets.Bucket]
    kinds += [messages.SessionStatus, messages.WorkerStatus]
    kinds += [messages.StageTimes, messages.StageSum]
    kinds += [
        stream_request.StreamRequest,
        stream_request.SourceRequest,
        stream_request.Selection,
        stream_request.OrderRequest,
    ]
    kinds += [
        stream_request.BatchRequest,
        stream_request.DrawRequest,
        stream_request.DeliveryRequest,
        stream_request.GroupRequest,
    ]
    expected = [line for kind in kinds for line in fields(kind)]
    found = rows(section(page, "Fields"))
    assert [row[:3] for row in found] == expected
    assert all(len(row) == 4 and row[3] for row in found)


def test_limits(page: str) -> None:
    found = {row[0]: row[1] for row in rows(section(page, "Limits"))}
    for what, value in LIMITS.items():
        assert found[what].split()[0] == number(value), what


def test_versions(page: str, docs) -> None:
    assert f"wire version {version.WIRE}" in page.lower()
    assert rows(section(page, "History"))[-1][0] == str(version.WIRE)
    for name, number_of in [("stream-spec", version.STREAM_SPEC), ("cursor", version.CURSOR)]:
        first = (docs / "contracts" / f"{name}.md").read_text().splitlines()[0]
        assert f"(version {number_of})" in first


def test_every_error_code_is_listed(page: str) -> None:
    found = [row[0].strip("`") for row in rows(section(page, "Errors"))]
    assert sorted(found) == sorted(_by_code(StokerError))


def test_the_handshake_in_bytes(page: str) -> None:
    """The hex in the page is what the codec makes."""
    shown = re.findall(r"^    ([0-9a-f ]+)  ", section(page, "An example in bytes"), re.M)
    hello = messages.Hello(1, 1, "a client", b"", "run-17", "node3", 4711, "anna")
    assert "".join(shown).replace(" ", "") == codec.encode(b"", [hello]).hex()


def test_timeouts(page: str) -> None:
    """Each time in the table is the constant of the waiting side, in the order of the rows."""
    assert sidesocket.ATTACH_DEADLINE_S == carriers.ATTACH_DEADLINE_S
    expected = [
        f"`connect_timeout_s` of `Connection`, {Connection().connect_timeout_s:g} s",
        f"`timeout_s` of `Connection`, {Connection().timeout_s:g} s",
        "`timeout_s`",
        f"{sidesocket.ATTACH_DEADLINE_S:g} s",
        f"{connections.SILENCE_S:g} s",
        f"{Settings(workers=1, memory_limit_bytes=1).hello_deadline_s:g} s",
        f"{carriers.ATTACH_DEADLINE_S:g} s",
        f"{tcp.LINK_TIMEOUT_S} s",
        "none: end of file comes at once",
    ]
    found = rows(section(page, "Timeouts"))
    assert [row[2] for row in found] == expected
    assert all(len(row) == 4 and row[3] for row in found)
    probes_s = tcp.KEEPALIVE_IDLE_S + tcp.KEEPALIVE_INTERVAL_S * tcp.KEEPALIVE_PROBES
    assert probes_s == tcp.LINK_TIMEOUT_S


def test_the_example_of_shares(page: str) -> None:
    said = re.search(
        r"With the keys ([\d, and]+), the first \w+ steps of epoch 0 are made by the daemons"
        r" ([\d, ]+)\.",
        section(page, "Several daemons"),
    )
    assert said
    keys, makers = (list(map(int, re.findall(r"\d+", part))) for part in said.groups())
    share = shares.HostShare(keys, 0)
    assert len(makers) == 9
    assert makers == [share.owner(0, step) for step in range(9)]
    rounds = [sorted(range(3), key=lambda h, n=n: weight(keys[h], 0, n)) for n in range(3)]
    assert makers == [host for one in rounds for host in one]


def weight(key: int, epoch: int, number: int) -> int:
    """As the page says: XXH64(key, e, s // n), each as 8 bytes, little-endian; seed 0."""
    data = b"".join(value.to_bytes(8, "little") for value in (key, epoch, number))
    return int(xxhash.xxh64_intdigest(data, seed=0))


def test_the_frame_in_bytes(page: str) -> None:
    """The hex in the page is what a carrier sends, and what its reader takes apart."""
    shown = re.findall(r"^    ([0-9a-f ]+)  ", section(page, "A frame in bytes"), re.M)
    data = bytes.fromhex("".join(shown))
    carried = messages.Carried(slab=1, slot=0, generation=2, size_bytes=3)
    assert data == tcp.frame(carried) + b"\x07\x08\x09"
    head = tcp.packet_length(data[: tcp.HEAD.size])
    packet = data[tcp.HEAD.size : tcp.HEAD.size + head]
    assert codec.decode_packet(packet) == carried
    assert len(data) == tcp.HEAD.size + head + carried.size_bytes
