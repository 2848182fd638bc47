"""A replayer: a one-off child that replays one sample of an open stream for a client.

Runs as a fork of the template. It gets the stream's own graph and StreamSpec, so its outputs are
the bytes of the stream; it computes them with the interpreter, also if workers do not. The replay
leaves as a memory file, which the daemon passes on unread.
"""

import os
import socket

from stoker.dataset import Dataset, open_dataset
from stoker.jit.named import EVERY_MODULE, allow_modules
from stoker.order.buckets.order import BucketOrder
from stoker.order.mix import MixOrder
from stoker.order.remaining import Remaining
from stoker.order.stream import StreamOrder
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.planning.bucket_graph import Size
from stoker.protocol.errors import BuildError, SampleError, StokerError
from stoker.protocol.lengths import request_from_bytes
from stoker.protocol.replay import Replay, replay_to_bytes
from stoker.rng.row import Row
from stoker.server.rows.bucket_rows import plan_buckets
from stoker.server.rows.chosen import chosen_of
from stoker.server.rows.clips import samples_of
from stoker.server.rows.graphs import graph_from_bytes
from stoker.server.rows.mix_rows import order_parts, own_freeze
from stoker.server.rows.stored import stored_sample
from stoker.server.rows.subject import Subject
from stoker.server.work.records import ReplayMade, ReplayRequest
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
    spec = request.spec
    if request.parts:
        return _as_file(request, _of_mixture(request))
    with open_dataset(
        request.dataset, expected=spec.dataset, integrity=request.integrity
    ) as dataset:
        graph = graph_from_bytes(request.graph)
        samples = samples_of(dataset, graph)
        if request.stored:
            return _as_file(request, _stored(request, samples, graph))
        order = order_of(request, samples)
        row, bucket = row_of(request, order)
        subject = Subject(samples, graph, bucket)
        return _as_file(request, subject.replay(row, spec.freeze, spec, order, request.crashed))


def _stored(request: ReplayRequest, dataset: Dataset, graph: Graph) -> Replay:
    chosen = chosen_of(dataset, request.exclude, request.subset, request.weights)
    sample_id = Remaining(len(dataset), chosen.excluded).id(request.id)
    return stored_sample(dataset, graph, sample_id, request.spec)


def _of_mixture(request: ReplayRequest) -> Replay:
    order = MixOrder(request.spec, order_parts(request.parts))
    number = order.dataset_of(request.id)
    part = request.parts[number]
    with open_dataset(
        part.dataset, expected=part.fingerprint, integrity=request.integrity
    ) as dataset:
        graph = graph_from_bytes(part.graph)
        if request.stored:
            own = request.id - order.firsts[number]
            return stored_sample(dataset, graph, own, request.spec)
        row, _ = row_of(request, order)
        subject = Subject(dataset, graph, first_id=order.firsts[number])
        return subject.replay(row, own_freeze(request.spec, part.streams).freeze)


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
    spec, size = request.spec, None
    found = order.find(request.epoch, request.id, request.visit)
    step, done = None, None
    if found.place is not None:
        step, done = found.place[1], order.progress(*found.place)
    if isinstance(order, BucketOrder) and found.bucket is not None:
        bucket = order.plan.buckets[found.bucket]
        size = Size(bucket.height, bucket.width)
    return Row(spec.seed, request.id, request.epoch, request.visit, request.view, step, done), size


def order_of(request: ReplayRequest, dataset: Dataset) -> StreamOrder:
    """Return the stream's order."""
    spec = request.spec
    chosen = chosen_of(dataset, request.exclude, request.subset, request.weights)
    if not request.buckets:
        return chosen.order(spec)
    wanted = request_from_bytes(request.buckets)
    return BucketOrder(spec, plan_buckets(dataset, wanted, spec.batch_size, chosen.excluded))


def serve(sock: socket.socket, number: int) -> int:
    """Replay one sample and answer; return the exit code."""
    code = UserCode()

    def act(request: ReplayRequest) -> one_off_child.Answer:
        try:
            answer = make(request)
        except StokerError:
            code.require(request.sources)  # an edit explains the error better
            raise
        try:
            code.require(request.sources)
        except BuildError:
            os.close(answer[1])
            raise
        return answer

    return one_off_child.serve(sock, number, "replayer", act, SampleError("replaying the sample"))
