"""The law's oracle: the same stream in one process, by the interpreter, without any daemon.

No numba (but where a window is cut out of a gridded JPEG), no worker, no slot that is shared:
order, draws, plain NumPy kernels, one row after the other. A row is bad where what it reads cannot
be decoded, as in a worker, but crops are made of the whole picture, if that can be decoded; see
`SampleReader.read_boxes`. Slow on purpose. The law says that all that a daemon delivers equals
this, byte for byte.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stoker.dataset import Dataset, open_dataset
from stoker.order.buckets.order import BucketOrder
from stoker.order.mix import MixOrder, Part, mix_digest, shares
from stoker.order.stream import StreamOrder
from stoker.pipeline.engine.drawing import row_bytes
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol import forms
from stoker.protocol.buckets import DRAWN_AS
from stoker.protocol.canonical import Canonical, canonical_digest
from stoker.protocol.drawn import params_output
from stoker.protocol.exclude import Excluded
from stoker.protocol.layout import batch_layout, ragged_outputs
from stoker.protocol.lengths import Request
from stoker.protocol.ragged import flatten, gather
from stoker.protocol.spec import OrderSpec, StreamSpec
from stoker.protocol.weights import weights_of
from stoker.server.rows.bucket_rows import BucketComputer, plan_buckets
from stoker.server.rows.chosen import Chosen, weighted
from stoker.server.rows.clips import samples_of
from stoker.server.rows.mix_rows import mix_computer, own_freeze
from stoker.server.rows.rows import RowComputer
from stoker.server.rows.states import field_states
from stoker.server.work.cuts import RankCut, Share

CutOf = Callable[[int, int], RankCut]
Rows = RowComputer | BucketComputer


def make_spec(
    dataset_path: str | Path,
    graph: Graph,
    buckets: Request | None = None,
    exclude: Iterable[int] = (),
    weights: object = None,
    **fields: Any,
) -> StreamSpec:
    """Return the StreamSpec of a pipeline over a dataset; `fields` are those of StreamSpec.

    `buckets` is a request for buckets, planned here for `batch_size`; `exclude` are ids; `weights`
    is what a Loader takes.
    """
    dataset = samples_of(open_dataset(dataset_path), graph)
    try:
        chosen = _chosen(dataset, exclude, weights)
        excluded = chosen.excluded
        fields["exclude"] = excluded.digest
        if weights is not None:
            order = fields.get("order", OrderSpec())
            fields["order"] = chosen.order_spec(
                shuffle=order.shuffle, block=order.block, seed=order.seed
            )
        if buckets is not None:
            plan = plan_buckets(dataset, buckets, fields["batch_size"], excluded)
            fields["buckets"] = plan.digest
        return StreamSpec(
            dataset=dataset.fingerprint,
            dataset_rows=len(dataset),
            pipeline=pipeline_id(graph),
            **fields,
        )
    finally:
        dataset.close()


def reference_batches(  # noqa: PLR0913 - the parts of a stream and a place in it
    dataset_path: str | Path,
    graph: Graph,
    spec: StreamSpec,
    *,
    epoch: int = 0,
    first_step: int = 0,
    rank: int = 0,
    world_size: int = 1,
    params: bool = False,
    buckets: Request | None = None,
    exclude: Iterable[int] = (),
    weights: object = None,
    crashed: Collection[int] = (),
    integrity: str = "auto",
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (step, outputs) of the rest of an epoch; arrays are `(rows, ...)`, owned by the caller.

    Ragged outputs are `Ragged`. `index`, `requested` and `valid` are among the outputs, with
    `params` also the draw records, as bytes. `exclude` and `weights` are those of the spec; samples
    that `crashed` are replaced. `integrity` is that of a daemon.
    """
    dataset = samples_of(open_dataset(dataset_path, integrity=integrity), graph)
    try:
        share = Share(rank, world_size, spec.views)
        chosen = _chosen(dataset, exclude, weights)
        excluded = chosen.excluded
        order: StreamOrder
        if buckets is None:
            order = chosen.order(spec)
            rows, cut_of = _plain_rows(order, dataset, graph, spec, share, params)
        else:
            order = BucketOrder(spec, plan_buckets(dataset, buckets, spec.batch_size, excluded))
            rows, cut_of = _bucket_rows(order, dataset, graph, spec, share, params)
        for step in range(first_step, order.steps(epoch)):
            yield step, _batch(rows, cut_of(epoch, step), epoch, step, crashed)
    finally:
        dataset.close()


