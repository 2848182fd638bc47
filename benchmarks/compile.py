"""CPU seconds that a pipeline takes to build: with an empty cache, and with all kernels cached.

    python benchmarks/compile.py [--rounds 3]

Each build, including tracing and binding of the plan, runs in a fresh process with its own kernel
cache. Imports and numba's tables are not counted, because workers are forks of a process that has
them; their cost is printed separately. Times are CPU seconds of one thread, the least of the
rounds: a busy machine disturbs them less than wall-clock time. Prints Markdown.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from stoker import ops
from stoker.jit import set_cache_root
from stoker.pipeline import auto_augment, pipeline, rand_augment, trivial_augment_wide


@pipeline
def two_ops(sample: Any) -> dict[str, Any]:
    image = ops.random_resized_crop(sample.image, size=224)
    return {"image": ops.horizontal_flip(image), "label": sample.label}


@pipeline
def classification(sample: Any) -> dict[str, Any]:
    image = ops.random_resized_crop(sample.image, size=224)
    image = ops.horizontal_flip(image)
    image = ops.color_jitter(image, brightness=0.4, contrast=0.4, saturation=0.4)
    return {"image": ops.normalize(image, dtype="float16", layout="CHW"), "label": sample.label}


@pipeline
def segmentation(sample: Any) -> dict[str, Any]:
    image, mask = ops.random_short_side_scale(
        sample.image, sample.mask, sizes=(256, 512), max_size=1024
    )
    image, mask = ops.rotate(image, mask, degrees=10)
    image, mask = ops.random_crop(image, mask, size=224)
    image, mask = ops.horizontal_flip(image, mask)
    if sample.label > 0:
        image = ops.brightness(ops.gaussian_blur(image))
    else:
        image = ops.gamma(ops.sharpness(image))
    image, mask = ops.erase(image, mask)
    return {"image": ops.normalize(image, dtype="float16", layout="CHW"), "mask": mask}


@pipeline
def random_policy(sample: Any) -> dict[str, Any]:
    image = rand_augment(ops.random_resized_crop(sample.image, size=224))
    return {"image": ops.normalize(image, dtype="float16", layout="CHW"), "label": sample.label}


@pipeline
def wide_policy(sample: Any) -> dict[str, Any]:
    image = trivial_augment_wide(ops.random_resized_crop(sample.image, size=224))
    return {"image": ops.normalize(image, dtype="float16", layout="CHW"), "label": sample.label}


@pipeline
def learned_policy(sample: Any) -> dict[str, Any]:
    image = auto_augment(ops.random_resized_crop(sample.image, size=224))
    return {"image": ops.normalize(image, dtype="float16", layout="CHW"), "label": sample.label}


PIPELINES = {
    made.name: made
    for made in (
        two_ops,
        classification,
        segmentation,
        random_policy,
        wide_policy,
        learned_policy,
    )
}


def child(name: str, cache: str) -> dict[str, float]:
    """Build one pipeline in this process; return CPU seconds by phase."""
    begun = time.process_time()
    from numba.core.registry import cpu_target  # noqa: PLC0415 - the import is measured

    from stoker.pipeline.compiled.executor import compile_plan  # noqa: PLC0415

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    imported = time.process_time()
    set_cache_root(cache)
    image, mask = np.zeros((375, 500, 3), np.uint8), np.zeros((375, 500), np.uint8)
    plan = PIPELINES[name].plan_for({"image": image, "mask": mask, "label": np.int64(1)})
    compile_plan(plan)
    return {"imports": imported - begun, "build": time.process_time() - imported}


def build(name: str, cache: Path) -> dict[str, float]:
    """Build one pipeline in a fresh process."""
    command = [sys.executable, __file__, "--child", name, str(cache)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(name: str, cache: Path, rounds: int) -> tuple[str, float]:
    """Return a pipeline's line of the table, and the CPU seconds of imports.

    The cache holds the functions that a pipeline calls. So a new pipeline of cached functions
    takes as long as one that was built before.
    """
    nothing = build(name, cache)["build"]
    again = [build(name, cache) for _ in range(rounds)]
    cached = min(found["build"] for found in again)
    return f"| {name} | {nothing:.2f} | {cached:.2f} |", min(found["imports"] for found in again)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return 0
    print("| pipeline | nothing cached | all that it calls cached |")
    print("|---|---|---|")
    imports = []
    with tempfile.TemporaryDirectory() as folder:
        for name in PIPELINES:
            line, seconds = measure(name, Path(folder, name), options.rounds)
            print(line, flush=True)
            imports.append(seconds)
    print(f"\nNot counted: imports and numba's tables, {min(imports):.2f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
