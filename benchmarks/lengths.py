"""Buckets of sequences: how much padding they save, and what a row costs a worker.

Sequences have log-normal lengths, like texts. Padding is measured for batches padded to their
longest row, in buckets and in a plain shuffled order. A worker's code computes the rows in this
process. Times are CPU seconds, so other work on the machine matters little.

    python benchmarks/lengths.py --samples 20000 --batch-size 64
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from stoker import ops
from stoker.client import LengthBuckets
from stoker.dataset import Dataset, open_dataset, schema, write
from stoker.jit.arithmetic import COMPILED
from stoker.order.compose import dataset_order
from stoker.order.stream_order import StreamOrder
from stoker.pipeline import outputs, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.protocol.spec import StreamSpec
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.orders import plan_buckets
from stoker.server.rows.reference import make_spec
from stoker.server.rows.slot_filler import SlotFiller, StreamSource
from stoker.server.work.cuts import Share

LONGEST = 1024


@pipeline
def train(sample):
    """Cut to the bucket, pad to the longest row of the batch."""
    return {"tokens": outputs.pad(ops.fit_length(sample.tokens), fill=-1)}


def make_dataset(path: Path, samples: int) -> np.ndarray:
    """Write sequences; return their lengths."""
    lengths = np.random.default_rng(0).lognormal(5, 0.8, samples).astype(int).clip(1, LONGEST)
    rows = ({"tokens": np.arange(length, dtype=np.int32)} for length in lengths.tolist())
    write(path, [schema.array("tokens", "int32", (None,))], rows)
    return lengths


def padding(batches: list[np.ndarray]) -> float:
    """Return the fraction of padding; each batch is given by the lengths of its rows."""
    filled = sum(int(lengths.sum()) for lengths in batches)
    return 1 - filled / sum(int(lengths.max()) * len(lengths) for lengths in batches)


def row_us(dataset: Dataset, order: StreamOrder, spec: StreamSpec, steps: int) -> float:
    """Return the CPU microseconds of a row, the least of three rounds."""
    graph = train.graph()
    source = StreamSource(dataset, lambda size: compile_plan(worker_plan(graph, dataset, size)))
    computer = SlotFiller(spec, [source], order, Share(0, 1, 1), arithmetic=COMPILED)
    cuts = [computer.cut(0, step) for step in range(order.steps(0))]
    slot = np.zeros(max(cut.layout.slot_bytes for cut in cuts), np.uint8)
    best = float("inf")
    for epoch in range(4):  # the first round fills the caches
        begun, rows = time.process_time(), 0
        for step in range(min(steps, order.steps(epoch)) if epoch else order.steps(0)):
            cut = computer.cut(epoch, step)
            computer.fill(slot[: cut.layout.slot_bytes], epoch, step, 0, cut.rows)
            rows += cut.rows
        if epoch:
            best = min(best, (time.process_time() - begun) / rows * 1e6)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--batch-size", type=int, default=64)
    given = parser.parse_args()
    wanted = LengthBuckets(field="tokens", multiple=64, leftovers="merge")
    with tempfile.TemporaryDirectory() as folder:
        lengths = make_dataset(Path(folder) / "data", given.samples)
        with open_dataset(Path(folder) / "data") as dataset:
            graph = train.graph()
            spec = make_spec(dataset.path, graph, wanted, batch_size=given.batch_size)
            plan = plan_buckets([dataset], wanted, given.batch_size)
            order = dataset_order(spec, plan=plan, arithmetic=COMPILED)
            bucketed = [
                lengths[order.rows(0, step, 0, order.positions(0, step)).ids]
                for step in range(order.steps(0))
            ]
            shuffled = np.random.default_rng(1).permutation(lengths)
            whole = len(shuffled) // given.batch_size
            plain = np.split(shuffled[: whole * given.batch_size], whole)
            cost = row_us(dataset, order, spec, 100)
    print(f"{given.samples:,} sequences of {lengths.mean():.0f} tokens in the mean,", end=" ")
    print(f"batches of {given.batch_size}, {len(plan.buckets)} buckets")
    print(f"padding: {padding(bucketed):.1%} in buckets, {padding(plain):.1%} shuffled")
    print(f"a row: {cost:.1f} us of CPU time")


if __name__ == "__main__":
    main()
