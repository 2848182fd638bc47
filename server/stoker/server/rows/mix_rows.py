"""Rows of a mixture: each sample by the engine of its dataset, in one batch.

The ids of all datasets follow each other, so an id says which dataset it belongs to. Belongs to one
thread, as `RowComputer`.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np

from stoker.dataset import Dataset
from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.mix import MixOrder, Part
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.errors import BuildError
from stoker.protocol.layout import Output, SlotLayout
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row
from stoker.server.rows.counts import RowCounts
from stoker.server.rows.listener import RowListener
from stoker.server.rows.rows import RowComputer
from stoker.server.rows.samples import SampleRows
from stoker.server.rows.schedules import try_schedules
from stoker.server.rows.scratch import Scratch
from stoker.server.rows.shared import SharedSamples
from stoker.server.work.records import MixPart

SHOWN = 3


class MixSamples:
    """Computes samples of a mixture, each as one of its dataset; see `SampleRows`."""

    def __init__(self, order: MixOrder, parts: Sequence[SampleRows]) -> None:
        """Join the datasets' samples, in the order of the mixture."""
        self._order = order
        self._parts = parts

    @property
    def crashed(self) -> Collection[int]:
        """Samples that are not touched, but replaced, under any policy."""
        return self._parts[0].crashed

    @crashed.setter
    def crashed(self, ids: Collection[int]) -> None:
        for part in self._parts:
            part.crashed = ids

    def write(
        self, row: Row, position: int, outputs: Sequence[np.ndarray], counts: RowCounts
    ) -> Row | None:
        """Write one row; see `SampleRows.write`."""
        return self._parts[self._order.dataset_of(row.id)].write(row, position, outputs, counts)


def mix_computer(  # noqa: PLR0913 - the parts of a stream
    spec: StreamSpec,
    order: MixOrder,
    datasets: Sequence[Dataset],
    engines: Sequence[Engine],
    layout: SlotLayout,
    first_row: int = 0,
    *,
    arithmetic: Arithmetic = PLAIN,
    listener: RowListener | None = None,
    verify: bool = False,
    shared: SharedSamples | None = None,
) -> RowComputer:
    """Return what computes rows of a mixture; arguments as for `RowComputer`."""
    scratch = Scratch()
    parts = [
        SampleRows(
            own_freeze(spec, engine.plan.streams), dataset, engine, order, arithmetic=arithmetic,
            scratch=scratch, listener=listener, first_id=first, shared=shared,
        )
        for dataset, engine, first in zip(datasets, engines, order.firsts[:-1], strict=True)
    ]  # fmt: skip
    for engine in engines:
        try_schedules(engine.plan, spec, order)
    return RowComputer(
        spec, datasets[0], engines[0], layout, first_row, arithmetic=arithmetic, order=order,
        listener=listener, verify=verify, scratch=scratch, samples=MixSamples(order, parts),
    )  # fmt: skip


def order_parts(parts: Sequence[MixPart]) -> list[Part]:
    """Return the parts of a mixture as its order knows them."""
    return [Part(part.fingerprint, part.rows, part.pipeline_id, part.share) for part in parts]


def own_freeze(spec: StreamSpec, streams: Collection[str]) -> StreamSpec:
    """Return the spec with only the freezes of streams that a pipeline draws from."""
    kept = {name: value for name, value in spec.freeze.items() if name in streams}
    return spec if kept == spec.freeze else msgspec.structs.replace(spec, freeze=kept)


def check_agreement(plans: Mapping[str, Plan]) -> tuple[Output, ...]:
    """Return the outputs of a mixture's pipelines, by name of the dataset, which must be the same.

    Raises:
        BuildError: they differ, or cannot be mixed; the message names the output.
    """
    first, *others = plans
    for name, plan in plans.items():
        if plan.mixes:
            raise BuildError(
                f"mix: the pipeline of {name!r} has a batch op, and rows of different datasets "
                "cannot be mixed with each other yet; leave the op out"
            )
        for output in plan.delivered:
            if output.is_told:
                raise BuildError(
                    f"mix: output {output.name!r} of {name!r} is padded to the longest row of each "
                    "batch, which mixtures cannot do yet; use outputs.ragged or outputs.as_list, "
                    "or resize it to a fixed size"
                )
    expected = {output.name: output for output in plans[first].delivered}
    for name in others:
        found = {output.name: output for output in plans[name].delivered}
        for key in [*expected, *found]:
            if expected.get(key) != found.get(key):
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
    return plans[first].delivered


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
