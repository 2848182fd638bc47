"""A builder: a one-off child that traces, binds and compiles one pipeline for one dataset.

Runs as a fork of the template, so that the daemon never imports numba or the user's modules. It
leaves the compiled code in the cache on disk, where every worker finds it, reports what the daemon
must know (identity, outputs), and ends. A pipeline is named `module:attr` by the operator's
configuration, or comes as graph data; then code is imported only from the operator's `op_modules`.
"""

import socket
from collections.abc import Mapping
from contextlib import ExitStack

import msgspec

from stoker.dataset import Dataset, open_dataset
from stoker.jit import activity
from stoker.jit.named import EVERY_MODULE, allow_modules
from stoker.ops.bases.batch import GROUP
from stoker.order.mix import mix_digest, shares
from stoker.pipeline.engine.drawing import drawn_by, row_bytes
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.graph.schedule import facts_read
from stoker.pipeline.planning.bucket_graph import Size, reads_bucket
from stoker.pipeline.planning.memory_layout import Working, working_memory
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.buckets import DRAWN_AS
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import BuildError
from stoker.protocol.layout import Output
from stoker.protocol.lengths import Request
from stoker.protocol.messages import MAX_CLASS_BYTES, MAX_CLASSES
from stoker.protocol.request.stream import Selection
from stoker.server.rows.chosen import chosen_of, resolve_split
from stoker.server.rows.clips import refuse_clips, samples_of
from stoker.server.rows.graphs import graph_from_bytes, graph_to_bytes
from stoker.server.rows.joining import check_agreement, check_classes
from stoker.server.rows.orders import order_parts, plan_buckets
from stoker.server.rows.scratch import decoded_bytes
from stoker.server.rows.shared import shared_bytes
from stoker.server.rows.subject import load_pipeline
from stoker.server.work.cuts import room_for
from stoker.server.work.records import BuildRequest, BuildResult, BuiltSource
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
    source = request.stream.sources[0]
    if source.ratio is not None:
        return _build_mix(request)
    dataset = open_dataset(source.dataset)
    activity.progressed()
    named = bool(source.pipeline)
    if named:
        allow_modules(EVERY_MODULE)  # the operator named it, so what it uses is the operator's too
    try:
        graph = load_pipeline(source.pipeline) if named else graph_from_bytes(source.graph)
        dataset = samples_of(dataset, graph)
        split = resolve_split(dataset, source.selection)
        known = request.known
        if known is not None and code is not None and _still(known, dataset, graph, split, code):
            return known
        selection = source.selection
        if split:
            selection = Selection(subset=split, weights=selection.weights)
        return msgspec.structs.replace(_built(request, dataset, graph, selection), subset=split)
    finally:
        dataset.close()


def _still(
    known: BuildResult, dataset: Dataset, graph: Graph, split: bytes, code: UserCode
) -> bool:
    """Return whether a build would give an earlier result again; its machine code is in the cache.

    The content of a dataset that only declares its fingerprint may have changed.
    """
    now = dataset.fingerprint, len(dataset), graph_to_bytes(graph), split
    return (
        now == (known.fingerprint, known.rows, known.graph, known.subset)
        and not dataset.fingerprint.startswith("declared:")
        and set(code.note()) <= set(known.code)
        and unchanged(known.code)
    )


def _built(
    request: BuildRequest, dataset: Dataset, graph: Graph, selection: Selection
) -> BuildResult:
    if request.stream.buckets is not None:
        return _build_buckets(request, request.stream.buckets, dataset, graph, selection)
    return _result(request, dataset, graph, compiled_plan(graph, dataset), selection)


def _build_mix(request: BuildRequest) -> BuildResult:
    """Build the pipeline of each dataset; their outputs must agree."""
    wanted = request.stream.sources
    counts = shares([part.ratio or 0.0 for part in wanted], request.stream.batch_size)
    results, plans = {}, {}
    with ExitStack() as stack:
        datasets = {}
        for part in wanted:
            datasets[part.name] = dataset = stack.enter_context(open_dataset(part.dataset))
            activity.progressed()
            if part.pipeline:
                allow_modules(EVERY_MODULE)
            graph = load_pipeline(part.pipeline) if part.pipeline else graph_from_bytes(part.graph)
            refuse_clips(graph, f"mix: dataset {part.name!r}")
            plans[part.name] = plan = compiled_plan(graph, dataset)
            results[part.name] = _result(request, dataset, graph, plan, part.selection)
        outputs = check_agreement(plans)
        check_classes(datasets, plans)
    parts = tuple(
        BuiltSource(
            part.dataset, found.fingerprint, found.rows, found.pipeline_id, found.graph,
            part.selection, found.streams, part.name, share,
        )
        for part, found, share in zip(wanted, results.values(), counts, strict=True)
    )  # fmt: skip
    return _joined(request, outputs, parts, list(results.values()))


