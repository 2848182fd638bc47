"""A stream that a command shows: its datasets are open, and any row can be computed.

Nothing is compiled and no daemon is asked: rows come from the interpreter, whose bytes are those of
a batch. The StreamSpec is composed as in a daemon, so it is that of a Loader with these options.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property

from stoker.dataset import Dataset, open_dataset
from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.buckets.bucket_plan import BucketPlan
from stoker.order.compose import order_of
from stoker.order.mix import Part, joined_digests, mix_digest, shares
from stoker.order.selected import exclude_of, weights_of
from stoker.order.stream_order import StreamOrder
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.planning.bucket_graph import Size
from stoker.protocol.errors import StokerError, UsageError
from stoker.protocol.exclude import Excluded
from stoker.protocol.replayed_row import Replay
from stoker.protocol.size_buckets import Bucket
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row
from stoker.server.commands.stream_flags import NamedStream
from stoker.server.rows.chosen import chosen_of, resolved
from stoker.server.rows.clip_samples import samples_of
from stoker.server.rows.joined_pipelines import own_freeze
from stoker.server.rows.orders import plan_buckets
from stoker.server.rows.subject import Subject, check_name, imported_from, load_pipeline, named_size
from stoker.server.state.served_streams import compose
from stoker.server.work.work_records import BuildResult


class ShownStream:
    """A stream whose rows a command shows.

    Attributes:
        request: its record.
        datasets: its datasets, open; their opener closes them.
        graphs: the pipeline of each.
        selections: the samples of each that it visits, and how often.
        firsts: the stream's id of the first sample of each dataset, and the number of all samples.
    """

    def __init__(
        self,
        stream: NamedStream,
        datasets: Sequence[Dataset],
        graphs: Sequence[Graph],
        size: Size | None = None,
    ) -> None:
        """Select the samples.

        Args:
            stream: what the command line says.
            datasets: those that it names, open.
            graphs: their pipelines.
            size: of the bucket of all samples that are shown; None: the stream's buckets say it.

        Raises:
            UnknownNameError: a dataset has no such split, field or class.
            UsageError: a list belongs to another dataset, or leaves no sample.
        """
        self.request = stream.request
        self.graphs = graphs
        self.datasets = [samples_of(*pair) for pair in zip(datasets, graphs, strict=True)]
        self.selections = []
        for dataset, source in zip(self.datasets, self.request.sources, strict=True):
            try:
                self.selections.append(chosen_of(dataset, resolved(dataset, source.selection)))
            except StokerError as error:
                if not source.dataset:
                    raise
                message = f"dataset {source.dataset!r}: {error.message}"
                raise type(error)(message, **error.details) from None
        self.firsts = [0]
        for dataset in self.datasets:
            self.firsts.append(self.firsts[-1] + len(dataset))
        self._size = size
        self._subjects: dict[tuple[int, Size | None], Subject] = {}

    @cached_property
    def _parts(self) -> list[Part]:
        """The datasets of a mixture; empty if the stream is not one."""
        ratios = [source.ratio for source in self.request.sources if source.ratio is not None]
        counts = shares(ratios, self.request.batch.positions) if ratios else []
        return [
            Part(dataset.fingerprint, len(dataset), pipeline_id(graph), share)
            for dataset, graph, share in zip(self.datasets, self.graphs, counts, strict=False)
        ]

    @cached_property
    def _plan(self) -> BucketPlan | None:
        """The plan of the stream's buckets; None without buckets."""
        request, wanted = self.request, self.request.order.buckets
        if wanted is None:
            return None
        return plan_buckets(self.datasets, wanted, request.batch.positions, self.selections)

    @cached_property
    def spec(self) -> StreamSpec:
        """The StreamSpec.

        Raises:
            BuildError: a pipeline does not fit its dataset.
            UnknownNameError: a freeze names no stream of the pipelines.
            UsageError: a value is out of bounds, or the buckets or the mixture cannot be.
        """
        size = self._size if self._plan is None else _size(self._plan.buckets[0])
        plans = [self.subject(number, size).plan for number in range(len(self.datasets))]
        fingerprint, pipeline = self.datasets[0].fingerprint, plans[0].pipeline_id
        if self._parts:
            fingerprint, pipeline = joined_digests(self._parts)
        built = BuildResult(
            build=0,
            fingerprint=fingerprint,
            rows=self.firsts[-1],
            pipeline_id=pipeline,
            outputs=(),
            sources=(),
            streams=tuple({name for plan in plans for name in plan.streams}),
            reads_schedule=self.request.draws.total_epochs is not None,
            bucket_plan=None if self._plan is None else self._plan.digest,
            buckets=() if self._plan is None else self._plan.buckets,
            excluded=exclude_of([one.excluded.digest for one in self.selections]),
            weights=weights_of([one.weights for one in self.selections]),
            mix=mix_digest(self._parts) if self._parts else None,
        )
        return compose(self.request, built, Excluded(()))

    def order(self, arithmetic: Arithmetic = PLAIN) -> StreamOrder:
        """Return the order of the stream; see `order_of`."""
        return order_of(
            self.spec, self.selections, parts=self._parts, plan=self._plan, arithmetic=arithmetic
        )

    @cached_property
    def _order(self) -> StreamOrder:
        return self.order()

    def subject(self, number: int, size: Size | None = None) -> Subject:
        """Return the pipeline of a dataset, bound to it for the samples of a bucket."""
        if (number, size) not in self._subjects:
            self._subjects[number, size] = Subject(
                self.datasets[number], self.graphs[number], size, self.selections[number],
                self.firsts[number],
            )  # fmt: skip
        return self._subjects[number, size]

    def subject_of(self, row: Row) -> Subject:
        """Return the pipeline that computes a row.

        Raises:
            UsageError: the stream has no such sample.
        """
        most = self.firsts[-1]
        if self._parts and not 0 <= row.id < most:
            raise UsageError(f"id {row.id}: the mixture has {most} samples, ids 0 to {most - 1}")
        number = min(bisect_right(self.firsts, row.id), len(self.datasets)) - 1
        size = self._size
        if size is None and self._plan is not None:
            bucket = self._order.find(row.epoch, row.id, row.visit).bucket
            size = None if bucket is None else _size(self._plan.buckets[bucket])
        return self.subject(number, size)

    def fullest(self) -> Size | None:
        """Return the size of the bucket with the most samples; None without buckets."""
        if self._plan is None:
            return self._size
        return _size(max(self._plan.buckets, key=lambda bucket: bucket.samples))

    def placed(self, row: Row) -> Row:
        """Return a row with its step and its part of the training, which schedules read.

        Raises:
            UsageError: the stream has no such row.
        """
        place = self._order.find(row.epoch, row.id, row.visit).place
        if place is None:
            return row
        return row._replace(step=place[1], progress=self._order.progress(*place))

    def replay(self, row: Row) -> Replay:
        """Compute a row and return all that happened to it.

        Raises:
            SampleError: the sample cannot be read, or does not fit.
            UsageError: the stream has no such row.
        """
        spec, subject = self.spec, self.subject_of(row)
        freeze = own_freeze(spec.freeze, subject.plan)
        if not subject.plan.mixes:
            return subject.replay(row, freeze)
        sources = list(zip(self.datasets, self.graphs, strict=True))
        return subject.replay(row, freeze, spec, self._order, datasets=sources)

    def source(self, sample_id: int) -> str | None:
        """Return what a sample was made of, such as the name of a file."""
        number = bisect_right(self.firsts, sample_id) - 1
        return self.datasets[number].source(sample_id - self.firsts[number])


def _size(bucket: Bucket) -> Size:
    return Size(bucket.height, bucket.width)


@contextmanager
def open_stream(
    stream: NamedStream, python_path: Sequence[str] = (), size: str | Size | None = None
) -> Iterator[ShownStream]:
    """Open the datasets of a stream and import its pipelines.

    Args:
        stream: what the command line says.
        python_path: folders to import from, after Python's own and installed modules.
        size: of the bucket of all samples that are shown; as text WIDTHxHEIGHT, or a length.

    Raises:
        BuildError: a pipeline cannot be imported.
        DatasetError: a dataset cannot be opened.
        UsageError: a size or the samples cannot be.
    """
    found = named_size(size) if isinstance(size, str) else size
    for source in stream.request.sources:
        check_name(source.pipeline)
    with imported_from(python_path), ExitStack() as stack:
        datasets = [stack.enter_context(open_dataset(path)) for path in stream.paths]
        graphs = [load_pipeline(source.pipeline) for source in stream.request.sources]
        yield ShownStream(stream, datasets, graphs, found)
