"""Encoding of envelopes and side packets: msgpack with limits, then typed records.

`msgspec` encodes records in one step. Received bytes are first unpacked by the `msgpack` package
with limits on size, nesting and length, and then converted to the typed records of `messages`.
Anything that does not fit raises `ProtocolError`. Received bytes are never unpickled, evaluated or
imported.
"""

from collections.abc import Iterable
from typing import Any, get_type_hints

import msgpack
import msgspec

from stoker.protocol import version
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import ProtocolError, UsageError, VersionError
from stoker.protocol.messages import ClientRecord, DaemonRecord, Record, SideRecord

MAX_MESSAGE_BYTES = 4 * 2**20
MAX_PACKET_BYTES = 65536
MAX_RECORDS = 4096
MAX_LENGTH = 65536
MAX_REASON = 300
_encode = msgspec.msgpack.Encoder().encode


# msgspec analyzes a bare list of a union again in each call, which takes nine tenths of the time;
# for a struct it caches the result.
class _FromClient(msgspec.Struct, frozen=True, array_like=True):
    records: list[ClientRecord]


class _FromDaemon(msgspec.Struct, frozen=True, array_like=True):
    records: list[DaemonRecord]


class _OnSide(msgspec.Struct, frozen=True, array_like=True):
    record: SideRecord


def encode(token: bytes, records: Iterable[Record]) -> bytes:
    """Return the envelope that carries the records, `[WIRE, token, [record, ...]]`."""
    return _encode([version.WIRE, token, list(records)])


def decode_from_client(data: bytes) -> tuple[bytes, list[ClientRecord]]:
    """Decode an envelope from a client.

    Raises:
        ProtocolError: the envelope breaks the grammar or a bound.
        VersionError: the envelope has another wire version.
    """
    return _decode(data, _FromClient)


def decode_from_daemon(data: bytes) -> tuple[bytes, list[DaemonRecord]]:
    """Decode an envelope from the daemon.

    Raises:
        ProtocolError: the envelope breaks the grammar or a bound.
        VersionError: the envelope has another wire version.
    """
    return _decode(data, _FromDaemon)


def encode_packet(record: Record) -> bytes:
    """Encode one packet for the side socket."""
    return _encode(record)


def decode_packet(data: bytes) -> SideRecord:
    """Decode one packet from the side socket.

    Raises:
        ProtocolError: the packet breaks the grammar or a bound.
    """
    value = _unpack(data, MAX_PACKET_BYTES)
    try:
        return msgspec.convert(
            [value], analyzed(_OnSide), strict=True, builtin_types=(bytes,)
        ).record
    except (msgspec.ValidationError, RecursionError):
        record: SideRecord = _typed(value, SideRecord)  # its error names the place in the record
        return record


def _decode(data: bytes, holder: type[_FromClient] | type[_FromDaemon]) -> tuple[bytes, list[Any]]:
    envelope = _unpack(data, MAX_MESSAGE_BYTES)
    if not isinstance(envelope, list) or len(envelope) < 3:
        raise ProtocolError(
            f"expected an envelope [version, token, records], got {_brief(envelope)}"
        )
    wire, token, body = envelope[:3]
    if wire != version.WIRE:
        raise VersionError(
            f"expected wire version {version.WIRE}, got {_brief(wire)}; "
            "use the same release of Stoker on both sides"
        )
    if not isinstance(token, bytes) or len(token) not in (0, 16):
        raise ProtocolError("expected a token of 0 or 16 bytes")
    if not isinstance(body, list) or len(body) > MAX_RECORDS:
        raise ProtocolError(f"expected a list of at most {MAX_RECORDS} records")
    try:
        held = msgspec.convert([body], analyzed(holder), strict=True, builtin_types=(bytes,))
    except (msgspec.ValidationError, RecursionError, UsageError):
        return token, _typed(
            body, get_type_hints(holder)["records"]
        )  # its error names the place in the list
    return token, held.records


def _unpack(data: bytes, limit: int) -> object:
    if len(data) > limit:
        raise ProtocolError(f"expected a message of at most {limit} bytes, got {len(data)}")
    try:
        return msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_str_len=MAX_LENGTH,
            max_bin_len=limit,
            max_array_len=min(MAX_LENGTH, len(data)),
            max_map_len=min(MAX_LENGTH, len(data)),
            max_ext_len=0,
        )
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError, UnicodeError) as error:
        raise ProtocolError(f"expected a msgpack message: {_short(error)}") from None


def _typed(value: object, kind: Any) -> Any:
    try:
        # bytes as a built-in type: otherwise text would pass as base64 where bytes are expected.
        return msgspec.convert(value, analyzed(kind), strict=True, builtin_types=(bytes,))
    except (msgspec.ValidationError, RecursionError, UsageError) as error:
        raise ProtocolError(f"message out of bounds: {_short(error)}") from None


def _short(error: Exception) -> str:
    """Return the error in one line, cut short: it may quote any length of text from the peer."""
    text = str(error) or type(error).__name__
    return text if len(text) <= MAX_REASON else text[:MAX_REASON] + "..."


def _brief(value: object) -> str:
    """Return an integer from the peer as text, and only the type name of anything else."""
    return repr(value) if isinstance(value, int) else type(value).__name__
