"""Replaying a row: the interpreter, with every decision and every value kept.

The steps of a replay are the decisions of the plan, in its order, including those in branches that
were not taken. The outputs are the interpreter's, so they are the bytes that a batch delivers.
Values are kept as they are, read-only, without copies, since the interpreter gives every value its
own memory. `with_mixes` adds what batch ops do to a row, for callers that have the other rows. Runs
anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from stoker.ops.contract.units import switch_of, unit_of
from stoker.pipeline.engine.interface import Freeze
from stoker.pipeline.graph.schedule import Moment
from stoker.pipeline.plain.interpreter import Interpreter, PlainRun
from stoker.pipeline.plain.plain_arrays import as_python
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.engine_tables import plain_record
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.steps import (
    ConvertStep,
    DrawStep,
    IfStep,
    InputStep,
    ItemsStep,
    KernelStep,
    OpStep,
    ParameterStep,
    VectorsStep,
    walk,
)
from stoker.protocol.item_fields import COUNT, ItemField
from stoker.protocol.output_forms import cut
from stoker.protocol.ragged import unpack_items
from stoker.protocol.replayed_row import Replay, ReplayStep, ReplayValue
from stoker.protocol.slot_layout import SIZE, Output
from stoker.rng.row import Row


def replay(
    plan: Plan,
    row: Row,
    inputs: Sequence[Any],
    freeze: Freeze | None = None,
    damage: Mapping[str, str] | None = None,
) -> Replay:
    """Compute a row and return everything that happened to it, before batch ops.

    Args:
        plan: the plan.
        row: the row.
        inputs: one for each of `plan.fields`, as `Engine.run` takes them; copied.
        freeze: stream name -> the integer that replaces (id, epoch, visit, view), or "epoch".
        damage: field -> why an image is black outside of what the row reads.

    Raises:
        SampleError: the sample does not fit the plan.
        UnknownNameError: a freeze names a stream that the plan does not have.
        UsageError: inputs differ from the plan in number, dtype or rank.
    """
    engine = _Recorder(plan, freeze)
    outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    engine.run(row, [np.array(value) for value in inputs], outputs)
    return Replay(
        pipeline_id=plan.pipeline_id,
        seed=row.seed,
        id=row.id,
        epoch=row.epoch,
        visit=row.visit,
        view=row.view,
        fields=tuple(
            msgspec.structs.replace(value, damage=(damage or {}).get(value.name, ""))
            for value in engine.run_of_row.fields
        ),
        steps=tuple(engine.steps()),
        outputs=tuple(engine.outputs(outputs)),
    )


def with_mixes(
    found: Replay,
    plan: Plan,
    rows: Sequence[Sequence[np.ndarray]],
    records: Mapping[int, np.ndarray],
) -> Replay:
    """Return a replay of a row with the results of batch ops added.

    Args:
        found: the replay, which ends before all batch ops.
        plan: the plan.
        rows: the outputs of the row after each of the plan's mixes.
        records: decision -> (1,), what the batch ops decided.
    """
    steps = list(found.steps)
    names = {value.number: value.name for value in found.values()}
    last = [_made_of(found, output) for output in plan.outputs]
    for mix, row in zip(plan.mixes, rows, strict=True):
        index = mix.decision.index
        if index not in records:
            continue  # its branch was not taken
        values: list[ReplayValue] = []
        record = records[index][0]
        for place, state in mix.states.items():
            array = _kept(row, place, items=bool(state.items))
            name, number = _field(names, last[place], plan.outputs[place]), mix.made[place]
            values += value_parts(name, state.kind, number, last[place], array, state.items)
            names[number], last[place] = name, number
        applied = bool(record["applied"])
        missing = "there is no other row that it could be mixed with"
        why = missing if steps[index].applied and not applied else steps[index].why
        steps[index] = msgspec.structs.replace(
            steps[index],
            applied=applied,
            why=why,
            parameters={name: record[name].tolist() for name in record.dtype.names},
            values=tuple(values),
        )
    outputs: list[ReplayValue] = []
    for place, output in enumerate(plan.delivered):
        if output.kind not in (COUNT, SIZE):
            array = _kept(rows[-1], place, items=bool(output.items))
            if output.has_sizes:
                array = np.ascontiguousarray(cut(output, array, rows[-1][place + 1].tolist()))
            outputs += value_parts(output.name, output.kind, -1, last[place], array, output.items)
    return msgspec.structs.replace(found, steps=tuple(steps), outputs=tuple(outputs))


def _made_of(found: Replay, output: Output) -> int | None:
    """Return the number of the value that an output is."""
    parts = (value for value in found.outputs if _is_of(value.name, output))
    return next((value.of for value in parts), None)


def _is_of(name: str, output: Output) -> bool:
    return name.rpartition(".")[0] == output.name if output.items else name == output.name


def _field(names: Mapping[int, str], number: int | None, output: Output) -> str:
    """Return the field that a value was made of, or otherwise the output's name."""
    name = names.get(-1 if number is None else number, "")
    known = name.rpartition(".")[0] if output.items and "." in name else name
    return known or output.name


