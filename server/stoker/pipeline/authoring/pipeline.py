"""Writing pipelines: `@pipeline` on a function or a class, and running one in process.

    @pipeline
    def train(sample):
        image, mask = ops.horizontal_flip(sample.image, sample.mask)
        return {"image": image, "mask": mask}

The function is traced once, when its graph is first needed: it runs with placeholders for the
values of a sample. So helper functions and loops over Python values work as usual; `if` on a
value of the sample is rewritten first (`tracing.branches`). The result is data, not code.
numba is imported only for `compiled=True`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.jit.named import allow_modules
from stoker.ops.contract.states import State
from stoker.pipeline.authoring.definition import (
    Define,
    required_arguments,
    run_definition,
    site_of,
    trace,
)
from stoker.pipeline.authoring.in_process_batches import (
    Held,
    Samples,
    chosen_ids,
    read_ids,
    states_of,
)
from stoker.pipeline.authoring.sample_frames import chosen_frames, is_frames, split_frames, stacked
from stoker.pipeline.authoring.sample_states import (
    form_of,
    outputs_of,
    states_by_name,
    with_classes,
)
from stoker.pipeline.engine.interface import Engine, Freeze, given_row
from stoker.pipeline.engine.mixer import Mixer
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.graph.travel import code_modules
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.bucket_graph import given_size
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.showing.explain_plan import graph_text
from stoker.pipeline.showing.graph_svg import graph_svg
from stoker.pipeline.tracing.rewrite import remember, rewritten
from stoker.pipeline.tracing.value_refusals import fault
from stoker.pipeline.tracing.values import TracedSample
from stoker.protocol.errors import BuildError, UsageError
from stoker.protocol.pictures import folded, heading, verbatim
from stoker.rng.row import Row

MAX_ENGINES: Final = 32
F = TypeVar("F", bound=Callable[..., Any])

Classes = Mapping[str, Sequence[str]]


class Pipeline:
    """A pipeline: a function of a sample that returns named outputs."""

    def __init__(self, define: Define, name: str) -> None:
        self._define = define
        self._name = name
        self._graph: Graph | None = None
        self._engines: dict[Any, Engine] = {}

    @property
    def name(self) -> str:
        """The function's or class's name."""
        return self._name

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise UsageError(
                f"pipeline {self._name!r}: setting {name!r} would change nothing: a pipeline is "
                "traced once. Make another one with other parameters, for example from a class "
                "with an __init__"
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        site = site_of(self._define)
        return f"<pipeline {self._name!r} from {site}>"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: a picture of its graph and the text, or an error."""
        try:
            graph = self.graph()
        except Exception as error:  # the user's function runs; a notebook shows what it raised
            return heading(repr(self)) + verbatim(f"{type(error).__name__}: {error}")
        return heading(repr(self)) + graph_svg(graph) + folded("as text", graph_text(graph))

    @classmethod
    def from_function(cls, define: Define, name: str | None = None) -> Pipeline:
        """Make a pipeline of a function of a sample.

        Raises:
            BuildError: it is not a function of one argument.
        """
        if not callable(define):
            raise BuildError(
                f"@pipeline: expected a function of a sample, got {type(define).__name__}"
            )
        names = required_arguments(define)
        if len(names) != 1 and names[1:] != ["ctx"]:
            raise BuildError(
                f"{site_of(define)}: @pipeline: expected a function of one argument, the sample, "
                f"or of (sample, ctx), got one of {len(names)}; parameters belong to a class with "
                f"define(self, sample), or to functools.partial"
            )
        return cls(define, name or str(getattr(define, "__name__", type(define).__name__)))

    def graph(self) -> Graph:
        """Trace the function once, and return the normal form of its graph.

        Raises:
            BuildError: the function does something that a graph cannot describe; names file and
                line.
        """
        if self._graph is None:
            self._graph = trace(self._define, self.name)
        return self._graph

    @property
    def pipeline_id(self) -> str:
        """Identity of the pipeline, 32 hex digits; see `stoker.pipeline.pipeline_id`."""
        return pipeline_id(self.graph())

    def __call__(  # noqa: PLR0913 - the parts of a row
        self,
        fields: Any,
        *,
        seed: int = 0,
        epoch: int = 0,
        id: int = 0,  # noqa: A002 - the glossary's word
        visit: int = 0,
        view: int = 0,
        step: int | None = None,
        progress: float | None = None,
        bucket: tuple[int, int] | int | None = None,
        freeze: Freeze | None = None,
        compiled: bool = False,
        kinds: Mapping[str, str] | None = None,
        classes: Classes | None = None,
    ) -> Any:
        """Run one sample in process; called with the sample of another pipeline, join that one.

        Args:
            fields: field name -> image (H, W, C) uint8, mask (H, W) uint8, boxes and keypoints as
                dicts of arrays (`authoring.sample_states`), scalar or other array; or a list of
                frames, arrays of one shape that share one decision.
            seed: seed of the stream.
            epoch: epoch, from 0.
            id: sample id.
            visit: how often the id came before in this epoch.
            view: view of the position.
            step: step in the epoch, for pipelines that read it.
            progress: how much of the training is over, in [0, 1], for pipelines that read it.
            bucket: (width, height) of the sample's bucket, or its length, for pipelines that
                read it.
            freeze: stream name -> integer or "epoch".
            compiled: run machine code instead of the interpreter; the bytes are the same.
            kinds: field name -> kind, as in `{"target": "mask"}`, for arrays whose kind does not
                follow from name, dtype and shape.
            classes: label -> names of its numbers, as in `{"label": ["cat", "dog"]}`, for
                conditions such as `sample.label == "cat"`.

        Returns:
            Output name -> new array, or dict of arrays for boxes and keypoints; with frames,
            name -> list of these, one per frame.

        Raises:
            BuildError: the pipeline does not fit these fields.
            SampleError: their sizes do not match each other.
            UsageError: the fields are not a dict, the kind of one is not clear, frames do not match
                each other, or a number of the row is invalid or out of range.
        """
        if isinstance(fields, TracedSample):
            return run_definition(self._define, fields)
        if not isinstance(fields, Mapping):
            raise UsageError(f"{self.name}: expected a dict of fields, got {type(fields).__name__}")
        row = given_row(Row(seed, id, epoch, visit, view, step, progress))
        if self.graph().clip is None and not any(is_frames(one) for one in fields.values()):
            return outputs_of(
                self._alone(fields, freeze or {}, bucket, compiled, kinds, classes), row, fields
            )
        frames = split_frames(self.name, fields)
        engine = self._alone(frames[0], freeze or {}, bucket, compiled, kinds, classes)
        clip = engine.plan.clip
        if clip is not None:
            chosen = chosen_frames(self.name, clip, frames, fields, row, freeze or {})
            return stacked([outputs_of(engine, row, frame) for frame in chosen])
        made = [outputs_of(engine, row, frame) for frame in frames]
        return {name: [outputs[name] for outputs in made] for name in made[0]}

    def batch(  # noqa: PLR0913 - the parts of a batch
        self,
        samples: Samples,
        ids: Sequence[int] | None = None,
        *,
        seed: int = 0,
        epoch: int = 0,
        view: int = 0,
        step: int | None = None,
        progress: float | None = None,
        bucket: tuple[int, int] | int | None = None,
        freeze: Freeze | None = None,
        compiled: bool = False,
        kinds: Mapping[str, str] | None = None,
        classes: Classes | None = None,
    ) -> list[dict[str, Any]]:
        """Run one batch in process, with or without batch ops; see `authoring.in_process_batches`.

        Args:
            samples: id -> dict of fields, as for a call: a list, or a dict. Mosaics draw
                from all samples, so then all are read, and their ids must be 0, 1, 2, ...
            ids: of the batch's rows, in order; by default all samples. Groups are eight
                neighboring rows.
            seed: seed of the stream.
            epoch: epoch, from 0.
            view: view of the positions.
            step: step in the epoch, for pipelines that read it.
            progress: how much of the training is over, in [0, 1], for pipelines that read it.
            bucket: (width, height) of the batch's bucket, or its length, for pipelines that
                read it.
            freeze: stream name -> integer or "epoch".
            compiled: run machine code instead of the interpreter; the bytes are the same.
            kinds: field name -> kind, as in `{"target": "mask"}`, for arrays whose kind does not
                follow from name, dtype and shape.
            classes: label -> names of its numbers, as in `{"label": ["cat", "dog"]}`, for
                conditions such as `sample.label == "cat"`.

        Returns:
            The outputs of each row, as a call returns them.

        Raises:
            BuildError: the pipeline does not fit these fields.
            SampleError: their sizes do not match each other.
            UsageError: there is no row, or no sample of an id; samples differ in their fields; a
                number of the rows is invalid or out of range.
        """
        chosen = chosen_ids(samples, ids)
        read = read_ids(self.graph(), samples, chosen)
        states = with_classes(states_of((samples[number] for number in read), kinds), classes)
        forms = (tuple(states.items()), repr(classes))
        engine = self._engine(forms, lambda: states, freeze or {}, bucket, compiled)
        row = given_row(Row(seed, 0, epoch, 0, view, step, progress))
        held = Held(engine, samples, chosen, row)
        return list(held.mixed(Mixer(engine, arithmetic=COMPILED if compiled else PLAIN)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as graph data, for example for a worker of a torch DataLoader; never as code."""
        graph = self.graph()
        return _from_graph, (graph.to_data(), self.name, code_modules(graph))

    def plan_for(
        self,
        fields: Mapping[str, Any],
        bucket: tuple[int, int] | int | None = None,
        kinds: Mapping[str, str] | None = None,
    ) -> Plan:
        """Bind the pipeline to the fields of one sample; kinds follow from names and shapes.

        See `stoker.pipeline.authoring.sample_states.state_of`.

        Args:
            fields: as for a call.
            bucket: (width, height) of the sample's bucket, or its length, for pipelines that
                read it.
            kinds: as for a call.

        Raises:
            BuildError: the pipeline does not fit these fields.
        """
        return bind(self.graph(), states_by_name(fields, kinds), bucket=given_size(bucket))

    def _alone(
        self,
        fields: Mapping[str, Any],
        freeze: Freeze,
        bucket: tuple[int, int] | int | None,
        compiled: bool,
        kinds: Mapping[str, str] | None,
        classes: Classes | None,
    ) -> Engine:
        """Return the engine of pipelines that compute each row by itself.

        Raises:
            UsageError: the pipeline mixes rows; names the batch op and the remedy.
        """
        forms = (
            tuple((name, form_of(value)) for name, value in fields.items()),
            tuple((kinds or {}).items()),
            repr(classes),
        )
        engine = self._engine(
            forms,
            lambda: with_classes(states_by_name(fields, kinds), classes),
            freeze,
            bucket,
            compiled,
        )
        if engine.plan.mixes:
            decision = engine.plan.mixes[0].decision
            raise UsageError(
                f"{self.name}: {decision.op.name} (at {decision.site}) mixes a row with others, "
                f"which one sample does not have: run a batch, {self.name}.batch([sample, ...], "
                "ids=[...])"
            )
        return engine

    def _engine(
        self,
        forms: Hashable,
        states: Callable[[], Mapping[str, State]],
        freeze: Freeze,
        bucket: tuple[int, int] | int | None,
        compiled: bool,
    ) -> Engine:
        """Return the engine for fields with these forms; `states` makes their states."""
        size = given_size(bucket)
        key = (forms, tuple(sorted(freeze.items())), size, compiled)
        if key not in self._engines:
            if len(self._engines) >= MAX_ENGINES:  # photos of many sizes: forget the oldest
                self._engines.pop(next(iter(self._engines)))
            plan = bind(self.graph(), states(), bucket=size)
            if compiled:
                from stoker.pipeline.compiled.executor import compile_plan  # noqa: PLC0415 - loads numba

                self._engines[key] = compile_plan(plan, freeze)
            else:
                self._engines[key] = Interpreter(plan, freeze)
        return self._engines[key]


def pipeline(define: Any) -> Any:
    """Turn a function of a sample, or a class with `define(self, sample)`, into a pipeline.

    A decorated class is called with the arguments of its `__init__` and gives a `Pipeline`.

    Raises:
        BuildError: it is neither.
    """
    if not inspect.isclass(define):
        remember(define)
        return Pipeline.from_function(define)
    method = getattr(define, "define", None)
    if not callable(method):
        raise BuildError(f"@pipeline: class {define.__name__} has no method define(self, sample)")
    remember(method)

    @functools.wraps(define, updated=())
    def make(*args: Any, **kwargs: Any) -> Pipeline:
        instance: Any = define(*args, **kwargs)
        return Pipeline.from_function(instance.define, define.__name__)

    return make


def branching(helper: F) -> F:
    """Let a helper function branch on values of a sample; for functions that a pipeline calls.

    The function of a pipeline itself needs no mark.
    """
    return cast(F, rewritten(helper))


def _from_graph(data: dict[str, Any], name: str, modules: tuple[str, ...]) -> Pipeline:
    allow_modules(*modules)

    def define(sample: TracedSample) -> Mapping[str, Any]:
        raise fault(f"{name}: this pipeline came as data, so it cannot join another pipeline")

    made = Pipeline(define, name)
    made._graph = Graph.from_data(data)
    return made
