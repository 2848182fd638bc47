"""Joins the pipelines of a mixture: their outputs, draw records and batch ops.

A stream of one dataset has one pipeline, and everything here is that pipeline's own. Rows of a
batch have the same outputs, whichever pipeline makes them; the greatest sides of padded outputs may
differ. Runs in builders, workers, replayers and the reference.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from stoker.dataset import Dataset
from stoker.pipeline.engine.drawing import Recorder, drawn_by
from stoker.pipeline.engine.interface import Engine, Freeze
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.draw_records import Drawn
from stoker.protocol.errors import BuildError
from stoker.protocol.slot_layout import Output

SHOWN = 3


def own_freeze(freeze: Freeze, plan: Plan) -> Freeze:
    """Return the freezes of streams that a pipeline draws from."""
    return {name: value for name, value in freeze.items() if name in plan.streams}


def joined_outputs(every: Sequence[tuple[Output, ...]]) -> tuple[Output, ...]:
    """Return the outputs of a batch: those of each plan, with room for the greatest of them."""
    return tuple(map(_greatest, zip(*every, strict=True)))


def _greatest(same: tuple[Output, ...]) -> Output:
    shape = tuple(map(max, zip(*(output.shape for output in same), strict=True)))
    return msgspec.structs.replace(same[0], shape=shape)


class DrawRecords:
    """Draw records of rows whose pipelines may differ; see `stoker.protocol.draw_records`.

    A decision of the same name has the same place in all rows. A row whose pipeline has no such
    decision has not made it.

    Attributes:
        drawn: where each decision is in a row.
        row_bytes: bytes of a row.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        """Lay out the records of pipelines that `check_agreement` has checked."""
        self.drawn, starts, self.row_bytes = joined_records([engine.plan for engine in engines])
        self._recorders = [
            Recorder(engine, own) for engine, own in zip(engines, starts, strict=True)
        ]

    def write(self, number: int, out: np.ndarray) -> None:
        """Write what the last row of a pipeline has drawn into (row_bytes,) uint8."""
        if len(self._recorders) > 1:
            out[...] = 0
        self._recorders[number].write(out)

    def replace(self, number: int, out: np.ndarray, records: Mapping[int, np.ndarray]) -> None:
        """Overwrite records of a row of a pipeline, by index of the decision."""
        self._recorders[number].replace(out, records)


def joined_records(
    plans: Sequence[Plan], names: Sequence[str] = ()
) -> tuple[tuple[Drawn, ...], list[list[int]], int]:
    """Return where the records of several pipelines are in one row.

    Decisions of one name that have the same record have one place. A later one with another record
    is named after its dataset too: `name@dataset`.

    Args:
        plans: of the pipelines.
        names: of their datasets; empty: the numbers of the plans.

    Returns:
        (every decision, for each plan the place of each of its decisions, bytes of a row).
    """
    known: dict[str, Drawn] = {}
    starts: list[list[int]] = []
    end = 0
    for number, plan in enumerate(plans):
        starts.append([])
        for one in drawn_by(plan):
            moved = _moved(one, known[one.name].made if one.name in known else end)
            if known.setdefault(one.name, moved) != moved:
                name = f"{one.name}@{names[number] if names else number}"
                moved = known[name] = msgspec.structs.replace(_moved(one, end), name=name)
            starts[-1].append(moved.made)
            end = max([end, moved.made + 1, *(field.end for field in moved.fields)])
    return tuple(known.values()), starts, end


def _moved(drawn: Drawn, made: int) -> Drawn:
    """Return a decision whose record begins elsewhere in the row."""
    by = made - drawn.made
    fields = tuple(
        msgspec.structs.replace(field, offset=field.offset + by) for field in drawn.fields
    )
    return msgspec.structs.replace(drawn, made=made, fields=fields)