def _kept(row: Sequence[np.ndarray], place: int, *, items: bool) -> np.ndarray:
    """Return a copy of an output; of boxes and keypoints only the existing items."""
    return np.array(row[place][: int(row[place + 1])] if items else row[place])


class _Recorder(Interpreter):
    """An interpreter that keeps the run of its last row."""

    run_of_row: _Recording

    def begin(self, row: Row, columns: Sequence[np.ndarray]) -> PlainRun:
        self.run_of_row = _Recording(self, row, columns)
        return self.run_of_row

    def steps(self) -> Iterator[ReplayStep]:
        """Yield one step for each decision of the plan."""
        for decision in self.plan.decisions:
            if decision.source is not None:
                continue  # it belongs to the step of that decision
            yield self._step(decision, decision.index in self.drawn)

    def _step(self, decision: Decision, made: bool) -> ReplayStep:
        record = plain_record(self._records, decision) if made else {}
        off = made and self._is_off(decision, record)
        why = "its probability was not hit" if off else ""
        if not made:
            why = self.run_of_row.passed_over[decision.index]
        return ReplayStep(
            op=decision.op.name,
            stream=decision.stream,
            file=decision.site.file,
            line=decision.site.line,
            made=made,
            applied=made and not off,
            why=why,
            settings=self._settings(decision),
            parameters=record,
            units={name: unit for name in record if (unit := unit_of(decision.op, name))},
            values=tuple(self.run_of_row.values[decision.index]),
        )

    def _is_off(self, decision: Decision, record: dict[str, Any]) -> bool:
        """Return whether an op did nothing by its probability: switch off, or nothing changed."""
        switch = switch_of(decision.op)
        if switch is not None:
            return not record[switch]
        if not hasattr(decision.op, "p"):
            return False
        return all(map(self.run_of_row.unchanged, self.run_of_row.values[decision.index]))

    def _settings(self, decision: Decision) -> dict[str, Any]:
        """Return the op's parameters, as they were for the row."""
        params, row = dict(decision.op.params_data()), self.run_of_row.row
        if decision.schedule is not None:
            params = decision.schedule.at(Moment(row.epoch, row.step, row.progress))
        return params | self.run_of_row.given.get(decision.index, {})

    def outputs(self, arrays: Sequence[np.ndarray]) -> Iterator[ReplayValue]:
        """Yield the outputs of the row."""
        behind = {
            output.name: array.tolist()
            for output, array in zip(self.plan.outputs, arrays, strict=True)
            if output.kind in (COUNT, SIZE)
        }
        for output, number, array in zip(self.plan.outputs, self.plan.stores, arrays, strict=True):
            of = self.run_of_row.origin.get(number)
            if output.items:
                records = array[: behind[f"{output.name}.{COUNT}"]]
                yield from value_parts(output.name, output.kind, -1, of, records, output.items)
            elif output.has_sizes:
                whole = np.ascontiguousarray(cut(output, array, behind[f"{output.name}.{SIZE}"]))
                yield from value_parts(output.name, output.kind, -1, of, whole)
            elif output.name not in behind:
                yield from value_parts(output.name, output.kind, -1, of, array)


