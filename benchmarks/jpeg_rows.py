"""Where the time of a row of `w1` goes with Stoker's own decoder, for several packed datasets.

    python benchmarks/jpeg_rows.py PACKED [PACKED ...]

One process computes the same batches of all datasets in turns, without daemon and client. Numbers
are its CPU time in microseconds a row: for each batch the least of all rounds, then their mean.
Datasets of the same images, packed in different ways, can be compared.
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
from stoker.jit.arithmetic import COMPILED
from stoker.pipeline.compiled.executor import compile_plan
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.reference import make_spec
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource

BATCH, BATCHES, ROUNDS = 64, 20, 10
SPLIT: Final = ("prepare", "make_pixels", "decode")
"""Methods of the decoder that are timed; the last one calls the others."""


def batches_of(packed: Path) -> Callable[[int], None]:
    """Return what computes a batch."""
    compile_once(packed, "w1")
    graph = pipelines.w1.graph()
    spec, dataset = make_spec(packed, graph, batch_size=BATCH), open_dataset(packed)
    plan = worker_plan(graph, dataset)
    layout = slot_layout(plan.outputs, BATCH)
    computer = RowComputer(
        spec, [RowSource(dataset, compile_plan(plan))], layout, arithmetic=COMPILED
    )
    slot = pages(layout.slot_bytes)
    return lambda step: computer.fill(slot, 0, step, 0, BATCH)


def timed(name: str, spent: dict[str, float]) -> None:
    """Add up the CPU time of a method of the decoder."""
    method = getattr(BoxDecoder, name)

    def run(*arguments: Any) -> Any:
        begun = time.process_time_ns()
        found = method(*arguments)
        spent[name] += time.process_time_ns() - begun
        return found

    setattr(BoxDecoder, name, run)


def main() -> None:
    """Print a line for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=Path, nargs="+")
    paths = parser.parse_args().packed
    choose_decoder("stoker")
    spent = dict.fromkeys(SPLIT, 0.0)
    for name in SPLIT:
        timed(name, spent)
    fill = [batches_of(path) for path in paths]
    least = np.full((len(paths), BATCHES, 1 + len(SPLIT)), np.inf)
    for turn in range(ROUNDS):
        rng = np.random.default_rng(turn)
        for step in rng.permutation(BATCHES):
            for number in rng.permutation(len(paths)):
                spent.update(dict.fromkeys(SPLIT, 0.0))
                begun = time.process_time_ns()
                fill[number](step)
                row = np.array([time.process_time_ns() - begun, *spent.values()]) / 1000 / BATCH
                if row[0] < least[number, step, 0]:
                    least[number, step] = row
    print(f"{'row':>8}{'head':>8}{'pixels':>8}{'calls':>8}{'rest':>8}")
    for path, (row, head, pixels, decode) in zip(paths, least.mean(1), strict=True):
        parts = row, head, pixels, decode - head - pixels, row - decode
        print("".join(f"{part:8.1f}" for part in parts), path)


if __name__ == "__main__":
    main()
