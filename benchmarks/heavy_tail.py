"""The cost of in-order delivery when some samples take fifty times as long as most.

    python benchmarks/heavy_tail.py --workers 2 4 8 --rounds 5

The samples are JPEGs of several photographs in shuffled order. Most are small; 1.5 in a hundred are
so large that they cost fifty times as much. Each is decoded and resized to 64x64: real work that
differs between samples. The script first measures the cost of each row.

There are two contenders. One is Stoker's daemon and client: batches of 128 in order, four under
way. The other computes the same compiled rows in plain loops that take any next rows, never wait
and deliver nothing. Each call costs some tens of microseconds, so the loops take `TAKEN` rows at a
time. The ratio of the two includes the cost of order and the cost of delivery. So both also run on
a second dataset whose rows all cost about the mean of the first. There order never has to wait, and
the ratio is that of delivery alone. `order` is the first ratio over the second: the part of the
rate that remains when rows differ. The four runs alternate. Each time covers several epochs, after
one warm-up epoch. Each contender is a separate session (setsid), because Linux shares a busy
processor between sessions, and a private daemon is one.

The last columns are the daemon's own decisions in virtual time, with the measured costs
(`virtual_time.py`): the share of the workers' time in which they work, exact on a busy machine too.
`bound` is the best that any scheduler could reach that delivers in order with four batches under
way. Prints Markdown.
"""

import argparse
import io
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import skimage.data
from PIL import Image
from virtual_time import row_by_row, scheduled

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.jit.arithmetic import COMPILED
from stoker.order.rank_rows import steps_per_epoch
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.reference import make_spec
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource

SMALL, LARGE, LARGE_SHARE = (256, 192), (2600, 1950), 0.015
EVEN = (336, 252)
"""Size of the images of the dataset with equal costs: about the mean cost of the other."""
BATCH, PREFETCH, TURN_S = 128, 4, 5e-4
TAKEN = 16
TIMED = 3


@pipeline
def small(sample):
    return {"image": ops.resize(sample.image, size=(64, 64))}


def encoded(image: Image.Image) -> bytes:
    """Return an image as JPEG."""
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90)
    return out.getvalue()


def make_dataset(folder: Path, images: int, size: tuple[int, int], large_share: float) -> Path:
    """Small windows of photographs as JPEGs, and a share of large whole photographs."""
    rng = np.random.default_rng(9)
    photos = [Image.fromarray(photo) for photo in (skimage.data.astronaut(), skimage.data.coffee())]
    large = [encoded(photo.resize(LARGE, Image.Resampling.LANCZOS)) for photo in photos]
    rows = []
    for number in range(images):
        if rng.random() < large_share:
            rows.append({"image": large[number % 2]})
            continue
        photo = photos[number % 2]
        left, top = (
            int(rng.integers(0, whole - part + 1))
            for whole, part in zip(photo.size, size, strict=True)
        )
        rows.append({"image": encoded(photo.crop((left, top, left + size[0], top + size[1])))})
    write(folder, [schema.image()], rows)
    return folder


class Rows:
    """Computes rows of the stream into a private slot."""

    def __init__(self, packed: Path) -> None:
        graph = small.graph()
        self.spec = make_spec(packed, graph, batch_size=BATCH)
        self.dataset = open_dataset(packed)
        plan = worker_plan(graph, self.dataset)
        layout = slot_layout(plan.outputs, BATCH)
        self._computer = RowComputer(
            self.spec, [RowSource(self.dataset, compile_plan(plan))], layout, arithmetic=COMPILED
        )
        self._slot = np.zeros(layout.slot_bytes, np.uint8)
        self.rows = steps_per_epoch(self.spec) * BATCH

    def compute(self, epoch: int, first: int, rows: int) -> None:
        """Compute rows of an epoch, all of one step."""
        step, row = divmod(first, BATCH)
        self._computer.fill(self._slot, epoch, step, row, row + rows)

    def costs_s(self) -> np.ndarray:
        """Return the cost of each row of epoch 0: the least of some tries."""
        costs = np.full(self.rows, np.inf)
        for _ in range(TIMED):
            for number in range(self.rows):
                begun = time.thread_time()
                self.compute(0, number, 1)
                costs[number] = min(costs[number], time.thread_time() - begun)
        return costs


