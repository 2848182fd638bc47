"""Write the files of a new op: its code with a reference, its test, and its place in every list.

    python tools/new_op.py warmth --room color

The op copies its input until you change it; everything around it is complete: it is registered, has
a function for pipelines, passes `check_op`, and its test compares both engines with a reference.
Then follow the checklist "How to add an op" in CONTRIBUTING.md.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("geometry", "color", "filters", "values")

OP = '''"""One sentence: what it does, with probability p, and which library does the same.

Draws: 0 applied if uniform < p.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import ByChance, begin
from stoker.ops.contract.op import Kernel, Value
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
@dataclass(frozen=True)
class {cls}(ByChance):
    """One sentence.

    Attributes:
        p: probability.
    """

    name: ClassVar[str] = "{name}"
    kernels: ClassVar[dict[str, Kernel]] = {{"image": Kernel(_run, _plain, in_place=True)}}


def {name}(
    *values: Value, p: float = 0.5, stream: str | None = None, relative: bool = False
) -> Any:
    """One sentence; see `{cls}`."""
    return {cls}(p)(*values, stream=stream, relative=relative)
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


def add_section(page: Path, name: str) -> None:
    """Add the section of an op to docs/ops.md, in alphabetical order."""
    text = page.read_text()
    sections = [(found[1], found.start()) for found in re.finditer(r"^## (\w+)\n", text, re.M)]
    at = next((start for other, start in sections if other > name), len(text))
    page.write_text(text[:at] + SECTION.format(name=name) + text[at:])
    print(f"added the section {name} to {page}")


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
    write(ops / given.room / f"{given.name}.py", OP.format(**words))
    write(tests / given.room / f"test_{given.name}.py", TEST.format(**words))
    add_section(given.root / "docs/ops.md", given.name)
    subprocess.run([sys.executable, given.root / "tools/op_lists.py"], check=True)
    print("next: the checklist in CONTRIBUTING.md, from the kernel on")


if __name__ == "__main__":
    main()
