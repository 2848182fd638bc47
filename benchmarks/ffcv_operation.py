"""The cost of an operation of FFCV's guide, next to the same loops compiled by numba alone.

    python benchmarks/ffcv_operation.py --rows 512 --turns 400

PickACorner runs as a step of a loader, with its draws by sample id and its memory. The plain loop
is the function of the guide, which assigns arrays; another one copies value by value. Both draw
from numba's generator into memory that is allocated once. All are compiled for one core, and for
several; they take turns on the same batch, and the fastest turn of each counts.
"""

import argparse
import sys
import time
from pathlib import Path

import numba
import numpy as np

from stoker.compat.ffcv.compiled_step import BatchRows, CompiledStep
from stoker.compat.ffcv.field_reading import array_state

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "compat"))
from guide_script import PickACorner, PickACornerParallel

FORM = (32, 32, 3)


def corners(images, dst):
    """Pick a corner of each image, as the guide does."""
    which = np.random.randint(0, 4, images.shape[0])
    for i in numba.prange(images.shape[0]):
        if which[i] == 0:
            dst[i] = images[i, : images.shape[1] // 2, : images.shape[2] // 2]
        else:
            dst[i] = images[i, -images.shape[1] // 2 :, -images.shape[2] // 2 :]
    return dst


def values(images, dst):
    """Do the same value by value."""
    which = np.random.randint(0, 4, images.shape[0])
    for i in numba.prange(images.shape[0]):
        low = 0 if which[i] == 0 else images.shape[1] // 2
        left = 0 if which[i] == 0 else images.shape[2] // 2
        for y in range(dst.shape[1]):
            for x in range(dst.shape[2]):
                for c in range(dst.shape[3]):
                    dst[i, y, x, c] = images[i, low + y, left + x, c]
    return dst


def times_us(turns: int, *calls) -> list[float]:
    """Return the microseconds of the fastest turn of each call."""
    best = [float("inf")] * len(calls)
    for _ in range(turns):
        for place, call in enumerate(calls):
            began = time.perf_counter()
            call()
            best[place] = min(best[place], time.perf_counter() - began)
    return [1e6 * found for found in best]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--turns", type=int, default=400)
    arguments = parser.parse_args()
    images = np.random.default_rng(0).integers(0, 256, (arguments.rows, *FORM)).astype(np.uint8)
    rows = BatchRows(0, 0, np.arange(arguments.rows))
    dst = np.empty((arguments.rows, FORM[0] // 2, FORM[1] // 2, FORM[2]), np.uint8)
    print("| form | plain loop, us | value by value, us | step, us | ratio | ratio |")
    print("|---|---|---|---|---|---|")
    for name, operation in (("serial", PickACorner()), ("parallel", PickACornerParallel())):
        step = CompiledStep(operation, array_state(FORM, "uint8"), name, name)
        machine = numba.njit(nogil=True, error_model="numpy", parallel=name == "parallel")
        loops = [machine(function) for function in (corners, values)]
        for loop in loops:
            loop(images, dst)
        plain, single, made = times_us(
            arguments.turns,
            *(lambda loop=loop: loop(images, dst) for loop in loops),
            lambda step=step: step(images, rows),
        )
        ratios = f"{made / plain:.2f} | {made / single:.2f}"
        print(f"| {name} | {plain:.0f} | {single:.0f} | {made:.0f} | {ratios} |")


if __name__ == "__main__":
    main()
