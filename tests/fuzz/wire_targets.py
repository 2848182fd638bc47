"""Targets: messages, packets and frames, as both sides receive them."""

import os
from typing import Final

from target_tools import CLEANUP, accepts, prepared, target

from stoker.client.remote.carrier_receiver import Carrier, Ended, File, ReceivedBatch
from stoker.client.remote.ring import Ring
from stoker.protocol import codec
from stoker.protocol.errors import StokerError
from stoker.server.daemon import broker
from stoker.server.daemon.remote.half_open import HalfOpen

RING_SLOT_BYTES: Final = 4096
MOST_RECORDS: Final = 64


@target
def message_of_a_client(data: bytes) -> bool:
    """A ZeroMQ message that the daemon receives."""
    if not accepts(broker._decode, data):
        return False
    token, records = broker._decode(data)
    again = codec.encode(token, records)
    assert repr(broker._decode(again)) == repr((token, records))
    return True


@target
def message_of_a_daemon(data: bytes) -> bool:
    """A ZeroMQ message that a client receives."""
    if not accepts(codec.decode_from_daemon, data):
        return False
    token, records = codec.decode_from_daemon(data)
    assert repr(codec.decode_from_daemon(codec.encode(token, records))) == repr((token, records))
    return True


@target
def packet(data: bytes) -> bool:
    """A packet of the side socket."""
    if not accepts(codec.decode_packet, data):
        return False
    record = codec.decode_packet(data)
    assert repr(codec.decode_packet(codec.encode_packet(record))) == repr(record)
    return True


class Connection:
    """A connection on which some bytes came, and then its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def fileno(self) -> int:
        """Return no descriptor."""
        return -1

    def recv(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        self._at += len(part)
        return part

    def recv_into(self, view: memoryview, count: int, flags: int) -> int:
        part = self.recv(count)
        view[: len(part)] = part
        return len(part)


@prepared
def ring() -> Ring:
    made = Ring(2, RING_SLOT_BYTES)
    CLEANUP.append(made.close)
    return made


@target
def carrier_of_a_client(data: bytes) -> bool:
    """The client's end of a carrier: batches go into the ring, never outside of it."""
    carrier = Carrier.__new__(Carrier)
    carrier._stream, carrier._ring = Connection(data), ring()  # type: ignore[assignment]
    found = 0
    try:
        while (item := carrier._receive()) is not None and found < MOST_RECORDS:
            assert not isinstance(item, Ended)
            if isinstance(item, File):
                os.close(item.descriptor)
            elif isinstance(item, ReceivedBatch):
                assert 1 <= item.carried.size_bytes <= RING_SLOT_BYTES
                ring().release([(item.slot, ring().generation(item.slot))])
            found += 1
    except (StokerError, OSError):
        _refill()
        return False
    return True


def _refill() -> None:
    """Return slots that were being filled when the connection ended."""
    ring().release([(slot, ring().generation(slot)) for slot in range(ring().slots)])


@target
def carrier_of_a_daemon(data: bytes) -> bool:
    """The daemon's end of a carrier until it is attached."""
    connection = HalfOpen(Connection(data), "host", 0.0, None)  # type: ignore[arg-type]
    for _ in range(3):
        try:
            assert len(connection.read_attach()) == 16
        except BlockingIOError:
            continue
        except (StokerError, OSError):
            return False
        return True
    return False
