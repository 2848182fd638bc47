"""A replay: what a pipeline did to one sample, step by step; and its form as bytes.

Nothing is recorded while a stream is delivered. A row is a pure function of (seed, id, epoch,
visit, view), so a replay computes it again and keeps every decision and every value.

As bytes it is a head and the arrays: the length of the head (8 bytes, little-endian), the head in
msgpack, then the arrays, row-major, little-endian, each at the next multiple of `ALIGN` after the
head. In the head an array is `[dtype, shape, offset]`; an array that occurs twice is stored once.
Reading checks types, lengths, and that every array is within the bytes; nothing is evaluated.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import ProtocolError, ResourceError
from stoker.protocol.item_fields import DTYPES
from stoker.protocol.pictures import figures, heading, table
from stoker.protocol.slot_layout import ALIGN

MAX_HEAD_BYTES: Final = 2**22
MAX_REPLAY_BYTES: Final = 2**30
_LENGTH = struct.Struct("<Q")

Name = Annotated[str, msgspec.Meta(max_length=256)]
Path = Annotated[str, msgspec.Meta(max_length=4096)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Map = Annotated[dict[Name, Any], msgspec.Meta(max_length=256)]
Units = Annotated[dict[Name, Name], msgspec.Meta(max_length=256)]


class ReplayValue(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """One value in the pipeline.

    Attributes:
        name: name of the dataset field that it was made from, or of the output. Boxes and keypoints
            are one value per field of their items: `boxes.xyxy`, `boxes.label` and so on.
        kind: image, mask, label and so on.
        number: its number in the graph, the same for all fields of items; -1 for an output.
        of: number of the recorded value that it was made from; None for a field, and for an output
            that no op made.
        array: the value; read-only.
        damage: for a field whose file is damaged, but not in the part that the row reads: a
            description of the damage. The recorded image is black outside that part, and later
            values are computed from such an image. Otherwise empty.
    """

    name: Name
    kind: Name
    number: int
    of: int | None
    array: np.ndarray
    damage: Path = ""


Values = Annotated[tuple[ReplayValue, ...], msgspec.Meta(max_length=4096)]


class ReplayStep(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """One decision of the pipeline, and the values that followed it.

    op: name of the op.
    stream: the stream that it drew from; None if it draws nothing.
    file: the user's file that calls the op; empty if the graph has no sources.
    line: the line in that file.
    made: whether the decision was made; False in a branch that was not taken.
    applied: whether the op changed anything; also False if the draw of its probability said no.
    why: why it was not applied, in words; otherwise empty.
    settings: the op's own parameters, as given to its constructor.
    parameters: the values drawn for this row, by name; empty without draws.
    units: name in `parameters` -> unit, for those that have one.
    values: the results, one for each value that the op was called with.
    """

    op: Name
    stream: Name | None
    file: Path
    line: Count
    made: bool
    applied: bool
    why: Path
    settings: Map
    parameters: Map
    units: Units
    values: Values


class Replay(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """The record of a pipeline's work on one sample.

    Attributes:
        pipeline_id: the pipeline id.
        seed: seed of the stream.
        id: sample id.
        epoch: the epoch.
        visit: how often the id came before in the epoch.
        view: view of the position.
        fields: the decoded fields.
        steps: all decisions of the pipeline, in its order.
        outputs: the outputs, with the same bytes as in a batch.
    """

    pipeline_id: Name
    seed: Count
    id: Count
    epoch: Count
    visit: Count
    view: Count
    fields: Values
    steps: Annotated[tuple[ReplayStep, ...], msgspec.Meta(max_length=4096)]
    outputs: Values

    def __repr__(self) -> str:
        applied = ", ".join(step.op for step in self.steps if step.applied) or "nothing"
        return (
            f"Replay(id {self.id}, epoch {self.epoch}, visit {self.visit}, view {self.view}, seed "
            f"{self.seed}; applied: {applied}; outputs: {', '.join(v.name for v in self.outputs)})"
        )

    def _repr_html_(self) -> str:
        """Return what notebooks show: the pictures of its fields, steps and outputs."""
        title = f"Sample {self.id}, epoch {self.epoch}, visit {self.visit}, view {self.view}"
        groups = [
            ("fields", self.fields),
            *((_step_title(step), step.values) for step in self.steps if step.applied),
            ("outputs", self.outputs),
        ]
        shown = figures(
            (f"{name}: {value.name} {value.array.shape}", value.array)
            for name, values in groups
            for value in values
        )
        steps = [(step.op, step.line, step.why or _drawn(step)) for step in self.steps]
        lines = table(("step", "line", "parameters"), steps)
        return f"{heading(title)}<div>{shown}</div>{lines}"

    def output(self, name: str) -> np.ndarray:
        """Return an output by name; raises KeyError if there is no such output."""
        for value in self.outputs:
            if value.name == name:
                return value.array
        raise KeyError(name)

    def values(self) -> Iterator[ReplayValue]:
        """Yield all recorded values: the fields, then those of each step, in order."""
        yield from self.fields
        for step in self.steps:
            yield from step.values

    def to_data(self) -> dict[str, Any]:
        """Return plain data for JSON; an array is its dtype, shape and hash."""
        data: dict[str, Any] = {
            name: msgspec.to_builtins(getattr(self, name))
            for name in ("pipeline_id", "seed", "id", "epoch", "visit", "view")
        }
        data["fields"] = [_described(value) for value in self.fields]
        data["steps"] = [
            {
                name: [_described(value) for value in step.values]
                if name == "values"
                else getattr(step, name)
                for name in step.__struct_fields__
            }
            for step in self.steps
        ]
        data["outputs"] = [_described(value) for value in self.outputs]
        return data


def _step_title(step: ReplayStep) -> str:
    return f"{step.op} ({_drawn(step)})" if step.parameters else step.op


def _drawn(step: ReplayStep) -> str:
    """Return the values that a step drew, in words."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in step.parameters.items()
    )