def _joined(
    request: BuildRequest,
    outputs: tuple[Output, ...],
    parts: tuple[BuiltSource, ...],
    results: list[BuildResult],
) -> BuildResult:
    """Return the result of a mixture from those of its datasets."""
    levels = [part.fingerprint.partition(":")[0] for part in parts]
    weakest = max(levels, key=("content", "stat", "declared").index)
    most = max(results, key=lambda found: found.working_bytes)
    return BuildResult(
        request.build,
        f"{weakest}:{canonical_digest([[part.fingerprint, part.rows] for part in parts])}",
        sum(part.rows for part in parts),
        canonical_digest([part.pipeline_id for part in parts]),
        b"",
        outputs,
        tuple(sorted({name for part in parts for name in part.streams})),
        reads_schedule=any(found.reads_schedule for found in results),
        working_bytes=sum(found.working_bytes for found in results),
        most_bytes=most.most_bytes,
        most=most.most,
        classes=results[0].classes,
        group_rows=max(found.group_rows for found in results),
        mix=mix_digest(order_parts(parts)),
        parts=parts,
        decoded_bytes=max(found.decoded_bytes for found in results),
        usual_bytes=max(found.usual_bytes for found in results),
    )


def _build_buckets(
    request: BuildRequest, wanted: Request, dataset: Dataset, graph: Graph, selection: Selection
) -> BuildResult:
    """Plan the buckets, and compile the pipeline for each: it is the same machine code."""
    refuse_clips(graph, "buckets")
    if not reads_bucket(graph):
        raise BuildError(
            "buckets are wanted, but the pipeline does not read the size of a sample's bucket, so "
            "its outputs would be alike in all of them: use ops.fit_bucket, of sequences "
            "ops.fit_length, or leave buckets out"
        )
    chosen = chosen_of(dataset, selection)
    found = plan_buckets([dataset], wanted, request.stream.batch_size, [chosen])
    plans = []
    for bucket in found.buckets:
        activity.progressed()
        plans.append(compiled_plan(graph, dataset, Size(bucket.height, bucket.width)))
    outputs = tuple((*plan.delivered, DRAWN_AS) for plan in plans)
    largest = max(plans, key=lambda plan: working_memory(plan).size_bytes)
    return msgspec.structs.replace(
        _result(request, dataset, graph, largest, selection),
        outputs=room_for(outputs),
        bucket_plan=found.digest,
        buckets=found.buckets,
        bucket_outputs=outputs,
        leftovers=wanted.leftovers,
        merged=len(found.merged()),
    )


def _result(
    request: BuildRequest, dataset: Dataset, graph: Graph, plan: Plan, selection: Selection
) -> BuildResult:
    working = _with_decoding(working_memory(plan), decoded_bytes(dataset, plan.fields))
    frames = 1 if plan.clip is None else plan.clip.frames
    decoded, usual = shared_bytes(dataset, plan.fields, frames)
    left_out = weights = None
    if selection.subset or selection.weights:
        chosen = chosen_of(dataset, selection)
        left_out, weights = chosen.excluded.digest, chosen.weights
    return BuildResult(
        request.build,
        dataset.fingerprint,
        len(dataset),
        pipeline_id(graph),
        graph_to_bytes(graph),
        plan.delivered,
        plan.streams,
        reads_schedule="progress" in facts_read(graph),
        drawn=drawn_by(plan),
        params_bytes=row_bytes(plan),
        group_rows=GROUP if plan.mixes else 1,
        working_bytes=working.size_bytes,
        most_bytes=working.most_bytes,
        most=working.most,
        excluded=left_out,
        classes=_classes(dataset),
        weights=weights,
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
