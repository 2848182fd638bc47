"""A pipeline over a dataset, opened to be looked at: for `stoker replay`, `preview`, `explain`.

Nothing is compiled and no daemon is asked: rows come from the interpreter, whose bytes are those of
a batch. Runs in the process of a command, where the caller's own modules may be imported, and in
the one-off child that replays for a client, where only graph data is used.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from stoker.dataset import Dataset, open_dataset
from stoker.dataset.reading.clip_dataset import ClipDataset
from stoker.ops.bases.batch_op import GROUP
from stoker.order.compose import order_of
from stoker.order.selected import Selected
from stoker.order.stream_order import StreamOrder
from stoker.pipeline import Pipeline
from stoker.pipeline.engine.interface import Freeze
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.replay_row import replay, with_mixes
from stoker.pipeline.planning.bucket_graph import Size
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.planning.scaled_fields import stored_field
from stoker.protocol.errors import BuildError, StokerError, UsageError
from stoker.protocol.importing import add_folders, hint
from stoker.protocol.replayed_row import Replay
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row
from stoker.server.rows.chosen import order_spec
from stoker.server.rows.clip_samples import samples_of
from stoker.server.rows.counts import RowCounts
from stoker.server.rows.field_states import field_states
from stoker.server.rows.first_floats import check_first_floats
from stoker.server.rows.joined_pipelines import own_freeze
from stoker.server.rows.mixed_rows import MixedRows
from stoker.server.rows.sample_reader import SampleReader
from stoker.server.rows.sample_rows import RowSource, SampleRows


class Subject:
    """A pipeline bound to an open dataset.

    Attributes:
        dataset: the dataset; closed by its opener.
        plan: the pipeline, bound to its fields.
        bucket: size of the samples' bucket; None without buckets.
        chosen: the samples that streams over it visit, and how often.
        first_id: the stream's id of the dataset's sample 0.
        clips: the dataset, if the pipeline samples frames of its clips.
    """

    def __init__(
        self,
        dataset: Dataset,
        graph: Graph,
        bucket: Size | None = None,
        chosen: Selected | None = None,
        first_id: int = 0,
    ) -> None:
        """Bind the pipeline, for the samples of a bucket if there are buckets.

        Args:
            dataset: an open dataset.
            graph: of the pipeline.
            bucket: size of the samples' bucket.
            chosen: the samples that streams over it visit, and how often; None: each once.
            first_id: the stream's id of the dataset's sample 0; not 0 in mixtures.

        Raises:
            BuildError: the pipeline does not fit the dataset.
            UsageError: the exclude list is of another dataset.
        """
        self.clips = dataset if isinstance(dataset, ClipDataset) else None
        self.chosen = chosen or Selected(len(dataset))
        self.chosen.excluded.check(len(dataset))
        self.dataset = dataset
        self.first_id = first_id
        self.bucket = bucket
        self.plan = bind(graph, field_states(dataset), bucket=bucket)
        check_first_floats(graph, dataset, self.plan, bucket)
        stored = dataset if self.clips is None else self.clips.frames
        self._reader = SampleReader(stored, self.plan.fields)

    def replay(
        self,
        row: Row,
        freeze: Freeze | None = None,
        spec: StreamSpec | None = None,
        order: StreamOrder | None = None,
        crashed: Collection[int] = (),
        datasets: Sequence[tuple[Dataset, Graph]] | None = None,
    ) -> Replay:
        """Compute a row and return all that happened to it; of a clip, to its first frame.

        Args:
            row: which row.
            freeze: stream name -> the integer that replaces (id, epoch, visit, view), or "epoch".
            spec: the stream that it is of, where batch ops mix it with others; see `stream`.
            order: of that stream; None for that of `stream`.
            crashed: samples that are not touched, but replaced, where it is mixed.
            datasets: those of the stream with their pipelines, where it is mixed; None: this one.

        Raises:
            SampleError: the sample cannot be read, or does not fit.
            UnknownNameError: a freeze names no stream of the pipeline.
            UsageError: the dataset has no such id, or the stream no such row.
        """
        self._check_id(row.id - self.first_id)
        if not self.plan.mixes:
            return self._replay_alone(row, freeze)
        spec = spec or self.stream(row.seed, freeze=dict(freeze or {}))
        order = order or order_of(spec, [self.chosen])
        row, place, number = _in_batch(row, spec, order)
        found = self._replay_alone(row, freeze)
        plans = [
            (dataset, bind(graph, field_states(dataset), bucket=self.bucket))
            for dataset, graph in datasets or [(self.dataset, self.plan.graph)]
        ]
        sources = [
            RowSource(dataset, Interpreter(plan, own_freeze(spec.freeze, plan)))
            for dataset, plan in plans
        ]
        samples = SampleRows(spec, sources, order)
        samples.crashed = crashed
        mixed = MixedRows(samples, order)
        outputs = [np.zeros(output.shape, output.dtype) for output in self.plan.delivered]
        mixed.enter(*place, row.progress)
        shown = mixed.write(number, outputs, RowCounts())
        if shown is None or (shown.id, shown.visit) != (row.id, row.visit):
            raise UsageError(
                f"replay: sample {row.id}, visit {row.visit} of epoch {row.epoch} is not a row of "
                f"the stream: its place shows {'none' if shown is None else f'sample {shown.id}'}"
            )
        rows, records = mixed.history(number)
        own = samples.mixing.of_pipeline(order.dataset_of(row.id), records)
        return with_mixes(found, self.plan, [*rows, outputs], own)

    def stream(
        self,
        seed: int,
        batch_size: int = GROUP,
        *,
        shuffle: bool = True,
        shuffle_block_size: int | None = None,
        shuffle_seed: int | None = None,
        **fields: Any,
    ) -> StreamSpec:
        """Return the StreamSpec of a stream over the dataset; `fields` are those of StreamSpec.

        Rows are mixed in groups of 8, so all batch sizes that divide by 8 give the same.
        """
        return StreamSpec(
            dataset=self.dataset.fingerprint,
            dataset_rows=len(self.dataset),
            pipeline=self.plan.pipeline_id,
            batch_size=batch_size,
            seed=seed,
            order=order_spec(
                self.chosen, shuffle=shuffle, block=shuffle_block_size, seed=shuffle_seed
            ),
            **{"tail": "pad", "exclude": self.chosen.excluded.digest, **fields},
        )

    def _replay_alone(self, row: Row, freeze: Freeze | None) -> Replay:
        """Replay a row before batch ops."""
        self._reader.read_boxes(self.plan, freeze)
        inputs = self._reader.read(self._stored_id(row, freeze), row)
        return replay(self.plan, row, inputs, freeze, self._reader.damage)

    def _stored_id(self, row: Row, freeze: Freeze | None) -> int:
        """Return the stored sample of a row; of a clip, its first sampled frame."""
        number = row.id - self.first_id
        if self.clips is None or self.plan.clip is None:
            return number
        clip, frames = self.plan.clip, self.clips.rows(number)
        frozen = None if clip.stream is None else (freeze or {}).get(clip.stream)
        return frames[clip.numbers(len(frames), row, frozen)[0]]

    def decisions(self, row: Row, freeze: Freeze | None = None) -> list[dict[str, Any]]:
        """Return what a row decides, without decoding a picture; see `plain.decisions`.

        Raises:
            UnknownNameError: a freeze names no stream of the pipeline.
            UsageError: the dataset has no such id, or a condition reads pixels.
        """
        number = row.id - self.first_id
        self._check_id(number)
        kinds = {field.name: field for field in self.dataset.schema.fields}
        pictures = [f for f in self.plan.fields if kinds[stored_field(f)].is_picture]
        sizes = {name: self.dataset.size(stored_field(name), number) for name in pictures}
        scalars: dict[str, Any] = {
            name: self.dataset.read(name, number)
            for name, state in zip(self.plan.fields, self.plan.inputs, strict=True)
            if not state.shape
        }
        items = {
            name: np.asarray(self.dataset.read(name, number))
            for name, state in zip(self.plan.fields, self.plan.inputs, strict=True)
            if state.items
        }
        return decide(self.plan, row, sizes, scalars, freeze, items)

    def _check_id(self, number: int) -> None:
        if not 0 <= number < len(self.dataset):
            first, rows = self.first_id, len(self.dataset)
            raise UsageError(
                f"id {first + number}: the dataset has {rows} samples, ids {first} to "
                f"{first + rows - 1}"
            )


def _in_batch(row: Row, spec: StreamSpec, order: StreamOrder) -> tuple[Row, tuple[int, int], int]:
    """Return a row with its step, (epoch, step) of its batch, and its number there.

    Raises:
        UsageError: there is no such row, or no batch has it.
    """
    _, position, place = order.find(row.epoch, row.id, row.visit)
    if place is None:
        raise UsageError(f"replay: sample {row.id} of epoch {row.epoch} is in no batch")
    whole = order.rows(*place, 0, order.positions(*place) * spec.views)
    dataset = order.dataset_of(row.id)
    same = (whole.ids >= order.firsts[dataset]) & (whole.ids < order.firsts[dataset + 1])
    same &= (whole.positions == position) & (whole.epochs == row.epoch)
    number = int(np.argmax(same & (whole.views == row.view)))
    if row.step is None:
        row = row._replace(step=place[1], progress=order.progress(*place))
    return row, place, number


@contextmanager
def open_subject(
    pipeline: str, dataset: str | Path, python_path: Sequence[str] = (), bucket: str | None = None
) -> Iterator[Subject]:
    """Open `module:attribute` over a packed dataset.

    Args:
        pipeline: what to import; see `imported_from`.
        dataset: folder of the dataset.
        python_path: further folders to import from.
        bucket: WIDTHxHEIGHT of the samples' bucket, or a length, for pipelines that read it.

    Raises:
        BuildError: the pipeline cannot be imported, or does not fit the dataset.
        DatasetError: the dataset cannot be opened.
        UsageError: the bucket is not a size.
    """
    size = None if bucket is None else named_size(bucket)
    check_name(pipeline)
    with imported_from(python_path), open_dataset(dataset) as opened:
        graph = load_pipeline(pipeline)
        yield Subject(samples_of(opened, graph), graph, size)


@contextmanager
def imported_from(folders: Sequence[str]) -> Iterator[None]:
    """Import modules from further folders, after Python's own and installed modules.

    The working folder comes last.
    """
    before = list(sys.path)
    add_folders([*folders, str(Path.cwd())])
    try:
        yield
    finally:
        sys.path[:] = before


def named_size(text: str) -> Size:
    """Read WIDTHxHEIGHT, or a length.

    Raises:
        UsageError: it is neither.
    """
    sides = text.split("x")
    if len(sides) > 2 or not all(side.isdecimal() and int(side) for side in sides):
        raise UsageError(
            f"--bucket {text!r}: expected WIDTHxHEIGHT in pixels, such as 1152x896, or a length"
        )
    return Size(int(sides[1]) if len(sides) > 1 else 0, int(sides[0]))


def check_name(pipeline: str) -> tuple[str, str]:
    """Return module and attribute of `module:attribute`; imports nothing.

    Raises:
        BuildError: it has another form.
    """
    module_name, _, attribute = pipeline.partition(":")
    if not module_name or not attribute:
        raise BuildError(f"pipeline {pipeline!r}: expected `module:attribute`")
    return module_name, attribute


def load_pipeline(name: str) -> Graph:
    """Import `module:attribute` and return the graph of the pipeline that it names.

    Raises:
        BuildError: there is no such pipeline, importing it failed, or it cannot be traced.
    """
    module_name, attribute = check_name(name)
    try:
        module = importlib.import_module(module_name)
    except StokerError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise BuildError(
            f"pipeline {name!r}: importing {module_name!r} failed with {type(error).__name__}: "
            f"{error} ({where.filename}:{where.lineno}). Is its folder in [daemon] python_path?"
            f"{hint(module_name)}"
        ) from error
    pipeline = getattr(module, attribute, None)
    if not isinstance(pipeline, Pipeline):
        raise BuildError(
            f"pipeline {name!r}: {module_name!r} has no pipeline {attribute!r}; expected a "
            f"function decorated with @pipeline{hint(module_name)}"
        )
    return pipeline.graph()