class MixingEngine:
    """The engine that a mixer asks for records: that of the row that was computed last.

    Its decisions are numbered as those of the first pipeline; see `check_agreement`.

    Attributes:
        plan: of the first pipeline.
        last: the pipeline whose engine has computed the last row.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        """Join engines."""
        self.engines = tuple(engines)
        self.plan = engines[0].plan
        self.last = 0
        mixes = [[mix.decision.index for mix in engine.plan.mixes] for engine in engines]
        self._indices = [dict(zip(mixes[0], own, strict=False)) for own in mixes]

    def record_of(self, index: int) -> bytes | None:
        """Return the record of a batch op's decision in the last row; None if it made none."""
        return self.engines[self.last].record_of(self._indices[self.last][index])

    def of_pipeline(self, number: int, records: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Return records of batch ops by index of the decision in a pipeline."""
        return {self._indices[number][index]: record for index, record in records.items()}


def check_agreement(plans: Mapping[str, Plan]) -> tuple[Output, ...]:
    """Return the outputs of a mixture's pipelines, by name of the dataset, which must be the same.

    Raises:
        BuildError: they differ; the message names the output. Or their batch ops differ.
    """
    first, *others = plans
    expected = {output.name: output for output in plans[first].delivered}
    for name in others:
        found = {output.name: output for output in plans[name].delivered}
        for key in [*expected, *found]:
            if not _agree(expected.get(key), found.get(key)):
                raise BuildError(
                    f"mix: output {key!r} of {first!r} is {_described(expected.get(key))}, of "
                    f"{name!r} {_described(found.get(key))}: rows of one batch must agree, so "
                    "change one of the pipelines"
                )
        if list(expected) != list(found):
            raise BuildError(
                f"mix: the outputs of {first!r} are {', '.join(expected)}, those of {name!r} "
                f"{', '.join(found)}: expected the same order"
            )
        _check_mixes(first, plans[first], name, plans[name])
    return joined_outputs([plan.delivered for plan in plans.values()])


def _check_mixes(first: str, one: Plan, name: str, other: Plan) -> None:
    """Check that two pipelines end in the same batch ops, for a row may be mixed with any other."""
    said = [
        ", ".join(f"{mix.op!r} on stream {mix.decision.stream!r}" for mix in plan.mixes) or "none"
        for plan in (one, other)
    ]
    same = len(one.mixes) == len(other.mixes) and all(
        (mix.op, mix.decision.stream, mix.decision.schedule, mix.reads, mix.states.keys())
        == (of.op, of.decision.stream, of.decision.schedule, of.reads, of.states.keys())
        for mix, of in zip(one.mixes, other.mixes, strict=True)
    )
    if not same or (one.mixes and one.outputs != other.outputs):
        raise BuildError(
            f"mix: the batch ops of {first!r} are {said[0]}, those of {name!r} {said[1]}: a row is "
            "mixed with any row of its batch, also of the other dataset, so both pipelines must "
            "end in the same batch ops, after outputs of the same sizes"
        )


def check_classes(datasets: Mapping[str, Dataset], plans: Mapping[str, Plan]) -> None:
    """Check that a class number means the same in all datasets, where pipelines read it.

    Raises:
        BuildError: the names of classes differ.
    """
    seen: dict[str, tuple[str, tuple[str, ...] | None]] = {}
    for name, dataset in datasets.items():
        for field in dataset.schema.fields:
            if field.kind != "label" or field.name not in plans[name].fields:
                continue
            other, classes = seen.setdefault(field.name, (name, field.classes))
            if classes != field.classes:
                raise BuildError(
                    f"mix: the classes of field {field.name!r} are {_names(classes)} in {other!r}, "
                    f"{_names(field.classes)} in {name!r}, so one number means two things: pack "
                    "the second with --classes-of the first, or do not read the field"
                )


def _agree(one: Output | None, other: Output | None) -> bool:
    """Return whether outputs are the same; the greatest sides of padded ones may differ."""
    if one is None or other is None or not (one.is_told and other.is_told):
        return one == other
    if len(one.shape) != len(other.shape) or one.varies != other.varies:
        return False
    return one == msgspec.structs.replace(other, shape=one.shape) and all(
        side == same
        for place, (side, same) in enumerate(zip(one.shape, other.shape, strict=True))
        if place not in one.varies
    )


def _described(output: Output | None) -> str:
    if output is None:
        return "missing"
    form = "" if output.form == "stack" else f", form {output.form}"
    return f"{output.kind} {output.dtype} {tuple(output.shape)}{form}"


def _names(classes: tuple[str, ...] | None) -> str:
    if classes is None:
        return "without names"
    more = f" and {len(classes) - SHOWN} more" if len(classes) > SHOWN else ""
    return ", ".join(map(repr, classes[:SHOWN])) + more
