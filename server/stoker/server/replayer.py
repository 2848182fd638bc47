"""A replayer: a one-off child that replays one sample of an open stream for a client.

Runs as a fork of the template. It gets the stream's own graph and StreamSpec, so its outputs are
the bytes of the stream; it computes them with the interpreter, whatever the workers do. The replay
leaves as a memory file, which the daemon passes on unread.
"""

import os
import socket

from stoker.dataset import open_dataset
from stoker.ops.named import EVERY_MODULE, allow_modules
from stoker.order.batches import progress
from stoker.order.epoch import EpochOrder
from stoker.pipeline.engine import Row
from stoker.protocol.errors import SampleError
from stoker.protocol.replay import replay_to_bytes
from stoker.server import errand
from stoker.server.graphs import graph_from_bytes
from stoker.server.subject import Subject
from stoker.server.work import ReplayMade, ReplayRequest


def make(request: ReplayRequest) -> tuple[ReplayMade, int]:
    """Replay a sample; return the answer and the descriptor of the memory file.

    Raises:
        DatasetError: the dataset is another than that of the stream.
        ResourceError: the replay is too large.
        SampleError: the sample cannot be read, or does not fit.
    """
    allow_modules(EVERY_MODULE)  # a builder has let pass the graph of an open stream
    spec = request.spec
    with open_dataset(request.dataset, expected=spec.dataset) as dataset:
        subject = Subject(dataset, graph_from_bytes(request.graph))
        data = replay_to_bytes(subject.replay(row_of(request), spec.freeze, spec))
    memory = os.memfd_create("stoker-replay", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(memory), "wb") as file:
        file.write(data)
    return ReplayMade(request.replay, len(data)), memory


def row_of(request: ReplayRequest) -> Row:
    """Return the row, with its place in the stream: schedules read that.

    An id lies at one position of an epoch; a later visit of it is a substitute, and says for which
    position.
    """
    spec, epoch = request.spec, request.epoch
    position = request.visit - 1 if request.visit else EpochOrder(spec).find(epoch, request.id)
    step = position // spec.batch_size
    done = progress(spec, epoch, step)
    return Row(spec.seed, request.id, epoch, request.visit, request.view, step, done)


def serve(sock: socket.socket, number: int) -> int:
    """Replay one sample and answer; return the exit code."""
    return errand.serve(sock, number, "replayer", make, SampleError("replaying the sample"))
