"""What docs/ops.md and docs/contracts/numeric.md say of an op, as its file declares it.

`tools/op_lists.py` writes it. Of a section that exists, the call and the table of parameters follow
the op; the text around them is written by hand. An op without a section gets one, with the text of
its docstrings, and a vector that its plain form gives.
"""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from stoker import ops
from stoker.ops.bases.row_parameters import row_value
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameters import meanings_of, rules_of
from stoker.ops.contract.registry import folds, registered
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.states import State
from stoker.ops.testing import structured
from stoker.pipeline.planning.agreement.geometric_history import moves
from stoker.pipeline.planning.op_declarations import declared
from stoker.pipeline.planning.row_parameters import RowParameter, check_trials
from stoker.pipeline.planning.value_scales import scaled
from stoker.protocol.errors import StokerError

KINDS = (
    *("image", "mask", "flow", "normals", "boxes", "keypoints"),
    *("array", "label", "scalar", "bytes"),
)
OF_ROWS = "| parameters | ops |\n| --- | --- |\n"
PARAMETERS = "| parameter | values | meaning |\n| --- | --- | --- |\n"
SIZES = "they change levels, and move nothing |"
"""The end of the row of docs/ops.md that names the ops whose result does not depend on the size."""
IMAGE = State.fixed("image", "uint8", (64, 64, 3))
LEVELS = (0, 90, 255)
"""Levels of the pixels of a new vector."""
WITHOUT_VECTOR = ("random_crop",)
"""Ops whose arithmetic is that of another op."""


def ops_page(text: str) -> str:
    """Return docs/ops.md as the ops are declared."""
    parts = re.split(r"^(?=## )", text, flags=re.M)
    found = {part.split("\n", 1)[0][3:]: part for part in parts}
    every = {**registered(), **folds()}
    for name, cls in every.items():
        known = found.get(name, "")
        found[name] = renewed(known, cls) if known else new_section(cls)
    first = parts.index(next(part for part in parts if part.split("\n", 1)[0][3:] in every))
    last = [part for part in parts[first:] if part.split("\n", 1)[0][3:] not in every]
    page = "".join([*parts[:first], *(found[name] for name in sorted(every)), *last])
    row = next(line for line in page.splitlines() if line.endswith(SIZES))
    return page.replace(row, f"| {', '.join(sorted(of_any_size()))} | {SIZES}")


def rows_page(text: str) -> str:
    """Return docs/guides/parameters-of-each-row.md with the parameters that take such a number."""
    found: dict[str, list[str]] = {}
    for name, cls in registered().items():
        taken = [f"`{one}`" for one in rules_of(cls) if takes_row_value(cls, one)]
        if taken and not cls.by_user and hasattr(ops, name):
            found.setdefault(", ".join(taken), []).append(name)
    lines = [
        f"| {taken} | {', '.join(f'`{name}`' for name in sorted(names))} |\n"
        for taken, names in sorted(found.items())
    ]
    before, rest = text.split(OF_ROWS, 1)
    after = rest.split("\n\n", 1)[1]
    return f"{before}{OF_ROWS}{''.join(lines)}\n{after}"


def takes_row_value(cls: type[Op], name: str) -> bool:
    """Return whether a parameter of an op may be a number of each row, for images of one size."""
    rule = row_value(cls, name)
    if rule is None:
        return False
    op = cls(**next(iter(cls.examples), {}))
    try:
        state = scaled(op, IMAGE, declared(op, (IMAGE,))[0])
        check_trials(op, (RowParameter(name, 0, rule),), (IMAGE,), state)
    except StokerError:
        return False
    return True


def of_any_size() -> Iterator[str]:
    """Yield the ops that do the same to values of any size, and move nothing."""
    for name, cls in registered().items():
        pixels = {"image", "mask"} & {*cls.kinds()}
        if pixels and cls.rescale is keep_record and not moves(cls, resized=False):
            yield name


def renewed(section: str, cls: type[Op]) -> str:
    """Return a section with the call and the parameters of its op."""
    before = re.compile(rf"`{cls.name}\(\*values.*?\)`", re.S)
    section = before.sub(lambda _: call(cls), section, count=1)
    section = re.sub(rf"{re.escape(PARAMETERS)}(\|.*\n)*\n", "", section)
    table = parameters(cls)
    head, draws, rest = section.partition("\n| k")
    return f"{head}\n{table}{draws[1:]}{rest}" if draws else f"{head.rstrip()}\n\n{table}"


