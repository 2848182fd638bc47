"""Targets: what records carry: specs, cursors, graphs, requests, replays."""

import msgpack
import msgspec
from target_tools import accepts, target

from stoker.pipeline.graph.normal import pipeline_id
from stoker.protocol import messages
from stoker.protocol.codec import decode_from_client
from stoker.protocol.cursor import Cursor
from stoker.protocol.exclude import Excluded
from stoker.protocol.replayed_row import replay_from_bytes
from stoker.protocol.request.option_refusals import Asked, check_combination
from stoker.protocol.slot_layout import check_outputs
from stoker.protocol.spec import StreamSpec
from stoker.protocol.subset import Subset
from stoker.protocol.weights import weights_from_bytes
from stoker.server.rows.graphs import graph_from_bytes


def _msgpack(data: bytes) -> object:
    try:
        return msgpack.unpackb(data, strict_map_key=False, max_buffer_size=2**20)
    except Exception:  # of that library: not what is tested
        return None


def as_json(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


@target
def spec(data: bytes) -> bool:
    """The StreamSpec in OPENED, from msgpack, or in a file, from JSON."""
    value = as_json(data) or _msgpack(data)
    if not accepts(StreamSpec.from_data, value):
        return False
    made = StreamSpec.from_data(value)
    assert StreamSpec.from_data(made.to_data()).stream_id == made.stream_id
    return True


@target
def cursor(data: bytes) -> bool:
    """A cursor that a training loads, as JSON."""
    value = as_json(data)
    if not accepts(Cursor.from_data, value):
        return False
    made = Cursor.from_data(value)
    assert Cursor.from_data(made.to_data()) == made
    return True


@target
def graph(data: bytes) -> bool:
    """A graph that a client sends."""
    if not accepts(graph_from_bytes, data):
        return False
    made = graph_from_bytes(data)
    assert len(pipeline_id(made)) == 32
    return True


@target
def exclude(data: bytes) -> bool:
    """An exclude list."""
    return accepts(Excluded.from_bytes, data)


@target
def subset(data: bytes) -> bool:
    """A subset."""
    return accepts(Subset.from_bytes, data)


@target
def weights(data: bytes) -> bool:
    """Weights of samples, of classes, or the name of a field."""
    return accepts(weights_from_bytes, data)


@target
def request(data: bytes) -> bool:
    """The request of an OPEN, and its checks."""

    def read(envelope: bytes) -> None:
        for record in decode_from_client(envelope)[1]:
            if isinstance(record, messages.Open):
                record.stream.check_sources()
                check_combination(Asked(record.stream, record.delivery), received=True)

    return accepts(read, data)


@target
def replay(data: bytes) -> bool:
    """The memory file of a replay."""
    return accepts(replay_from_bytes, data)


@target
def outputs(data: bytes) -> bool:
    """The outputs in OPENED, and the room that they take."""
    try:
        found = msgspec.msgpack.decode(data, type=tuple[messages.Output, ...])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False
    return accepts(check_outputs, found)
