"""The mixer: applies batch ops to the finished rows of a group.

It requests rows one by one, each as it is before all batch ops, and only those that are needed: the
row to deliver, and the partners that its decisions name, through all mixes. They are in memory of
the mixer, so a partner is never read after it was mixed in place; the result of the last mix is
written where the caller wants it. Both engines use the mixer; the arithmetic is in
`stoker.ops.kernels.means.Tools`, as machine code or plain Python.

A row whose partner or tile is not available stays unchanged, and its record says so. Belongs to one
thread; all memory of pixels is allocated once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.ops.bases.batch_op import GROUP, Mixed, partner, tile_ids
from stoker.ops.contract.states import State
from stoker.ops.kernels.means import Tools
from stoker.pipeline.engine.interface import Records
from stoker.pipeline.planning.mixes import UNMIXED, Mix
from stoker.protocol.slot_layout import Output
from stoker.rng.row import Row


class Members(Protocol):
    """The source of the mixer's rows; each comes as it is before all batch ops."""

    @property
    def rows(self) -> int:
        """The number of samples of the dataset."""
        ...

    def member(self, number: int, outputs: Sequence[np.ndarray]) -> Row | None:
        """Write a member of the group with the mixer's engine.

        Returns:
            Its row; None for a row that pads the batch, or is bad and masked.
        """
        ...

    def tile(self, sample: int, of: int, outputs: Sequence[np.ndarray]) -> int | None:
        """Write a sample of the dataset, for a member's mosaic.

        Returns:
            The id of the sample written, which differs from `sample` for a substitute; None if the
            sample is bad and masked.
        """
        ...


class Computed(Protocol):
    """The rows of a group, computed in one call into the mixer's memory; see `Mixer.room`.

    Attributes:
        rows: the rows of its members.
        records: what they drew, (members,) structured with fields d0, d1, ... by decision; the
            record of a decision that a row did not make is all zeros.
    """

    @property
    def rows(self) -> Sequence[Row]:
        """See above."""
        ...

    @property
    def records(self) -> np.ndarray:
        """See above."""
        ...

    def tiles(
        self, samples: Sequence[int], of: Sequence[int], outputs: Sequence[np.ndarray]
    ) -> list[int] | None:
        """Write many samples of the dataset, each for a member's mosaic.

        Args:
            samples: sample ids.
            of: for each sample the member that needs it.
            outputs: one for each of the plan's, with a leading axis over the samples.

        Returns:
            The ids of the samples written; None: ask for them one by one.
        """
        ...


