"""The law's oracle: the same stream in one process, by the interpreter, without any daemon.

No numba (but where a window is cut out of a gridded JPEG), no worker, no slot that is shared:
order, draws, plain NumPy kernels, one row after the other. A row is bad where what it reads cannot
be decoded, as in a worker, but crops are made of the whole picture, if that can be decoded; see
`SampleReader.read_boxes`. Slow on purpose. The law says that all that a daemon delivers equals
this, byte for byte.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stoker.dataset import Dataset, open_dataset
from stoker.order.mix import Part, mix_digest, shares
from stoker.order.selected import Selected, exclude_of, weights_of
from stoker.order.stream_order import StreamOrder
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.bucket_graph import Size
from stoker.pipeline.planning.planner import bind
from stoker.protocol import output_forms
from stoker.protocol import weights as given_weights
from stoker.protocol.canonical import Canonical, canonical_digest
from stoker.protocol.exclude import Excluded
from stoker.protocol.length_buckets import Request
from stoker.protocol.ragged import flatten, gather
from stoker.protocol.slot_layout import batch_layout, ragged_outputs
from stoker.protocol.spec import OrderSpec, StreamSpec
from stoker.server.rows.chosen import order_spec, weighted
from stoker.server.rows.clip_samples import samples_of
from stoker.server.rows.field_states import field_states
from stoker.server.rows.joined_pipelines import own_freeze
from stoker.server.rows.orders import plan_buckets, stream_order
from stoker.server.rows.slot_filler import SlotFiller, StreamSource
from stoker.server.work.cuts import Share


class MixSource(NamedTuple):
    """A dataset of a mixture: its path, pipeline and ratio, and what is taken of it."""

    path: str | Path
    graph: Graph
    ratio: float
    exclude: Iterable[int] = ()
    weights: object = None


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
    with open_dataset(dataset_path) as opened:
        dataset = samples_of(opened, graph)
        chosen = _chosen(dataset, exclude, weights)
        order = fields.pop("order", OrderSpec())
        if buckets is not None:
            plan = plan_buckets([dataset], buckets, fields["batch_size"], [chosen])
            fields["buckets"] = plan.digest
        return StreamSpec(
            dataset=dataset.fingerprint,
            dataset_rows=len(dataset),
            pipeline=pipeline_id(graph),
            exclude=chosen.excluded.digest,
            order=order_spec(chosen, shuffle=order.shuffle, block=order.block, seed=order.seed),
            **fields,
        )


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
    with open_dataset(dataset_path, integrity=integrity) as opened:
        dataset = samples_of(opened, graph)
        chosen = _chosen(dataset, exclude, weights)
        order = stream_order(spec, [dataset], [chosen], buckets=buckets)
        rows = _filler(spec, [(dataset, graph)], order, Share(rank, world_size, spec.views), params)
        for step in range(first_step, order.steps(epoch)):
            yield step, _batch(rows, epoch, step, crashed)


def reference_mix(
    parts: Sequence[MixSource | tuple[str | Path, Graph, float]],
    *,
    epoch: int = 0,
    first_step: int = 0,
    rank: int = 0,
    world_size: int = 1,
    params: bool = False,
    buckets: Request | None = None,
    crashed: Collection[int] = (),
    **fields: Any,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (step, outputs) of an epoch of a mixture, as `reference_batches`.

    Args:
        parts: the datasets, in order.
        epoch: the epoch.
        first_step: the first step.
        rank: of the caller.
        world_size: number of ranks.
        params: whether there are draw records.
        buckets: how sizes are chosen, if there are buckets.
        crashed: samples that are replaced.
        fields: those of StreamSpec.
    """
    sources = [MixSource(*part) for part in parts]
    with ExitStack() as stack:
        pairs = [
            (samples_of(stack.enter_context(open_dataset(source.path)), source.graph), source.graph)
            for source in sources
        ]
        datasets = [dataset for dataset, _ in pairs]
        selections = [
            _chosen(dataset, source.exclude, source.weights)
            for dataset, source in zip(datasets, sources, strict=True)
        ]
        counts = shares([source.ratio for source in sources], fields["batch_size"])
        known = [
            Part(dataset.fingerprint, len(dataset), pipeline_id(graph), share)
            for (dataset, graph), share in zip(pairs, counts, strict=True)
        ]
        spec = _mix_spec(known, datasets, selections, buckets, fields)
        order = stream_order(spec, datasets, selections, parts=known, buckets=buckets)
        rows = _filler(spec, pairs, order, Share(rank, world_size, spec.views), params)
        for step in range(first_step, order.steps(epoch)):
            yield step, _batch(rows, epoch, step, crashed)


def _mix_spec(
    parts: Sequence[Part],
    datasets: Sequence[Dataset],
    selections: Sequence[Selected],
    buckets: Request | None,
    fields: dict[str, Any],
) -> StreamSpec:
    names: Canonical = [[part.fingerprint, part.rows] for part in parts]
    weights = weights_of([selection.weights for selection in selections])
    order = fields.pop("order", OrderSpec())
    if buckets is not None:
        plan = plan_buckets(datasets, buckets, fields["batch_size"], selections)
        fields["buckets"] = plan.digest
    return StreamSpec(
        dataset=f"content:{canonical_digest(names)}",
        dataset_rows=sum(part.rows for part in parts),
        pipeline=canonical_digest([part.pipeline for part in parts]),
        mix=mix_digest(parts),
        exclude=exclude_of([selection.excluded.digest for selection in selections]),
        order=OrderSpec(
            kind="full" if weights is None else "weighted", weights=weights,
            shuffle=order.shuffle, block=order.block, seed=order.seed,
        ),
        **fields,
    )  # fmt: skip


def _batch(rows: SlotFiller, epoch: int, step: int, crashed: Collection[int]) -> dict[str, Any]:
    cut = rows.cut(epoch, step)
    slot = np.zeros(cut.layout.slot_bytes, np.uint8)
    rows.fill(slot, epoch, step, cut.first_row, cut.first_row + cut.rows, crashed=crashed)
    arrays = {
        placed.name: slot[placed.offset : placed.offset + placed.size_bytes]
        .view(placed.dtype)
        .reshape(placed.shape)
        for placed in batch_layout(cut.layout, rows.shapes_of(epoch, step)).outputs
    }
    ragged = ragged_outputs(cut.outputs)
    arrays = output_forms.flatten(flatten(arrays, ragged), cut.outputs)
    return output_forms.gather(gather(arrays, ragged), cut.outputs)


def _chosen(dataset: Dataset, exclude: Iterable[int], weights: object) -> Selected:
    found = None if weights is None else given_weights.weights_of(weights)
    return weighted(dataset, Excluded(exclude), found)


def _filler(
    spec: StreamSpec,
    pairs: Sequence[tuple[Dataset, Graph]],
    order: StreamOrder,
    share: Share,
    params: bool,
) -> SlotFiller:
    """Return what computes rows with the interpreter."""

    def source(dataset: Dataset, graph: Graph) -> StreamSource:
        states = field_states(dataset)

        def engine_of(size: Size | None) -> Interpreter:
            plan = bind(graph, states, bucket=size)
            return Interpreter(plan, own_freeze(spec.freeze, plan))

        return StreamSource(dataset, engine_of)

    return SlotFiller(spec, [source(*pair) for pair in pairs], order, share, params=params)