class _Recording(PlainRun):
    """A run that keeps all its values.

    Attributes:
        fields: the fields that were taken.
        values: index of a decision -> the results of its applies, in order.
        origin: value number -> number of the recorded value that it equals, through joins and
            conversions; absent for computed scalars.
        passed_over: index of a decision that was not made -> the reason.
        given: index of a decision -> the parameters that the row gave it.
    """

    def __init__(self, engine: Interpreter, row: Row, columns: Sequence[np.ndarray]) -> None:
        super().__init__(engine, row, columns)
        self.fields: list[ReplayValue] = []
        self.values: dict[int, list[ReplayValue]] = {d.index: [] for d in engine.plan.decisions}
        self.origin: dict[int, int] = {}
        self.passed_over: dict[int, str] = {}
        self.given: dict[int, dict[str, int | float]] = {}
        self._names: dict[int, str] = {}

    def unchanged(self, value: ReplayValue) -> bool:
        """Return whether a value equals what it was made of."""
        known = [*self.fields, *(v for values in self.values.values() for v in values)]
        before = [v.array for v in known if (v.number, v.name) == (value.of, value.name)]
        return bool(before) and np.array_equal(value.array, before[0])

    def take(self, step: InputStep) -> None:
        super().take(step)
        self.fields += self._keep(step.dst, self.plan.fields[step.column], None)

    def set_parameter(self, step: ParameterStep) -> None:
        super().set_parameter(step)
        number = as_python(self.number(step.parameter.value))
        self.given.setdefault(step.decision.index, {})[step.parameter.name] = number

    def apply(self, step: KernelStep) -> None:
        super().apply(step)
        self._result(step)

    def items(self, step: ItemsStep) -> None:
        super().items(step)
        self._result(step)

    def turn(self, step: VectorsStep) -> None:
        super().turn(step)
        made = self.values[(step.decision.source or step.decision).index]
        moved = made.pop()  # a field whose pixels are moved and whose components are not
        made += self._keep(step.dst, moved.name, moved.of)

    def _result(self, step: OpStep) -> None:
        """Keep the result of a step; for a fold, with the first of its values as the source."""
        of = self.origin.get(step.reads[0])
        name = self._names.get(of, "") if of is not None else ""
        decision = step.decision.source or step.decision
        self.values[decision.index] += self._keep(step.dst, name, of)

    def convert(self, step: ConvertStep) -> None:
        super().convert(step)
        self._alias(step.dst, step.src)

    def branch(self, step: IfStep) -> None:
        super().branch(step)
        taken = bool(self.number(step.cond) != 0)
        for join in step.joins:
            self._alias(join.dst, join.then if taken else join.orelse)
        site = self.plan.graph.site(step.cond)
        why = f"its branch was not taken: the condition at {site} was {taken}"
        for passed, _ in walk(step.orelse if taken else step.then):
            if isinstance(passed, DrawStep):
                self.passed_over[passed.decision.index] = why

    def _keep(self, number: int, name: str, of: int | None) -> Iterator[ReplayValue]:
        self.origin[number] = number
        self._names[number] = name
        state = self.plan.states[number]
        array = self.env[number].view(state.dtype)
        if not state.shape:
            array = array.reshape(())
        return value_parts(name, state.kind, number, of, array, state.items)

    def _alias(self, dst: int, src: int) -> None:
        if src in self.origin:
            self.origin[dst] = self.origin[src]


def value_parts(
    name: str,
    kind: str,
    number: int,
    of: int | None,
    array: np.ndarray,
    items: Sequence[ItemField] = (),
) -> Iterator[ReplayValue]:
    """Yield a value, or the fields of boxes and keypoints, one after the other."""
    parts = {f"{name}.{key}": part for key, part in unpack_items(items, array).items()}
    for key, part in (parts if items else {name: array}).items():
        part.flags.writeable = False
        yield ReplayValue(key, kind, number, of, part)