def _described(value: ReplayValue) -> dict[str, Any]:
    return {
        "name": value.name,
        "kind": value.kind,
        "dtype": value.array.dtype.name,
        "shape": list(value.array.shape),
        "blake2b": hashlib.blake2b(_little(value.array).tobytes(), digest_size=16).hexdigest(),
        **({"damage": value.damage} if value.damage else {}),
    }


def _little(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def replay_to_bytes(replay: Replay) -> bytes:
    """Return a replay as bytes.

    Raises:
        ResourceError: the replay is larger than `MAX_REPLAY_BYTES`.
    """
    writer = _ReplayWriter()
    head = msgspec.msgpack.encode(replay, enc_hook=writer.place)
    start = _up(_LENGTH.size + len(head))
    total = start + writer.end
    if total > MAX_REPLAY_BYTES or len(head) > MAX_HEAD_BYTES:
        raise ResourceError(
            f"the replay of sample {replay.id} takes {total} bytes, but at most {MAX_REPLAY_BYTES} "
            "can be sent; use `stoker replay` on the dataset itself",
            needed_bytes=total,
        )
    data = bytearray(total)
    _LENGTH.pack_into(data, 0, len(head))
    data[_LENGTH.size : _LENGTH.size + len(head)] = head
    for array, offset in writer.placed:
        data[start + offset : start + offset + array.nbytes] = _little(array).tobytes()
    return bytes(data)


def replay_from_bytes(data: bytes) -> Replay:
    """Parse a replay; its arrays are read-only views of the bytes.

    Raises:
        ProtocolError: the bytes are not a replay; the message says why.
    """
    if len(data) < _LENGTH.size:
        raise ProtocolError(f"expected a replay of at least {_LENGTH.size} bytes, got {len(data)}")
    (length,) = _LENGTH.unpack_from(data)
    if length > min(MAX_HEAD_BYTES, len(data) - _LENGTH.size):
        raise ProtocolError(f"a replay of {len(data)} bytes cannot have a head of {length}")
    body = memoryview(data)[min(_up(_LENGTH.size + length), len(data)) :]
    head = memoryview(data)[_LENGTH.size : _LENGTH.size + length]
    try:
        return msgspec.msgpack.decode(
            head, type=analyzed(Replay), dec_hook=lambda kind, placed: _read(kind, placed, body)
        )
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise ProtocolError(f"expected a replay: {str(error)[:300]}") from None


class _ReplayWriter:
    """Gives every array its place after the head; the same object gets the same place."""

    def __init__(self) -> None:
        self.placed: list[tuple[np.ndarray, int]] = []
        self.end = 0
        self._known: dict[int, int] = {}

    def place(self, array: Any) -> list[Any]:
        if not isinstance(array, np.ndarray):
            raise TypeError(
                f"expected arrays and plain data in a replay, got {type(array).__name__}"
            )
        offset = self._known.get(id(array))
        if offset is None:
            offset = self._known[id(array)] = _up(self.end)
            self.placed.append((array, offset))
            self.end = offset + array.nbytes
        return [array.dtype.name, list(array.shape), offset]


def _read(kind: Any, placed: Any, body: memoryview) -> np.ndarray:
    try:
        dtype, shape, offset = placed
        item_bytes = DTYPES[dtype]
        counts = [*shape, offset]
    except (TypeError, ValueError, KeyError):
        raise msgspec.ValidationError("expected an array as [dtype, shape, offset]") from None
    if len(counts) > 17 or any(type(n) is not int or not 0 <= n <= 2**48 for n in counts):
        raise msgspec.ValidationError("expected a shape of at most 16 sides, and an offset")
    size_bytes = item_bytes * math.prod(shape)
    if offset + size_bytes > len(body):
        raise msgspec.ValidationError(
            f"expected an array within {len(body)} bytes, got {offset} to {offset + size_bytes}"
        )
    raw = body[offset : offset + size_bytes]
    little = np.dtype(dtype).newbyteorder("<")
    return np.frombuffer(raw, little).astype(dtype, copy=False).reshape(shape)


def _up(value: int) -> int:
    return -(-value // ALIGN) * ALIGN