def any_next(packed: Path, epochs: int, taken: Synchronized, barrier: Barrier) -> None:
    """Take any next rows until none are left; the first epoch is the warm-up."""
    rows = Rows(packed)
    for end in (rows.rows, (1 + epochs) * rows.rows):
        barrier.wait()
        while True:
            with taken.get_lock():
                number, taken.value = taken.value, taken.value + TAKEN
            if number >= end:
                break
            rows.compute(*divmod(number, rows.rows), TAKEN)
        barrier.wait()


def unordered_s(packed: Path, rows: int, workers: int, epochs: int) -> float:
    """Return the seconds of some epochs in plain loops without an order."""
    context = multiprocessing.get_context("spawn")
    taken, barrier = context.Value("q", 0), context.Barrier(workers + 1)
    processes = [
        context.Process(target=any_next, args=(packed, epochs, taken, barrier))
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    for first in (0, rows):
        taken.value = first
        barrier.wait()
        begun = time.perf_counter()
        barrier.wait()
    seconds = time.perf_counter() - begun
    for process in processes:
        process.join()
    return seconds


def in_order_s(packed: Path, _: int, workers: int, epochs: int) -> float:
    """Return the seconds from the last batch of the first epoch to that of the last one."""
    ends = []
    with Loader(
        str(packed), pipeline=small, batch_size=BATCH, prefetch=PREFETCH, workers=workers,
        device="numpy",
    ) as loader:  # fmt: skip
        for _ in range(epochs + 1):
            for batch in loader:
                int(batch.image[:, 0, 0, 0].sum())
            ends.append(time.perf_counter())
    return ends[-1] - ends[0]


CONTENDERS = {"unordered": unordered_s, "in order": in_order_s}


def seconds(contender: str, packed: Path, rows: int, workers: int, epochs: int) -> float:
    """Run a contender in a fresh process and session."""
    numbers = [str(number) for number in (rows, workers, epochs)]
    command = [sys.executable, __file__, "--one", contender, str(packed), *numbers]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    return float(done.stdout)


def ratio(packed: Path, rows: int, workers: int, epochs: int) -> float:
    """Return the rate in order over the rate without order; the contenders alternate."""
    loose, ordered = (seconds(name, packed, rows, workers, epochs) for name in CONTENDERS)
    print(f"{packed.name}, {workers} workers: {loose / ordered:.3f}", file=sys.stderr, flush=True)
    return loose / ordered


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--images", type=int, default=2600)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6, help="counted, of each process")
    arguments = parser.parse_args()
    if arguments.one:
        contender, packed, *numbers = arguments.one
        print(CONTENDERS[contender](Path(packed), *map(int, numbers)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        heavy = make_dataset(Path(folder) / "heavy", arguments.images, SMALL, LARGE_SHARE)
        even = make_dataset(Path(folder) / "even", arguments.images, EVEN, 0.0)
        costs, alike = Rows(heavy).costs_s(), Rows(even).costs_s()
        half, most = np.percentile(costs, [50, 99])
        print(
            f"{len(costs)} rows; p50 {half * 1e6:.0f} us, p99 {most * 1e6:.0f} us "
            f"(p99/p50 {most / half:.0f}), mean {costs.mean() * 1e6:.0f} us; of the even ones "
            f"{alike.mean() * 1e6:.0f} us\n"
        )
        print(
            "| workers | order, median of rounds (min..max) | in order / unordered: heavy | even "
            "| virtual time: share at work | bound | chunks a batch |\n" + "|---" * 7 + "|"
        )
        many = np.tile(costs, 8)
        for workers in arguments.workers:
            size = (len(costs), workers, arguments.epochs)
            rounds = [
                [ratio(packed, *size) for packed in (heavy, even)] for _ in range(arguments.rounds)
            ]
            orders = [of_heavy / of_even for of_heavy, of_even in rounds]
            of_heavy, of_even = (statistics.median(kind) for kind in zip(*rounds, strict=True))
            share, chunks = scheduled(many, workers, BATCH, PREFETCH, TURN_S)
            bound = row_by_row(many.tolist(), workers, BATCH, PREFETCH)
            print(
                f"| {workers} | {statistics.median(orders):.3f} ({min(orders):.3f}.."
                f"{max(orders):.3f}) | {of_heavy:.3f} | {of_even:.3f} | {share:.3f} | {bound:.3f} "
                f"| {chunks:.1f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
