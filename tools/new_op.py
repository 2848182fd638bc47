"""Write the files of a new op: its code with a reference, and its test.

    python tools/new_op.py warmth --room color

The op copies its input until you change it; one of `mixes` makes one image of several, and copies
the first. Everything around it is complete: it is registered, has a function for pipelines, passes
`check_op`, and its test compares it with a reference. tools/op_lists.py then writes what pages and
the stub say of it. Then follow the checklist "How to add an op" in CONTRIBUTING.md.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("geometry", "color", "filters", "values", "mixes")

OP = '''"""One sentence: what it does, with probability p, and which library does the same.

Draws: 0 applied if uniform < p.

If `apply` is 1, each level stays.
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import ByChance, begin
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        for i in range(image.size):
            image[i] = image[i]


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src


@register
class {cls}(ByChance):
    """One sentence."""

    kernels = {{"image": Kernel(_run, _plain, in_place=True)}}


{name} = function({cls})
'''

FOLD = '''"""One sentence: what it makes of several images, and which library does the same."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.folds import Fold
from stoker.ops.contract.kernel_forms import FoldKernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State
from stoker.ops.kernels.runs import copy_run


@kernel
def _run(
    src: Any, place: int, count: int, dst: Any, params: Any, record: Any, scratch: Any
) -> None:
    if place == 0:
        copy_run(src.reshape(src.size), 0, dst.reshape(dst.size), 0, src.size)


def _plain(srcs: Sequence[np.ndarray], dst: np.ndarray, params: Any, record: Any) -> None:
    dst[...] = srcs[0]


@register
class {cls}(Fold):
    """One sentence."""

    folds = {{"image": FoldKernel(_run, _plain)}}

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return an image of the inputs' size."""
        self.require_alike(states)
        return states[:1], 0


{name} = function({cls})
'''

TEST = '''"""{name} against a plain reference."""

import numpy as np
import pytest

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import {cls}


def reference(image: np.ndarray) -> np.ndarray:
    """Compute what the op should give, with another library."""
    return image


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_it_is_the_reference(run_op, photo, arithmetic):
    (out,) = run_op({cls}(p=1), [("image", photo)], arithmetic=arithmetic).outputs
    assert np.array_equal(out, reference(photo))


def test_without_chance_nothing_changes(run_op, photo):
    (out,) = run_op({cls}(p=0), [("image", photo)]).outputs
    assert np.array_equal(out, photo)
'''

FOLD_TEST = '''"""{name} against a plain reference."""

import numpy as np
import pytest

from stoker import ops
from stoker.pipeline import pipeline


def reference(images: list[np.ndarray]) -> np.ndarray:
    """Compute what the op should give, with another library."""
    return images[0]


@pytest.mark.parametrize("compiled", [False, True])
def test_it_is_the_reference(photo, compiled):
    train = pipeline(lambda sample: {{"image": ops.{name}(sample.a, sample.b)}})
    images = [photo, np.ascontiguousarray(photo[::-1])]
    found = train(dict(zip("ab", images, strict=True)), compiled=compiled)
    assert np.array_equal(found["image"], reference(images))
'''


def write(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        SystemExit: it exists.
    """
    if path.exists():
        sys.exit(f"{path} exists: choose another name, or edit it")
    path.write_text(text)
    print(f"wrote {path}")


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="in lower case, words joined by _: what users call")
    parser.add_argument("--room", required=True, choices=ROOMS, help="what the op changes")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", given.name):
        parser.error(f"name: expected lower case words joined by _, got {given.name!r}")
    words = {"name": given.name, "cls": given.name.title().replace("_", "")}
    ops, tests = given.root / "server/stoker/ops", given.root / "tests/ops"
    mixes = given.room == "mixes"
    write(ops / given.room / f"{given.name}.py", (FOLD if mixes else OP).format(**words))
    test = FOLD_TEST if mixes else TEST
    write(tests / given.room / f"test_{given.name}.py", test.format(**words))
    subprocess.run([sys.executable, given.root / "tools/op_lists.py"], check=True)
    print("next: the checklist in CONTRIBUTING.md, from the kernel on")


if __name__ == "__main__":
    main()
