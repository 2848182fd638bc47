"""The cursor v1: where a client is in a stream, small enough for any checkpoint.

The client owns it. It names the stream, the epoch, the next step to deliver, and how many steps
were skipped. It holds no rank, so the cursor of any rank serves all ranks. It knows nothing about
prefetching, so batches that were prefetched but never used do not count. It includes the
StreamSpec, so that an error on resume can say what changed. Its JSON form is at most `MAX_BYTES`
long.

If samples crashed workers and the operator replaces such samples, the cursor lists their ids:
the rest of the stream depends on these ids too (docs/contracts/bad-samples.md). Steps that the
user leaves out on purpose are listed too, so that a resume leaves them out again.
"""

import json
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from stoker.protocol import version
from stoker.protocol.analysis import analyzed
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import ResumeError, UsageError
from stoker.protocol.skips import MAX_STEP, Skips
from stoker.protocol.spec import MAX_ROWS, StreamSpec, differences

MAX_BYTES = 1024
REMEDY = "pass what state_dict() returned"
MAX_FREEZE_BYTES = 192
MIN_FREEZE_BYTES = 34
MAX_CRASHED = 8
"""Samples of a stream that may be replaced because they crashed workers; one more stops it."""

Id = Annotated[int, msgspec.Meta(ge=0, lt=MAX_ROWS)]
_OTHER_LIST = (
    ". Without other samples it is a different stream with a different order: to continue in it, "
    "start epoch {epoch} again with set_epoch({epoch})"
)


class Cursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A place in a stream: the next step of an epoch.

    Attributes:
        stream: stream id, 32 hex digits.
        epoch: the epoch, from 0.
        step: the next step to deliver in that epoch, from 0 to the number of its steps.
        skipped: how many steps of that epoch were skipped and never delivered.
        spec: the StreamSpec in plain data form; a long `freeze` is replaced by its digest.
        crashed: ids of samples that are replaced from this place on, ascending.
        skips: steps to leave out, of this epoch and later ones: epoch as text -> [first, last,
            first, last, ...], ascending.
    """

    version: Literal[1] = version.CURSOR
    stream: str
    epoch: int
    step: int
    skipped: int = 0
    spec: dict[str, object] = msgspec.field(default_factory=dict)
    crashed: Annotated[tuple[Id, ...], msgspec.Meta(max_length=MAX_CRASHED)] = ()
    skips: dict[str, list[int]] = msgspec.field(default_factory=dict)

    def to_data(self) -> dict[str, object]:
        """Return plain, JSON-serializable data; an empty `crashed` or `skips` is left out."""
        data = msgspec.to_builtins(self)
        assert isinstance(data, dict)
        data["crashed"] = list(self.crashed)
        for name in ("crashed", "skips"):
            if not data[name]:
                del data[name]
        return data

    @staticmethod
    def at(
        spec: StreamSpec,
        epoch: int,
        step: int,
        skipped: int = 0,
        crashed: Iterable[int] = (),
        skips: Skips | None = None,
    ) -> "Cursor":
        """Make the cursor of a place in the stream of `spec`."""
        ids = tuple(sorted(set(crashed)))
        ranges = {} if skips is None else skips.since(epoch).to_data()
        return Cursor(
            stream=spec.stream_id, epoch=epoch, step=step, skipped=skipped,
            spec=_told(spec, brief=bool(ids or ranges)), crashed=ids, skips=ranges,
        )  # fmt: skip

    @staticmethod
    def check_room(spec: StreamSpec, skips: Skips) -> None:
        """Check that every later cursor has room for these ranges.

        Raises:
            UsageError: a cursor would be too large.
        """
        if not skips:
            return
        ids = range(MAX_ROWS - MAX_CRASHED, MAX_ROWS)
        cursor = Cursor.at(spec, 0, 0, 0, ids, skips)
        largest = msgspec.structs.replace(cursor, epoch=MAX_STEP, step=MAX_STEP, skipped=MAX_STEP)
        size = len(json.dumps(largest.to_data()))
        if size > MAX_BYTES:
            count = len(list(skips.ranges()))
            raise UsageError(
                f"a cursor has at most {MAX_BYTES} bytes, and with {count} ranges of steps to "
                f"leave out it could have {size}: join ranges that are close to each other, or "
                "leave out the steps of later epochs once those epochs begin"
            )

    @staticmethod
    def from_data(data: object) -> "Cursor":
        """Parse a cursor from plain data.

        Raises:
            ResumeError: the data is not a cursor, is too large, or has another version.
        """
        try:
            cursor = msgspec.convert(data, analyzed(Cursor))
        except msgspec.ValidationError as error:
            raise ResumeError(
                f"expected a cursor of version {version.CURSOR}: {error}; {REMEDY}"
            ) from None
        size = len(json.dumps(data))
        if size > MAX_BYTES:
            raise ResumeError(
                f"expected a cursor of at most {MAX_BYTES} bytes as JSON, got {size}; {REMEDY}"
            )
        try:
            Skips.from_data(cursor.skips)
        except UsageError as error:
            raise ResumeError(f"the cursor's skips: {error.message}") from None
        if cursor.epoch < 0 or cursor.step < 0 or cursor.skipped < 0:
            raise ResumeError(
                "expected a cursor whose epoch, step and skipped are at least 0, "
                f"got {cursor.epoch}, {cursor.step}, {cursor.skipped}; {REMEDY}"
            )
        return cursor

    def differences(self, spec: StreamSpec) -> list[str]:
        """List the differences between the cursor's stream and another, one line per field."""
        return differences(self.spec, _told(spec, brief=bool(self.crashed or self.skips)))

    def check(self, spec: StreamSpec) -> None:
        """Check that the cursor belongs to the stream of `spec`.

        Raises:
            ResumeError: the cursor belongs to another stream; the message says what changed.
        """
        if self.stream == spec.stream_id:
            return
        changed = self.differences(spec) or [
            "the cursor was edited: its stream id does not match its fields"
        ]
        raise ResumeError(
            "the cursor belongs to another stream, so resuming would change the data:\n  "
            + "\n  ".join(changed)
            + "\nuse the same arguments as the run that saved it, or start without the cursor"
            + (_OTHER_LIST.format(epoch=self.epoch) if self._is_without_others(spec) else "")
        )

    def _is_without_others(self, spec: StreamSpec) -> bool:
        """Return whether the streams differ only in the exclude list and in dependent fields."""
        now = spec.to_data()
        apart = {key for key in now if self.spec.get(key) != now[key]}
        return "exclude" in apart and apart <= {"exclude", "buckets", "freeze"}


def _told(spec: StreamSpec, *, brief: bool) -> dict[str, object]:
    """Return the spec as a cursor stores it; a brief one has less room for `freeze`."""
    data = spec.to_data()
    if len(json.dumps(data["freeze"])) > (MIN_FREEZE_BYTES if brief else MAX_FREEZE_BYTES):
        data["freeze"] = canonical_digest(data["freeze"])  # type: ignore[arg-type]
    return data
