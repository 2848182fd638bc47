"""Write the files of a new op: its code with a reference, its test, and its place in every list.

    python tools/new_op.py warmth --room color

The op copies its input until you change it; one of `mixes` makes one image of several, and copies
the first. Everything around it is complete: it is registered, has a function for pipelines, passes
`check_op`, its test compares it with a reference, and docs/ops.md and docs/contracts/numeric.md
have its section; an op of `mixes` has no vectors. Then follow the checklist "How to add an op" in
CONTRIBUTING.md.
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
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import ByChance, begin
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.functions import function
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
from stoker.ops.contract.forms import FoldKernel
from stoker.ops.contract.functions import function
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

FOLD_SECTION = """## {name}

![A photograph before and after {name}](images/ops/{name}.jpg)

`{name}(*values)` — image. One sentence. No draw.

"""

ARITHMETIC = """## {name}

If `apply` is 1: each level stays. Else nothing changes.

"""
VECTOR = (
    ',\n {{"op": "{name}", "params": {{}}, "record": [1], "kind": "image", '
    '"in": [[[0], [255]]], "out": [[[0], [255]]]}}'
)
SIZES = "| autocontrast, brightness, "
"""The line of the table "at another size" for ops that change levels, and move nothing."""

SECTION = """## {name}

![A photograph before and after {name}](images/ops/{name}.jpg)

`{name}(*values, p=0.5)` — image. One sentence, with probability p.

| k | draw               | record             |
| - | ------------------ | ------------------ |
| 0 | applied if below p | `apply` u1: 0 or 1 |

"""


def write(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        SystemExit: it exists.
    """
    if path.exists():
        sys.exit(f"{path} exists: choose another name, or edit it")
    path.write_text(text)
    print(f"wrote {path}")


def add_section(page: Path, name: str, section: str) -> None:
    """Add the section of an op to docs/ops.md, in alphabetical order."""
    text = page.read_text()
    sections = [(found[1], found.start()) for found in re.finditer(r"^## (\w+)\n", text, re.M)]
    at = next((start for other, start in sections if other > name), len(text))
    page.write_text(text[:at] + section.format(name=name) + text[at:])
    print(f"added the section {name} to {page}")


def add_line(page: Path, name: str) -> None:
    """Say in docs/ops.md that the op does the same at another size."""
    before, after = page.read_text().split(SIZES, 1)
    names, rest = after.split(" |", 1)
    every = sorted([*SIZES.strip("| ").rstrip(",").split(", "), *names.split(", "), name])
    page.write_text(f"{before}| {', '.join(every)} |{rest}")


def add_vector(page: Path, name: str) -> None:
    """Add the arithmetic of an op to docs/contracts/numeric.md, and a vector of it."""
    text = page.read_text()
    at = text.index("## Another size\n")
    text = text[:at] + ARITHMETIC.format(name=name) + text[at:]
    end = text.rindex("\n]\n```")
    page.write_text(text[:end] + VECTOR.format(name=name) + text[end:])
    print(f"added the arithmetic and a vector of {name} to {page}")


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
    page = given.root / "docs/ops.md"
    add_section(page, given.name, FOLD_SECTION if mixes else SECTION)
    if not mixes:
        add_line(page, given.name)
        add_vector(given.root / "docs/contracts/numeric.md", given.name)
    subprocess.run([sys.executable, given.root / "tools/op_lists.py"], check=True)
    print("next: the checklist in CONTRIBUTING.md, from the kernel on")


if __name__ == "__main__":
    main()