def call(cls: type[Op]) -> str:
    """Return how users call an op."""
    keywords = list(inspect.signature(getattr(ops, cls.name)).parameters.values())[1:]
    shown = [
        one.name if one.default is one.empty else f"{one.name}={text_of(one.default)}"
        for one in keywords
        if one.name not in ("stream", "relative")
    ]
    return f"`{cls.name}({', '.join(['*values', *shown])})`"


def text_of(value: object) -> str:
    """Return a default as the page writes it."""
    if isinstance(value, tuple):
        return f"({', '.join(map(text_of, value))})"
    if isinstance(value, float) and value == float(f"{value:g}"):
        return f"{value:g}"
    return json.dumps(value) if isinstance(value, str) else str(value)


def parameters(cls: type[Op]) -> str:
    """Return the table of an op's declared parameters; empty if it has none but `p`."""
    rules = rules_of(cls)
    lines = [
        f"| `{name}` | {rules[name].text} | {meaning} |\n"
        for name, meaning in meanings_of(cls).items()
        if name in rules and name != "p"
    ]
    return PARAMETERS + "".join(lines) + "\n" if lines else ""


def new_section(cls: type[Op]) -> str:
    """Return the section of an op that has none yet."""
    kinds = ", ".join(kind for kind in KINDS if kind in cls.kinds())
    about = " ".join((cls.__doc__ or "").split())
    picture = f"![A photograph before and after {cls.name}](images/ops/{cls.name}.jpg)"
    text = f"{call(cls)} — {kinds}. {about}" + ("" if cls.random else " No draw.")
    return f"## {cls.name}\n\n{picture}\n\n{text}\n\n{parameters(cls)}{draws(cls)}"


def draws(cls: type[Op]) -> str:
    """Return the table of an op's draws, from the sentence of its file that begins with Draws."""
    if not cls.random:
        return ""
    said = module_text(cls).partition("Draws: ")[2].partition(".\n")[0].rstrip(".")
    rows = [re.match(r"([\d, and]*\d) (.*)", " ".join(part.split())) for part in said.split(";")]
    fields = ", ".join(f"`{name}` {cls.record[name]}" for name in cls.record.names or ())
    lines = [f"| {row[1]} | {row[2]} | |" for row in rows if row] or ["| | | |"]
    lines[0] = lines[0].removesuffix("|") + f"{fields} |"
    return "\n".join(["| k | draw | record |", "| - | --- | --- |", *lines, "", ""])


def module_text(cls: type[Op]) -> str:
    """Return the docstring of an op's file, without its first line."""
    return (inspect.getdoc(inspect.getmodule(cls)) or "").partition("\n\n")[2]


def numeric_page(text: str) -> str:
    """Return docs/contracts/numeric.md with the arithmetic and a vector of every op."""
    vectors = json.loads(text.split("```json\n", 1)[1].split("```", 1)[0])
    for name, cls in registered().items():
        if name in WITHOUT_VECTOR or name in {case["op"] for case in vectors}:
            continue
        at = text.index("## Another size\n")
        text = f"{text[:at]}## {name}\n\n{module_text(cls)}\n\n{text[at:]}"
        end = text.rindex("\n]\n```")
        text = f"{text[:end]},\n {json.dumps(vector(cls))}{text[end:]}"
    return text


def vector(cls: type[Op]) -> dict[str, Any]:
    """Return what the plain form of an op makes of a few pixels."""
    channels = min(cls.image_channels[-1], 3)
    image = np.array([[[level] * channels for level in LEVELS]], np.uint8)
    op = cls(**{name: 1 for name in ("p",) if name in cls.__dataclass_fields__})
    drawn = op.sample(1, len(LEVELS))
    params, record = structured(op.parameters, op.params()), structured(op.record)
    for field, value in drawn.items():
        record[field] = value
    out = np.empty_like(image)
    op.kernels["image"].plain(image, out, params, record, None)
    return {
        "op": op.name, "params": op.params_data(), "record": list(drawn.values()),
        "kind": "image", "in": image.tolist(), "out": out.tolist(),
    }  # fmt: skip
