"""The time to compile a pipeline, and the memory of a process that runs it.

    python benchmarks/ops_build.py CACHE

Compiles the chain of `ops_chain.py` with the kernel cache in the folder CACHE and runs a row of it.
Prints one JSON line: CPU seconds up to the row's end, without imports, and MiB resident. Like a
worker, it imports NumPy, numba and the pipeline, and no image library.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from stoker import ops
from stoker.jit import set_cache_root
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.rng.row import Row

SIDE = 224


@pipeline
def chain(sample: Any) -> dict[str, Any]:
    """Crop 350x300 (56 % of 500x375), resize, flip, jitter, normalize."""
    area, ratio = (0.56, 0.56), (7 / 6, 7 / 6)
    image = ops.random_resized_crop(sample.image, size=SIDE, scale=area, ratio=ratio)
    image = ops.horizontal_flip(image, p=1)
    image = ops.color_jitter(image, brightness=0.4, contrast=0.4, saturation=0.4)
    return {"image": ops.normalize(image, dtype="float16", layout="CHW")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", metavar="CACHE", help="folder of compiled kernels; is made")
    set_cache_root(parser.parse_args().cache)
    image, out = np.zeros((375, 500, 3), np.uint8), np.empty((3, SIDE, SIDE), np.float16)
    begun = time.process_time()
    compile_plan(chain.plan_for({"image": image})).run(Row(1, 2, 3), (image,), (out,))
    seconds = time.process_time() - begun
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    print(json.dumps({"seconds": seconds, "mib": pages * os.sysconf("SC_PAGE_SIZE") / 2**20}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
