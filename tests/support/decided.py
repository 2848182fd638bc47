"""Decisions of the daemon's core: parts of its instructions, for tests of `server.state`."""

from collections.abc import Iterable, Sequence

from stoker.protocol.messages import DaemonRecord
from stoker.server.state import core_instructions as ins


def of(items: Iterable[object], kind: type) -> list:
    """The items of a kind."""
    return [item for item in items if isinstance(item, kind)]


def records(said: Sequence[ins.Instruction], token: bytes) -> list[DaemonRecord]:
    """The records that a session was sent."""
    return [record for one in of(said, ins.Send) if one.token == token for record in one.records]


def places(rig: object, token: bytes) -> list[tuple[int, int]]:
    """The (epoch, step) of each batch that was announced to a session."""
    return [(ready.epoch, ready.step) for ready in rig.ready(token)]
