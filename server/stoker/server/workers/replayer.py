"""A replayer: a one-off child that replays one sample of an open stream for a client.

Runs as a fork of the template. It gets the stream's own graph and StreamSpec, so its outputs are
the bytes of the stream; it computes them with the interpreter, also if workers do not. The replay
leaves as a memory file, which the daemon passes on unread.
"""

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from stoker.dataset import open_dataset
from stoker.jit.named import EVERY_MODULE, allow_modules
from stoker.order.selected import Selected
from stoker.order.stream_order import StreamOrder
from stoker.pipeline.planning.bucket_graph import Size
from stoker.protocol.errors import BuildError, SampleError, StokerError, UsageError
from stoker.protocol.replayed_row import Replay, replay_to_bytes
from stoker.rng.row import Row
from stoker.server.rows.chosen import chosen_of
from stoker.server.rows.clip_samples import samples_of
from stoker.server.rows.graphs import graph_from_bytes
from stoker.server.rows.joined_pipelines import own_freeze
from stoker.server.rows.orders import order_parts, stream_order
from stoker.server.rows.stored_sample import stored_sample
from stoker.server.rows.subject import Subject
from stoker.server.work.work_records import ReplayMade, ReplayRequest
from stoker.server.workers import one_off_child
from stoker.server.workers.user_code import UserCode


def make(request: ReplayRequest) -> tuple[ReplayMade, int]:
    """Replay a sample; return the answer and the descriptor of the memory file.

    Raises:
        DatasetError: the dataset is another than that of the stream.
        ResourceError: the replay is too large.
        SampleError: the sample cannot be read, or does not fit.
    """
    allow_modules(EVERY_MODULE)  # a builder has let pass the graph of an open stream
    with ExitStack() as stack:
        return _as_file(request, _replay(request, stack))


def _replay(request: ReplayRequest, stack: ExitStack) -> Replay:
    spec, sources = request.served.spec, request.served.sources
    graphs = [graph_from_bytes(source.graph) for source in sources]
    datasets = [
        samples_of(
            stack.enter_context(
                open_dataset(
                    source.dataset, expected=source.fingerprint, integrity=request.integrity
                )
            ),
            graph,
        )
        for source, graph in zip(sources, graphs, strict=True)
    ]
    selections = [
        chosen_of(dataset, source.selection)
        for dataset, source in zip(datasets, sources, strict=True)
    ]
    if request.stored:
        number, own = stored_place(request.id, selections)
        return stored_sample(datasets[number], graphs[number], own, spec)
    order = stream_order(
        spec, datasets, selections, parts=order_parts(sources) if spec.mix else (),
        buckets=request.served.buckets,
    )  # fmt: skip
    row, bucket = row_of(request, order)
    number = order.dataset_of(request.id)
    subject = Subject(datasets[number], graphs[number], bucket, first_id=order.firsts[number])
    others = list(zip(datasets, graphs, strict=True)) if subject.plan.mixes else None
    freeze = own_freeze(spec.freeze, subject.plan)
    return subject.replay(row, freeze, spec, order, request.crashed, others)


def stored_place(number: int, selections: Sequence[Selected]) -> tuple[int, int]:
    """Return (dataset, sample) of `loader.dataset[number]`: the selected samples, by number."""
    for dataset, selection in enumerate(selections):
        if number < selection.count:
            return dataset, selection.remaining().id(number)
        number -= selection.count
    raise UsageError(f"expected the number of a sample of the stream, got {number}")


def _as_file(request: ReplayRequest, replay: Replay) -> tuple[ReplayMade, int]:
    data = replay_to_bytes(replay)
    memory = os.memfd_create("stoker-replay", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(memory), "wb") as file:
        file.write(data)
    return ReplayMade(request.replay, len(data)), memory


def row_of(request: ReplayRequest, order: StreamOrder) -> tuple[Row, Size | None]:
    """Return the row with its place in the stream, which schedules read, and its bucket's size.

    Without weights an id is at one position of an epoch. A later visit is a substitute, and names
    the position that it replaces.

    Raises:
        UsageError: the stream has no such row.
    """
    spec, size = request.served.spec, None
    found = order.find(request.epoch, request.id, request.visit)
    step, done = None, None
    if found.place is not None:
        step, done = found.place[1], order.progress(*found.place)
    if order.plan is not None and found.bucket is not None:
        bucket = order.plan.buckets[found.bucket]
        size = Size(bucket.height, bucket.width)
    return Row(spec.seed, request.id, request.epoch, request.visit, request.view, step, done), size


def serve(sock: socket.socket, number: int) -> int:
    """Replay one sample and answer; return the exit code."""
    code = UserCode()

    def act(request: ReplayRequest) -> one_off_child.Answer:
        try:
            answer = make(request)
        except StokerError:
            code.require(request.served.code)  # an edit explains the error better
            raise
        try:
            code.require(request.served.code)
        except BuildError:
            os.close(answer[1])
            raise
        return answer

    return one_off_child.serve(sock, number, "replayer", act, SampleError("replaying the sample"))
