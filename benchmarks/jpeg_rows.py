"""Where the time of a row goes with Stoker's own decoder, for several packed datasets.

    python benchmarks/jpeg_rows.py PACKED [PACKED ...] [--workload w3] [--again]

One process computes the same batches of all datasets in turns, without daemon and client. Numbers
are its CPU time in microseconds a row: for each batch the least of all rounds, then their mean.
Datasets of the same images, packed in different ways, can be compared. With `--again` the compiled
program of each row (resize, flip) runs once more on the same data, which is in the caches then: the
difference is the most that it could save by taking pixels as they are decoded.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pipelines
from plain_loops import compile_once, pages

from stoker.dataset import open_dataset
from stoker.dataset.images.jpeg.decoding import BoxDecoder, choose_decoder
from stoker.dataset.reading import dataset_interface
from stoker.jit.arithmetic import COMPILED
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.machine import Machine
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.reference import make_spec
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource

BATCH, BATCHES, ROUNDS = 64, 20, 10
SPLIT: Final = ("prepare", "make_pixels", "decode")
"""Methods of the decoder that are timed; the last one calls the others."""
OTHERS: Final = {"masks": (dataset_interface, "decode_bands"), "program": (Machine, "run")}


def batches_of(
    packed: Path, workload: str = "w1", size: int | None = None
) -> Callable[[int], None]:
    """Return what computes a batch."""
    size = size or BATCH
    compile_once(packed, workload)
    graph = getattr(pipelines, workload).graph()
    spec, dataset = make_spec(packed, graph, batch_size=size), open_dataset(packed)
    plan = worker_plan(graph, dataset)
    layout = slot_layout(plan.outputs, size)
    computer = RowComputer(
        spec, [RowSource(dataset, compile_plan(plan))], layout, arithmetic=COMPILED
    )
    slot = pages(layout.slot_bytes)
    return lambda step: computer.fill(slot, 0, step, 0, size)


def timed(name: str, spent: dict[str, float], owner: Any = BoxDecoder, part: str = "") -> None:
    """Add up the CPU time of a method of the decoder, or of another function."""
    method, part = getattr(owner, name), part or name

    def run(*arguments: Any) -> Any:
        begun = time.process_time_ns()
        found = method(*arguments)
        spent[part] += time.process_time_ns() - begun
        return found

    setattr(owner, name, run)


def twice(spent: dict[str, float]) -> None:
    """Run each program a second time, and add up its CPU time apart."""
    method = Machine.run

    def run(*arguments: Any) -> Any:
        found, before = method(*arguments), spent["program"]
        begun = time.process_time_ns()
        method(*arguments)
        spent["again"] += time.process_time_ns() - begun
        spent["program"] = before
        return found

    Machine.run = run  # type: ignore[method-assign]


def main() -> None:
    """Print a line for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=Path, nargs="+")
    parser.add_argument("--workload", default="w1", choices=("w1", "w1f", "w3", "w4"))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--batch-size", type=int, default=BATCH)
    options = parser.parse_args()
    paths, size = options.packed, options.batch_size
    choose_decoder("stoker")
    spent = dict.fromkeys((*SPLIT, *OTHERS, "again"), 0.0)
    for name in SPLIT:
        timed(name, spent)
    for part, (owner, name) in OTHERS.items():
        timed(name, spent, owner, part)
    if options.again:
        twice(spent)
    fill = [batches_of(path, options.workload, size) for path in paths]
    batches = min(BATCHES, *(len(open_dataset(path)) // size for path in paths))
    least = np.full((len(paths), batches, 1 + len(spent)), np.inf)
    for turn in range(ROUNDS):
        rng = np.random.default_rng(turn)
        for step in rng.permutation(batches):
            for number in rng.permutation(len(paths)):
                spent.update(dict.fromkeys(spent, 0.0))
                begun = time.process_time_ns()
                fill[number](step)
                row = np.array([time.process_time_ns() - begun, *spent.values()]) / 1000 / size
                row[0] -= spent["again"] / 1000 / size
                if row[0] < least[number, step, 0]:
                    least[number, step] = row
    columns = ("row", "head", "pixels", "calls", "masks", "program", "rest", "again")
    print("".join(f"{column:>8}" for column in columns))
    for path, (row, head, pixels, decode, masks, program, again) in zip(
        paths, least.mean(1), strict=True
    ):
        rest = row - decode - masks - program
        parts = row, head, pixels, decode - head - pixels, masks, program, rest, again
        print("".join(f"{part:8.1f}" for part in parts), path)


if __name__ == "__main__":
    main()
