"""The same compiled pipeline in plain loops: no daemon, no client, no messages.

    python benchmarks/plain_loops.py PACKED --workload w1 --workers 2 --epochs 3

Each process repeatedly computes its share of the rows of every batch into one private slot, so that
all have the same number of rows. It sums one element of each image, like the consumers of the other
contenders. This is the baseline for the cost of daemon and client. With `--slots 8` eight slots
rotate, as they do when batches are delivered. Written data then does not stay in the processor's
cache, and the difference is the cost of that. Slots begin at pages. The processes begin an epoch
together; its time is that of the slower one. Prints one JSON line per epoch; the first is the
warm-up. CPU time counts all processes. `STOKER_JPEG` chooses the decoder of JPEGs, as it does for a
daemon; without it libjpeg-turbo decodes.
"""

import argparse
import json
import mmap
import multiprocessing
import os
import sys
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pipelines
from meter import Epoch, busy_s, tree_s

from stoker.dataset import open_dataset
from stoker.dataset.images.jpeg.decoding.choice import LIBJPEG, choose_decoder
from stoker.jit.arithmetic import COMPILED
from stoker.order.rank_rows import rank_rows, steps_per_epoch
from stoker.pipeline.compiled.executor import compile_plan
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.reference import make_spec
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource


def loop(
    number: int, arguments: argparse.Namespace, start: Barrier, stop: Barrier, images: SimpleQueue
) -> None:
    """Compute this process's share of the rows of each step."""
    choose_decoder(os.environ.get("STOKER_JPEG", LIBJPEG))
    graph = getattr(pipelines, arguments.workload).graph()
    spec = make_spec(arguments.packed, graph, batch_size=arguments.batch_size)
    dataset = open_dataset(arguments.packed)
    plan = worker_plan(graph, dataset)
    layout = slot_layout(plan.outputs, spec.batch_size)
    computer = RowComputer(
        spec, [RowSource(dataset, compile_plan(plan))], layout, arithmetic=COMPILED
    )
    slots = [pages(layout.slot_bytes) for _ in range(arguments.slots)]
    image = layout.outputs[0]
    views = [
        slot[image.offset : image.offset + image.size_bytes]
        .view(image.dtype)
        .reshape(spec.batch_size, -1)
        for slot in slots
    ]
    low, high = rank_rows(spec.batch_size, number, arguments.workers)
    for epoch in range(arguments.epochs):
        start.wait()
        for step in range(steps_per_epoch(spec)):
            turn = step % arguments.slots
            computer.fill(slots[turn], epoch, step, low, high)
            float(views[turn][low:high, 0].sum())
        stop.wait()
    images.put(steps_per_epoch(spec) * spec.batch_size)
    dataset.close()


def pages(size_bytes: int) -> np.ndarray:
    """Return writable, page-aligned memory, in huge pages if the system has them."""
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def compile_once(packed: Path, workload: str) -> None:
    """Fill the compile cache like the daemon's builder; the processes then load from it."""
    dataset = open_dataset(packed)
    graph = getattr(pipelines, workload).graph()
    compile_plan(worker_plan(graph, dataset))
    dataset.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=Path)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--slots", type=int, default=1)
    arguments = parser.parse_args()
    choose_decoder(os.environ.get("STOKER_JPEG", LIBJPEG))
    compile_once(arguments.packed, arguments.workload)
    context = multiprocessing.get_context("spawn")
    start, stop = (context.Barrier(arguments.workers + 1) for _ in range(2))
    images = context.SimpleQueue()
    processes = [
        context.Process(target=loop, args=(number, arguments, start, stop, images))
        for number in range(arguments.workers)
    ]
    for process in processes:
        process.start()
    measured = []
    for _ in range(arguments.epochs):
        start.wait()
        own, everybody, begun = tree_s(os.getpid()), busy_s(), time.perf_counter()
        stop.wait()
        seconds = time.perf_counter() - begun
        cpu = tree_s(os.getpid()) - own
        measured.append((seconds, cpu, max(0.0, busy_s() - everybody - cpu)))
    count = images.get()
    for process in processes:
        process.join()
    for seconds, cpu, other in measured:
        print(json.dumps(Epoch(count, seconds, count / seconds, 0.0, cpu, other).to_data()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
