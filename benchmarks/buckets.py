"""Aspect-ratio buckets: plan a million images and iterate over an epoch of their batches.

Two contenders in one process: Stoker's plan and order, and the obvious first version, a dict of
lists that is filled image by image, shuffled and sliced (it drops images that fill no batch). Times
are CPU seconds of the one thread that both run on, so other work on the machine matters little.

    python benchmarks/buckets.py --images 1000000 --batch-size 64
"""

import argparse
import random
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from stoker.jit.arithmetic import COMPILED
from stoker.order.buckets.bucket_plan import make_plan
from stoker.order.compose import dataset_order
from stoker.order.stream_order import StreamOrder
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.spec import StreamSpec

AREA, DIVISOR = 1024 * 1024, 64


def sizes_of(images: int) -> tuple[np.ndarray, np.ndarray]:
    """Return widths and heights like those of photographs: log-normal ratios around 4:3."""
    rng = np.random.default_rng(5)
    ratio = np.exp(rng.normal(0.15, 0.35, images))
    area = np.exp(rng.uniform(np.log(2e5), np.log(1.2e7), images))
    sides = np.sqrt(np.stack([area * ratio, area / ratio])).astype(np.int32)
    widths, heights = np.maximum(sides, 16)
    return widths, heights


def own_size(width: int, height: int) -> tuple[int, int]:
    """Apply the rule in floats, as in waifu-diffusion's pull request 59, with its errors fixed."""
    scale = (AREA / (width * height)) ** 0.5
    w, h = (round(side * scale / DIVISOR) * DIVISOR for side in (width, height))
    if w * h > AREA:
        w, h = (int(side * scale / DIVISOR) * DIVISOR for side in (width, height))
    return max(w, DIVISOR), max(h, DIVISOR)


def dict_of_lists(widths: Any, heights: Any, batch_size: int) -> Callable[[], int]:
    """Plan with a dict; return a function that iterates over an epoch and counts its batches."""
    buckets: dict[tuple[int, int], list[int]] = {}
    for number, (width, height) in enumerate(zip(widths.tolist(), heights.tolist(), strict=True)):
        buckets.setdefault(own_size(width, height), []).append(number)

    def epoch() -> int:
        shuffler = random.Random(1)
        batches = []
        for size, ids in buckets.items():
            shuffler.shuffle(ids)
            starts = range(0, len(ids) - batch_size + 1, batch_size)
            batches += [(size, ids[start : start + batch_size]) for start in starts]
        shuffler.shuffle(batches)
        return sum(1 for _ in batches)

    return epoch


def stoker(widths: Any, heights: Any, batch_size: int) -> StreamOrder:
    plan = make_plan([(widths, heights)], Buckets(max_area=AREA, divisor=DIVISOR), batch_size)
    spec = StreamSpec(
        dataset="content:" + "0" * 32,
        dataset_rows=len(widths),
        pipeline="0" * 32,
        batch_size=batch_size,
        buckets=plan.digest,
    )
    return dataset_order(spec, plan=plan, arithmetic=COMPILED)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    result = call()
    return time.process_time() - begun, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    widths, heights = sizes_of(given.images)
    stoker(widths[:999], heights[:999], 1).rows(0, 0, 0, 1)  # loads the machine code
    best: dict[str, float] = {}

    def note(name: str, seconds: float) -> None:
        best[name] = min(best.get(name, seconds), seconds)

    for turn in range(given.rounds):
        seconds, order = timed(lambda: stoker(widths, heights, given.batch_size))
        note("plan", seconds)
        count = order.steps(turn)
        seconds, _ = timed(
            lambda o=order, e=turn, rows=given.batch_size, steps=count: sum(
                1 for step in range(steps) if o.rows(e, step, 0, rows)
            )
        )
        note("epoch", seconds)
        seconds, epoch = timed(lambda: dict_of_lists(widths, heights, given.batch_size))
        note("dict plan", seconds)
        seconds, other = timed(epoch)
        note("dict epoch", seconds)
    tracemalloc.start()
    stoker(widths, heights, given.batch_size)
    peak = tracemalloc.get_traced_memory()[1]
    ours, theirs = best["plan"] + best["epoch"], best["dict plan"] + best["dict epoch"]
    step_us = best["epoch"] / count * 1e6
    sizes = len(order.plan.buckets)
    print(f"{given.images:,} images, batches of {given.batch_size}, {sizes} sizes")
    print(f"plan: {best['plan']:.3f} s, at most {peak / 1e6:.0f} MB")
    print(f"plan of the dict: {best['dict plan']:.3f} s")
    print(f"epoch: {best['epoch']:.3f} s for {count:,} batches")
    print(f"epoch of the dict: {best['dict epoch']:.3f} s for {other:,} batches")
    print(f"any batch: {step_us:.1f} us")
    print(f"plan and one epoch: {theirs / ours:.1f} times as fast as the dict")


if __name__ == "__main__":
    main()
