"""docs/contracts/numeric.md and docs/ops.md say what the code does."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

from stoker import ops
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import lookup, make, registered
from stoker.ops.contract.registry import batch_ops, folds

DOCS = Path(__file__).parents[2] / "docs"
VECTORS = json.loads(
    re.search(r"```json\n(.*?)\n```", (DOCS / "contracts" / "numeric.md").read_text(), re.S)[1]
)


def test_every_op_has_a_vector():
    assert {case["op"] for case in VECTORS} | {"random_crop"} == set(registered())


@pytest.mark.parametrize("case", VECTORS, ids=[f"{v['op']}-{i}" for i, v in enumerate(VECTORS)])
def test_vectors(run_op, as_record, case):
    op = make(case["op"], case["params"])
    record = as_record(op.record)
    values = [tuple(v) if isinstance(v, list) else v for v in case["record"]]
    for name, value in zip(op.record.names, values, strict=False):
        record[name] = value
    source = np.array(case["in"], case.get("dtype", "uint8"))
    for arithmetic in (PLAIN, COMPILED):
        given = [(case["kind"], source)]
        (got,) = run_op(op, given, record=record, arithmetic=arithmetic).outputs
        if got.dtype.kind == "f":
            bits = got.view(f"u{got.itemsize}").ravel()
            assert [format(int(v), f"0{2 * got.itemsize}x") for v in bits] == case["out"], (
                arithmetic
            )
        else:
            assert got.tolist() == case["out"], arithmetic


def sections() -> dict[str, str]:
    parts = re.split(r"^## (\w+)\n", (DOCS / "ops.md").read_text(), flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_reference_lists_every_op_with_its_parameters_kinds_and_record():
    found = sections()
    every = {**registered(), **folds()}
    assert list(found) == sorted(every)
    for name, cls in every.items():
        signature = re.search(r"`" + name + r"\(\*values(?:, (.*))?\)` — (.*?)\.", found[name])
        assert signature, name
        given = re.findall(r"(\w+)(?==|,|$)", re.sub(r"=\([^)]*\)|=[^,]*", "", signature[1] or ""))
        parameters = list(inspect.signature(getattr(ops, name)).parameters)
        expected = [key for key in parameters[1:] if key not in ("stream", "relative")]
        assert given == expected, name
        assert all(kind in signature[2] for kind in cls.kinds()), name
        drawn = [field for field in cls.record.names if field != "none"]
        assert all(f"`{field}`" in found[name] for field in drawn), name
        assert ("| k" in found[name]) == cls.random, name


def test_reference_says_of_every_op_what_it_does_at_another_size():
    text = (DOCS / "ops.md").read_text()
    table = text.split("## One decision for values of different sizes", 1)[1].split("\n## ", 1)[0]
    lines = re.findall(r"^\| ([a-z0-9_, ]+) \| (.+) \|$", table, re.M)[1:]
    said = {name: rule for names, rule in lines for name in names.split(", ")}
    of_pixels = {n for n, cls in registered().items() if {"image", "mask"} & set(cls.kinds())}
    assert set(said) == of_pixels
    for name in of_pixels:
        assert said[name].startswith("refused") == (lookup(name).rescale is None), name


def _default(parameter: inspect.Parameter) -> str:
    """A default as the page writes it; nothing for a parameter that must be given."""
    return "" if parameter.default is parameter.empty else f"={parameter.default}"


def test_reference_lists_every_batch_op_with_its_parameters_kinds_and_record():
    text = (DOCS / "ops.md").read_text()
    parts = re.split(r"^### (\w+)\n", text, flags=re.M)[1:]
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    for name, cls in batch_ops().items():
        section = re.split(r"^## ", found[name], flags=re.M)[0]
        signature = re.search(r"`" + name + r"\(\*values, (.*)\)` — (.*?)\.", section)
        parameters = list(inspect.signature(getattr(ops, name)).parameters.items())[1:-1]
        given = ", ".join(name + _default(value) for name, value in parameters)
        assert signature[1] == given
        assert signature[2] == ", ".join(cls.kinds())
        assert all(f"`{field}`" in section for field in cls.record.names), name
