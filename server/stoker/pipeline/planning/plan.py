"""The plan: a graph bound to the fields of a dataset, all memory known before the first sample.

`bind` walks the normal form once. It declares states through the graph, refuses pipelines that
cannot run (naming the user's line, op, states and remedy), turns nodes into steps, and lays the
values out: each is in its input, in the scratch arena, or in the row of the slot where it ends up.
Sizes that differ from sample to sample are bounded by their states; a status reports a sample that
does not fit.

A plan contains no pixels and no compiled code, so the daemon may make one. Sizes are in bytes and
pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from stoker.ops.contract.states import State
from stoker.pipeline.graph.frame_sampling import FrameSampling
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.sites import Site
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.mixes import Mix
from stoker.pipeline.planning.steps import Step
from stoker.protocol.slot_layout import Output


@dataclass(frozen=True)
class Check:
    """The meaning of a status other than 0.

    Attributes:
        kind: "input", "same_size", "relative" (the same, if relative=True is possible there),
            "ratio", "out_size", "items", "padded", "element", "same_shape", "fits", "number",
            "integer" or "absent".
        what: text about the values, for the message.
        field: the dataset field, if the fault is in one field.
        site: where the user wrote the op.
    """

    kind: str
    what: str
    field: str | None
    site: Site


@dataclass(frozen=True)
class Location:
    """The place at which a value is stored.

    Attributes:
        kind: "input" (column `index`), "output" (row of output `index`), "arena" (from byte
            `index`), "register" (a scalar), or "join" (the value's place in the block that ran).
        index: see kind.
    """

    kind: str
    index: int = 0


@dataclass(frozen=True)
class Plan:
    """Everything that an engine needs to know about a pipeline over a dataset.

    Attributes:
        pipeline_id: the identity of the graph as it was written; independent of the dataset.
        graph: the normal form for the bucket, or a shorter one; see `planning.planner.shorten`.
        given: field name -> state, of all fields of the dataset.
        fields: dataset fields that are read, in the order in which an engine takes them.
        inputs: their states.
        outputs: the values that an engine computes for a row; a ragged one is followed by its
            count.
        stores: for each output the value that is stored there.
        streams: names of the streams that the ops draw from; these can be frozen.
        decisions: the draws, by index.
        steps: the steps for a row, in order.
        states: value number -> state.
        places: value number -> place in memory.
        scratch: destination of an apply -> offset of its kernel's scratch in the arena.
        arena_bytes: size of the scratch arena, the only pixel memory besides inputs and outputs.
        checks: status - 1 -> its meaning.
        mixes: what batch ops do to the outputs of whole rows, in order.
        clip: which frames of a clip a row has; the plan computes one frame. None: it computes rows.
    """

    pipeline_id: str
    graph: Graph
    given: Mapping[str, State]
    fields: tuple[str, ...]
    inputs: tuple[State, ...]
    outputs: tuple[Output, ...]
    stores: tuple[int, ...]
    streams: tuple[str, ...]
    decisions: tuple[Decision, ...]
    steps: tuple[Step, ...]
    states: Mapping[int, State]
    places: Mapping[int, Location]
    scratch: Mapping[int, int]
    arena_bytes: int
    checks: tuple[Check, ...]
    mixes: tuple[Mix, ...]
    clip: FrameSampling | None = None

    @property
    def delivered(self) -> tuple[Output, ...]:
        """The outputs of a row of a batch: `outputs` after all mixes, or of all its frames."""
        if self.clip is not None:
            frames = self.clip.frames
            return tuple(
                replace(one, kind="array", shape=(frames, *one.shape)) for one in self.outputs
            )
        return self.mixes[-1].outputs if self.mixes else self.outputs