class Mixer:
    """Mixes the rows of a plan with batch ops, one group after the other; at least one op."""

    def __init__(self, engine: Records, *, arithmetic: Arithmetic = PLAIN) -> None:
        """Allocate the memory of a group.

        Args:
            engine: has the records of each row after it was computed.
            arithmetic: how rows are mixed; the bytes are the same.
        """
        plan = engine.plan
        self._engine = engine
        self._mixes = plan.mixes
        self._tools = Tools(arithmetic=arithmetic)
        stages = [plan.outputs, *(mix.outputs for mix in plan.mixes[:-1])]
        self._stacks = [_stack(outputs, GROUP) for outputs in stages]
        self._memory = [_rows_of(stack) for stack in self._stacks]
        tiles = max((mix.op.others for mix in plan.mixes if mix.op.of_dataset), default=0)
        self._tiles = _rows_of(_stack(plan.outputs, tiles)) if tiles else []
        self._tile_stacks: dict[int, list[np.ndarray]] = {}
        self._begun: dict[int, Row | None] = {}
        self._records: dict[int, list[np.ndarray | None]] = {}
        self._reached: dict[int, int] = {}
        self._members: Members
        self._size = 0
        if arithmetic.is_compiled:
            self._warm()

    def room(self, size: int) -> list[np.ndarray]:
        """Return memory for the rows of a group before all mixes: its outputs, stacked."""
        return [stacked[:size] for stacked in self._stacks[0]]

    def begin(self, members: Members, size: int, computed: Computed | None = None) -> None:
        """Start a group.

        Args:
            members: the source of its rows.
            size: the number of its rows, from 1 to GROUP.
            computed: its rows, if all of them are already in `room`; then no member is requested.
        """
        self._members, self._size, self._computed = members, size, computed
        self._begun, self._records, self._reached = {}, {}, {}
        self._shown: dict[int, dict[int, tuple[list[int], list[list[np.ndarray]]]]] = {}
        if computed is None:
            return
        for member, row in enumerate(computed.rows):
            self._begun[member], self._reached[member] = row, UNMIXED
            self._records[member] = [
                _own(computed.records[f"d{mix.decision.index}"][member : member + 1].tobytes(), mix)
                for mix in self._mixes
            ]

    def write(self, member: int, outputs: Sequence[np.ndarray]) -> Row | None:
        """Write a member as it is delivered; return its row, or None without one.

        Args:
            member: its place in the group.
            outputs: one for each of the plan's `delivered`; further ones are not touched.

        Raises:
            SampleError: the member, or another row that it needs, cannot be computed.
        """
        row = self._row(member)
        if row is not None:
            self._mix(len(self._mixes) - 1, member, outputs)
        return row

    def records(self, member: int) -> Mapping[int, np.ndarray]:
        """Return the records of a member that was written: decision -> (1,), resolved.

        Decisions in branches that its row did not take are absent.
        """
        return {
            mix.decision.index: record
            for mix, record in zip(self._mixes, self._records[member], strict=True)
            if record is not None
        }

    def before_last(self, member: int) -> list[list[np.ndarray]]:
        """Return a written member as it was after each mix except the last."""
        return [self._after(stage, member) for stage in range(len(self._mixes) - 1)]

    def _warm(self) -> None:
        """Compile machine code, or load it from the cache, before the first row."""
        for mix in self._mixes:
            record = np.zeros(1, mix.op.record)
            mix.op.resolve(record, mix.size, [0] * mix.op.others)
            values = []
            for place, state in mix.states.items():
                value = np.zeros(state.bound, state.dtype)
                sources = [value[:1] if state.items else value] * (1 + mix.op.others)
                output = mix.outputs[place]
                values.append(Mixed(state, sources, np.zeros(output.shape, output.dtype)))
            mix.op.mix_all(values, record[0], self._tools)

    def _row(self, member: int) -> Row | None:
        if member not in self._begun:
            row = self._members.member(member, self._memory[0][member])
            self._begun[member] = row
            if row is not None:
                self._records[member] = [self._record(mix) for mix in self._mixes]
                self._reached[member] = UNMIXED
        return self._begun[member]

    def _record(self, mix: Mix) -> np.ndarray | None:
        drawn = self._engine.record_of(mix.decision.index)
        return None if drawn is None else _own(drawn, mix)

    def _after(self, stage: int, member: int) -> list[np.ndarray]:
        """Return a member as it is after a mix, or as it was before all."""
        if self._reached[member] < stage:
            self._mix(stage, member, self._memory[stage + 1][member])
            self._reached[member] = stage
        return self._memory[stage + 1][member]

    def _mix(self, stage: int, member: int, outputs: Sequence[np.ndarray]) -> None:
        mix, record = self._mixes[stage], self._records[member][stage]
        own = self._after(stage - 1, member)
        others = [] if record is None else self._others(stage, member, record)
        states = mix.states if others else {}
        counts = {place + 1 for place, state in states.items() if state.items}
        values = {}
        for place, src in enumerate(own):
            if place in states and record is not None:
                sources = [_value(row, place, states[place]) for row in (own, *others)]
                values[place] = Mixed(states[place], sources, outputs[place])
            elif place not in counts:
                _copy(src, outputs[place])
        if not values or record is None:
            return
        written = mix.op.mix_all(list(values.values()), record[0], self._tools)
        for place, count in zip(values, written, strict=True):
            if states[place].items:
                outputs[place + 1][...] = count

    def _others(self, stage: int, member: int, record: np.ndarray) -> list[list[np.ndarray]]:
        """Return the other rows that a member is mixed with, and resolve its record."""
        if not record["applied"][0]:
            return []
        mix = self._mixes[stage]
        if mix.op.of_dataset:
            ids, found = self._drawn(stage, member, record)
        else:
            ids, found = self._partner(mix, member, record)
        if not found:
            record["applied"] = 0
            return []
        mix.op.resolve(record, mix.size, ids)
        return found

    def _partner(
        self, mix: Mix, member: int, record: np.ndarray
    ) -> tuple[list[int], list[list[np.ndarray]]]:
        if self._size == 1:
            return [], []
        other = partner(member, int(record["offset"][0]), self._size)
        row = self._row(other)
        return ([row.id], [self._after(mix.reads, other)]) if row is not None else ([], [])

    def _drawn(
        self, stage: int, member: int, record: np.ndarray
    ) -> tuple[list[int], list[list[np.ndarray]]]:
        if self._computed is not None and stage not in self._shown:
            self._shown[stage] = self._tiles_of_group(stage, self._computed)
        if member in self._shown.get(stage, ()):
            return self._shown[stage][member]
        ids = []
        wanted = tile_ids(record["words"][0].tolist(), self._members.rows)
        for sample, memory in zip(wanted, self._tiles, strict=True):
            shown = self._members.tile(sample, member, memory)
            if shown is None:
                return [], []
            ids.append(shown)
        return ids, self._tiles

    def _tiles_of_group(
        self, stage: int, computed: Computed
    ) -> dict[int, tuple[list[int], list[list[np.ndarray]]]]:
        """Write the tiles of all members at once; return those of each, or nothing on failure."""
        others = self._mixes[stage].op.others
        if stage not in self._tile_stacks:
            self._tile_stacks[stage] = _stack(self._engine.plan.outputs, GROUP * others)
        wanted, of = [], []
        for member, records in self._records.items():
            record = records[stage]
            if record is not None and record["applied"][0]:
                wanted += tile_ids(record["words"][0].tolist(), self._members.rows)
                of += [member] * others
        stack = [stacked[: len(of)] for stacked in self._tile_stacks[stage]]
        ids = computed.tiles(wanted, of, stack)
        if ids is None:
            return {}
        rows = _rows_of(stack)
        return {
            of[start]: (ids[start : start + others], rows[start : start + others])
            for start in range(0, len(of), others)
        }


def _own(drawn: bytes, mix: Mix) -> np.ndarray:
    """Return a copy of a record, to be resolved."""
    return np.frombuffer(bytearray(drawn), mix.op.record)


def _stack(outputs: Sequence[Output], count: int) -> list[np.ndarray]:
    return [np.zeros((count, *output.shape), output.dtype) for output in outputs]


def _rows_of(stack: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Return views of the rows of a stack."""
    return [[stacked[row, ...] for stacked in stack] for row in range(len(stack[0]))]


def _value(row: Sequence[np.ndarray], place: int, state: State) -> np.ndarray:
    """Return a value of a row; of boxes and keypoints only the existing items."""
    return row[place][: int(row[place + 1])] if state.items else row[place]


def _copy(src: np.ndarray, dst: np.ndarray) -> None:
    """Copy a value; boxes and keypoints may be copied to a destination with a greater bound."""
    if src.shape == dst.shape:
        dst[...] = src
    else:
        dst[: len(src)] = src
