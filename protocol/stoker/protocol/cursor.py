"""The cursor v1: where a client is in a stream, small enough to lie in any checkpoint.

The client owns it. It names the stream, the epoch and the next step to deliver, and how many steps
were skipped; it holds no rank, so the cursor of any rank serves all ranks, and it holds no trace of
what was prefetched, so batches that were never used do not count. The StreamSpec lies beside it, so
that an error on resume can say what changed. Its JSON form is at most `MAX_BYTES` long.
"""

import json
from typing import Literal

import msgspec

from stoker.protocol import version
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import ResumeError
from stoker.protocol.spec import StreamSpec, differences

MAX_BYTES = 1024
MAX_FREEZE_BYTES = 192


class Cursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A place in a stream: the next step of an epoch.

    Attributes:
        stream: stream id, 32 hex digits.
        epoch: the epoch, from 0.
        step: the next step to deliver in that epoch, from 0 to the number of its steps.
        skipped: how many steps of that epoch were skipped and not delivered.
        spec: the StreamSpec in plain data form; a long `freeze` is replaced by its digest.
    """

    version: Literal[1] = version.CURSOR
    stream: str
    epoch: int
    step: int
    skipped: int = 0
    spec: dict[str, object] = msgspec.field(default_factory=dict)

    def to_data(self) -> dict[str, object]:
        """Return the cursor as plain, JSON-able data."""
        data = msgspec.to_builtins(self)
        assert isinstance(data, dict)
        return data

    @staticmethod
    def at(spec: StreamSpec, epoch: int, step: int, skipped: int = 0) -> "Cursor":
        """Make the cursor of a place in the stream of that spec."""
        data = spec.to_data()
        if len(json.dumps(data["freeze"])) > MAX_FREEZE_BYTES:
            data["freeze"] = canonical_digest(data["freeze"])  # type: ignore[arg-type]
        return Cursor(stream=spec.stream_id, epoch=epoch, step=step, skipped=skipped, spec=data)

    @staticmethod
    def from_data(data: object) -> "Cursor":
        """Read a cursor back from plain data.

        Raises:
            ResumeError: the data is no cursor, too large, or of another version.
        """
        try:
            cursor = msgspec.convert(data, Cursor)
        except msgspec.ValidationError as error:
            raise ResumeError(
                f"this is no cursor of version {version.CURSOR}: {error}; "
                "pass what state_dict() returned"
            ) from None
        size = len(json.dumps(data))
        if size > MAX_BYTES:
            raise ResumeError(f"a cursor has at most {MAX_BYTES} bytes as JSON, got {size}")
        if cursor.epoch < 0 or cursor.step < 0 or cursor.skipped < 0:
            raise ResumeError(
                "a cursor's epoch, step and skipped are at least 0, "
                f"got {cursor.epoch}, {cursor.step}, {cursor.skipped}"
            )
        return cursor

    def check(self, spec: StreamSpec) -> None:
        """Check that the cursor belongs to the stream of that spec.

        Raises:
            ResumeError: it belongs to another stream; the message says what changed.
        """
        if self.stream == spec.stream_id:
            return
        now = Cursor.at(spec, 0, 0).spec
        changed = differences(self.spec, now) or [
            "the cursor was edited: its stream id fits no field"
        ]
        raise ResumeError(
            "the cursor is of another stream, so resuming would change the data:\n  "
            + "\n  ".join(changed)
            + "\nuse the same arguments as the run that saved it, or start without the cursor"
        )
