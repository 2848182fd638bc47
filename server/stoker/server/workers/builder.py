"""A builder: a one-off child that traces, binds and compiles the pipelines of one stream.

Runs as a fork of the template, so that the daemon never imports numba or the user's modules. It
leaves the compiled code in the cache on disk, where every worker finds it, reports what the daemon
must know (identity, outputs), and ends. A pipeline is named `module:attr` by the operator's
configuration, or comes as graph data; then code is imported only from the operator's `op_modules`.
"""

import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec

from stoker.dataset import Dataset, open_dataset
from stoker.jit import activity
from stoker.jit.named import EVERY_MODULE, allow_modules
from stoker.ops.bases.batch_op import GROUP
from stoker.order.buckets.pieces import pieces_of, with_rows
from stoker.order.mix import joined_digests, mix_digest, shares
from stoker.order.selected import exclude_of, weights_of
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.graph.schedule import facts_read
from stoker.pipeline.planning.bucket_graph import Size, reads_bucket
from stoker.pipeline.planning.memory_layout import Working, working_memory
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.errors import BuildError, StokerError
from stoker.protocol.messages import MAX_CLASS_BYTES, MAX_CLASSES
from stoker.protocol.request.stream_request import Selection
from stoker.protocol.size_buckets import Bucket
from stoker.server.rows.chosen import chosen_of, resolved
from stoker.server.rows.clip_samples import samples_of
from stoker.server.rows.graphs import graph_from_bytes, graph_to_bytes
from stoker.server.rows.joined_pipelines import check_agreement, check_classes, joined_records
from stoker.server.rows.orders import order_parts, plan_buckets
from stoker.server.rows.scratch import decoded_bytes
from stoker.server.rows.shared import shared_bytes
from stoker.server.rows.subject import load_pipeline
from stoker.server.work.cuts import room_for
from stoker.server.work.work_records import (
    BuildRequest,
    BuildResult,
    BuiltSource,
    SourceToBuild,
    StreamToBuild,
)
from stoker.server.workers import one_off_child, progress_reports
from stoker.server.workers.compiled_plan import compiled_plan
from stoker.server.workers.user_code import UserCode, unchanged


def build(request: BuildRequest, code: UserCode | None = None) -> BuildResult:
    """Trace or read, bind and compile a pipeline.

    Args:
        request: what to build.
        code: the files of users that this process imports; needed to answer with a known result.

    Raises:
        StokerError: the dataset or the pipeline cannot be used; the message says why.
    """
    with ExitStack() as stack:
        sources = [_opened(source, stack) for source in request.stream.sources]
        known = request.known
        if known is not None and code is not None and _still(known, sources, code):
            return known
        return _built(request, sources)


@dataclass(frozen=True)
class _Source:
    """A dataset of a stream, open, with the graph of its pipeline and what is taken of it."""

    wanted: SourceToBuild
    dataset: Dataset
    graph: Graph
    selection: Selection

    @property
    def key(self) -> tuple[object, ...]:
        """A key of everything that a build reads of it."""
        return (
            self.dataset.fingerprint, len(self.dataset), graph_to_bytes(self.graph), self.selection
        )  # fmt: skip


def _opened(wanted: SourceToBuild, stack: ExitStack) -> _Source:
    """Open a dataset, and trace or read its pipeline."""
    dataset = stack.enter_context(open_dataset(wanted.dataset))
    activity.progressed()
    if wanted.pipeline:
        allow_modules(EVERY_MODULE)  # the operator named it, so what it uses is the operator's too
        graph = load_pipeline(wanted.pipeline)
    else:
        graph = graph_from_bytes(wanted.graph)
    samples = samples_of(dataset, graph)
    try:
        return _Source(wanted, samples, graph, resolved(samples, wanted.selection))
    except StokerError as error:
        if not wanted.name:
            raise
        raise type(error)(f"dataset {wanted.name!r}: {error.message}", **error.details) from None


def _still(known: BuildResult, sources: Sequence[_Source], code: UserCode) -> bool:
    """Return whether a build would give an earlier result again; its machine code is in the cache.

    The content of a dataset that only declares its fingerprint may have changed.
    """
    before = [(one.fingerprint, one.rows, one.graph, one.selection) for one in known.sources]
    return (
        [source.key for source in sources] == before
        and not any(one.fingerprint.startswith("declared:") for one in known.sources)
        and set(code.note()) <= set(known.code)
        and unchanged(known.code)
    )


