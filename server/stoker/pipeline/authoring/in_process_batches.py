"""A batch in process: every row, and with batch ops the rows it is mixed with.

Computes samples that the caller holds as a daemon computes a packed dataset: sample i is the
dataset's id i, and the given ids are the rows of one batch, in order. Each row has visit
0. The bytes are those of a daemon whose batch has these rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stoker.ops.bases.batch_op import GROUP, BatchOp
from stoker.ops.contract.registry import lookup
from stoker.ops.contract.row_numbers import row_number
from stoker.ops.contract.states import OTHER, State
from stoker.pipeline.authoring.sample_states import inputs_of, room_for, states_by_name, unpacked
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.engine.mixer import Mixer
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import draws_of
from stoker.protocol.errors import UsageError
from stoker.rng.row import Row

Fields = Mapping[str, Any]
Samples = Sequence[Fields] | Mapping[int, Fields]


def states_of(
    samples: Iterable[Fields], kinds: Mapping[str, str] | None = None
) -> dict[str, State]:
    """Return the states of fields that fit every sample.

    Raises:
        UsageError: samples differ in their fields, or a field differs in dtype, kind or number of
            sides.
    """
    found: dict[str, State] = {}
    for place, sample in enumerate(samples):
        states = states_by_name(sample, kinds)
        if place and states.keys() != found.keys():
            raise UsageError(
                f"batch: expected the fields {', '.join(found)} in every sample, got "
                f"{', '.join(states)} in one"
            )
        found = {
            name: _joined(name, found.get(name, state), state) for name, state in states.items()
        }
    return found


def _joined(name: str, one: State, other: State) -> State:
    alike = (one.kind, one.dtype, len(one.shape), one.items)
    if alike != (other.kind, other.dtype, len(other.shape), other.items):
        raise UsageError(f"batch: field {name!r} is {one} in one sample and {other} in another")
    shape = tuple(a if a == b else None for a, b in zip(one.shape, other.shape, strict=True))
    bound = tuple(max(a, b) for a, b in zip(one.bound, other.bound, strict=True))
    scale = OTHER if OTHER in (one.scale, other.scale) else one.scale
    span = other.span if other.scale == OTHER else one.span
    return dataclasses.replace(one, shape=shape, bound=bound, scale=scale, span=span)


class Held:
    """Rows of a batch whose samples a caller holds; the `Members` of a mixer.

    Attributes:
        rows: the number of samples to draw from.
    """

    def __init__(self, engine: Engine, samples: Samples, ids: Sequence[int], row: Row) -> None:
        """Prepare.

        Args:
            engine: computes rows before batch ops.
            samples: id -> fields.
            ids: sample ids of the rows of the batch.
            row: the part that all rows share.
        """
        self.rows = len(samples)
        self._engine = engine
        self._samples = samples
        self._ids = ids
        self._row = row
        self._first = 0

    def mixed(self, mixer: Mixer) -> Iterator[dict[str, Any]]:
        """Yield the outputs of each row, as the caller receives them."""
        plan = self._engine.plan
        for number in range(len(self._ids)):
            if number % GROUP == 0:
                self._first = number
                mixer.begin(self, min(GROUP, len(self._ids) - number))
            made = room_for(plan.delivered)
            if plan.mixes:
                mixer.write(number - self._first, list(made.values()))
            else:
                self._run(self._ids[number], list(made.values()))
            yield unpacked(plan.delivered, made)

    def member(self, number: int, outputs: Sequence[np.ndarray]) -> Row | None:
        """Write a row of the group as it is before batch ops; see `Members`."""
        return self._run(self._ids[self._first + number], outputs)

    def tile(self, sample: int, of: int, outputs: Sequence[np.ndarray]) -> int | None:
        """Write a sample for a mosaic; see `Members`."""
        return self._run(sample, outputs).id

    def _run(self, number: int, outputs: Sequence[np.ndarray]) -> Row:
        row = self._row._replace(id=number)
        self._engine.run(row, inputs_of(self._engine.plan, self._samples[number]), outputs)
        return row


def chosen_ids(samples: Samples, ids: Sequence[int] | None) -> list[int]:
    """Return the ids of the rows of a batch; all samples if none are given.

    Raises:
        UsageError: there are no rows, or an id without a sample.
    """
    known = list(samples if isinstance(samples, Mapping) else range(len(samples)))
    chosen = known if ids is None else [row_number("id", number) for number in ids]
    missing = sorted(set(chosen).difference(known))
    if missing or not chosen:
        said = f"id {missing[0]}" if missing else "no row"
        raise UsageError(f"batch: expected ids of the {len(known)} samples given, got {said}")
    return chosen


def read_ids(graph: Graph, samples: Samples, chosen: Sequence[int]) -> Sequence[int]:
    """Return the ids that rows of a batch may show: all ids if a mosaic draws from them.

    Raises:
        UsageError: a mosaic draws from samples whose ids are not 0, 1, 2, ...
    """
    drawn = (lookup(draw.op, draw.version) for draw in draws_of(graph.nodes))
    if not any(issubclass(op, BatchOp) and op.of_dataset for op in drawn):
        return chosen
    whole = range(len(samples))
    if isinstance(samples, Mapping) and set(samples) != set(whole):
        raise UsageError(
            f"batch: a mosaic draws from all samples, so expected the ids 0 to {len(samples) - 1}; "
            "give a list"
        )
    return whole