def reference_mix(
    parts: Sequence[tuple[str | Path, Graph, float]], *, epoch: int = 0, **fields: Any
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (step, outputs) of an epoch of a mixture, as `reference_batches`.

    Args:
        parts: path, pipeline and ratio of each dataset, in order.
        epoch: the epoch.
        fields: those of StreamSpec.
    """
    datasets = [open_dataset(path) for path, _, _ in parts]
    try:
        counts = shares([ratio for _, _, ratio in parts], fields["batch_size"])
        known = [
            Part(dataset.fingerprint, len(dataset), pipeline_id(graph), share)
            for dataset, (_, graph, _), share in zip(datasets, parts, counts, strict=True)
        ]
        names: Canonical = [[part.fingerprint, part.rows] for part in known]
        spec = StreamSpec(
            dataset=f"content:{canonical_digest(names)}",
            dataset_rows=sum(part.rows for part in known),
            pipeline=canonical_digest([part.pipeline for part in known]),
            mix=mix_digest(known),
            **fields,
        )
        order = MixOrder(spec, known)
        plans = [
            bind(graph, field_states(dataset))
            for dataset, (_, graph, _) in zip(datasets, parts, strict=True)
        ]
        engines = [Interpreter(plan, own_freeze(spec, plan.streams).freeze) for plan in plans]
        cut = Share(0, 1, spec.views).cut(spec.batch_size, (*plans[0].delivered, DRAWN_AS))
        rows = mix_computer(spec, order, datasets, engines, cut.layout)
        for step in range(order.steps(epoch)):
            yield step, _batch(rows, cut, epoch, step, ())
    finally:
        for dataset in datasets:
            dataset.close()


def _batch(
    rows: Rows, cut: RankCut, epoch: int, step: int, crashed: Collection[int]
) -> dict[str, Any]:
    slot = np.zeros(cut.layout.slot_bytes, np.uint8)
    rows.fill(slot, epoch, step, cut.first_row, cut.first_row + cut.rows, crashed=crashed)
    arrays = {
        placed.name: slot[placed.offset : placed.offset + placed.size_bytes]
        .view(placed.dtype)
        .reshape(placed.shape)
        for placed in batch_layout(cut.layout, rows.shapes_of(epoch, step)).outputs
    }
    ragged = ragged_outputs(cut.outputs)
    arrays = forms.flatten(flatten(arrays, ragged), cut.outputs)
    return forms.gather(gather(arrays, ragged), cut.outputs)


def _chosen(dataset: Dataset, exclude: Iterable[int], weights: object) -> Chosen:
    excluded = Excluded(exclude)
    excluded.check(len(dataset))
    return weighted(dataset, excluded, None if weights is None else weights_of(weights))


def _plain_rows(
    order: StreamOrder,
    dataset: Dataset,
    graph: Graph,
    spec: StreamSpec,
    share: Share,
    params: bool,
) -> tuple[Rows, CutOf]:
    plan = bind(graph, field_states(dataset))
    more = params_output(row_bytes(plan)) if params else ()
    drawn_as = (DRAWN_AS,) if spec.order.weights else ()
    cut = share.cut(spec.batch_size, plan.delivered + drawn_as + more)
    engine = Interpreter(plan, spec.freeze)
    rows = RowComputer(
        spec, dataset, engine, cut.layout, cut.first_row, params=bool(more), order=order
    )
    return rows, lambda epoch, step: cut


def _bucket_rows(
    order: BucketOrder,
    dataset: Dataset,
    graph: Graph,
    spec: StreamSpec,
    share: Share,
    params: bool,
) -> tuple[Rows, CutOf]:
    states = field_states(dataset)
    rows = BucketComputer(
        spec, dataset, order, lambda size: bind(graph, states, bucket=size),
        lambda plan: Interpreter(plan, spec.freeze), share, params=params,
    )  # fmt: skip
    return rows, rows.cut