def _built(request: BuildRequest, sources: Sequence[_Source]) -> BuildResult:
    """Plan the buckets, if there are any, and compile the pipelines for each of their sizes."""
    wanted = request.stream
    shares_of = _shares(wanted)
    names = [source.wanted.name for source in sources]
    selected = [chosen_of(source.dataset, source.selection) for source in sources]
    plan = None
    buckets: tuple[Bucket, ...] = ()
    sizes: list[Size | None] = [None]
    if wanted.buckets is not None:
        for source in sources:
            _check_reads_bucket(source.graph)
        datasets = [source.dataset for source in sources]
        plan = plan_buckets(datasets, wanted.buckets, wanted.batch_size, selected)
        buckets = with_rows(plan, pieces_of(plan, selected, shares_of, names))
        sizes = [Size(bucket.height, bucket.width) for bucket in buckets]
    plans = []
    for size in sizes:
        activity.progressed()
        plans.append([compiled_plan(one.graph, one.dataset, size) for one in sources])
    outputs = tuple(check_agreement(dict(zip(names, found, strict=True))) for found in plans)
    check_classes(
        dict(zip(names, [source.dataset for source in sources], strict=True)),
        dict(zip(names, plans[0], strict=True)),
    )
    built = tuple(
        BuiltSource(
            source.wanted.dataset, source.dataset.fingerprint, len(source.dataset),
            pipeline_id(source.graph), graph_to_bytes(source.graph), source.selection,
            plan.streams, source.wanted.name, share,
        )
        for source, plan, share in zip(sources, plans[0], shares_of or [0], strict=True)
    )  # fmt: skip
    result = _result(request, sources, built, plans)
    weights = weights_of([one.weights for one in selected])
    reads_exclude = shares_of is not None or any(s.selection != Selection() for s in sources)
    return msgspec.structs.replace(
        result,
        outputs=room_for(outputs),
        excluded=exclude_of([one.excluded.digest for one in selected]) if reads_exclude else None,
        weights=weights,
        mix=None if shares_of is None else mix_digest(order_parts(built)),
        bucket_plan=None if plan is None else plan.digest,
        buckets=buckets,
        bucket_outputs=outputs if buckets else (),
        leftovers="carry" if wanted.buckets is None else wanted.buckets.leftovers,
        merged=0 if plan is None else len(plan.merged()),
    )


def _shares(wanted: StreamToBuild) -> list[int] | None:
    """Return the shares of a mixture; None if the stream is none."""
    ratios = [source.ratio for source in wanted.sources if source.ratio is not None]
    return shares(ratios, wanted.batch_size) if ratios else None


def _check_reads_bucket(graph: Graph) -> None:
    if not reads_bucket(graph):
        raise BuildError(
            "buckets are wanted, but the pipeline does not read the size of a sample's bucket, so "
            "its outputs would be alike in all of them: use ops.fit_bucket, of sequences "
            "ops.fit_length, or leave buckets out"
        )


def _result(
    request: BuildRequest,
    sources: Sequence[_Source],
    built: tuple[BuiltSource, ...],
    plans: Sequence[Sequence[Plan]],
) -> BuildResult:
    """Return what follows from the datasets and their plans, without the order."""
    workings, shared = [], []
    for number, source in enumerate(sources):
        of_source = [working_memory(found[number]) for found in plans]
        largest = max(of_source, key=lambda working: working.size_bytes)
        plan = plans[0][number]
        workings.append(_with_decoding(largest, decoded_bytes(source.dataset, plan.fields)))
        frames = 1 if plan.clip is None else plan.clip.frames
        shared.append(shared_bytes(source.dataset, plan.fields, frames))
    most = max(workings, key=lambda working: working.most_bytes)
    names = [source.wanted.name for source in sources]
    drawn, _, params_bytes = joined_records(plans[0], names)
    decoded, usual = map(max, zip(*shared, strict=True))
    is_mixture = sources[0].wanted.ratio is not None
    whole = built[0].fingerprint, built[0].pipeline_id
    fingerprint, pipeline = joined_digests(order_parts(built)) if is_mixture else whole
    return BuildResult(
        request.build,
        fingerprint=fingerprint,
        rows=sum(one.rows for one in built),
        pipeline_id=pipeline,
        outputs=(),
        sources=built,
        streams=tuple(sorted({name for one in built for name in one.streams})),
        reads_schedule=any("progress" in facts_read(source.graph) for source in sources),
        drawn=drawn,
        params_bytes=params_bytes,
        group_rows=GROUP if plans[0][0].mixes else 1,
        working_bytes=sum(working.size_bytes for working in workings),
        most_bytes=most.most_bytes,
        most=most.most,
        classes=_classes(sources[0].dataset),
        decoded_bytes=decoded,
        usual_bytes=usual,
    )


def _with_decoding(working: Working, decoded: Mapping[str, int]) -> Working:
    """Add the memory for decoded fields, which may need more than any step."""
    name = max(decoded, key=decoded.__getitem__, default="")
    size_bytes = working.size_bytes + sum(decoded.values())
    if not decoded or decoded[name] <= working.most_bytes:
        return working._replace(size_bytes=size_bytes)
    return Working(size_bytes, decoded[name], f"decoding the field {name!r}")


def _classes(dataset: Dataset) -> dict[str, tuple[str, ...]]:
    """Return the names of classes of the fields, as far as OPENED has room for them."""
    found: dict[str, tuple[str, ...]] = {}
    left = MAX_CLASS_BYTES
    for field in dataset.schema.fields:
        names = field.classes or ()
        size = sum(len(name.encode()) for name in names)
        if names and len(names) <= MAX_CLASSES and size <= left:
            found[field.name] = names
            left -= size
    return found


def serve(sock: socket.socket, number: int) -> int:
    """Build one pipeline and answer; return the exit code."""
    fault = BuildError("building the pipeline")
    code = UserCode()

    def act(request: BuildRequest) -> one_off_child.Answer:
        found = build(request, code)
        files = tuple(sorted({*found.code, *code.note()}))  # a known result has its own
        return msgspec.structs.replace(found, build=request.build, code=files), None

    return one_off_child.serve(sock, number, "builder", act, fault, progress_reports.watch)
