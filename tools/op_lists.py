"""Write what follows from the op files; `--check` only says whether it is right.

    python tools/op_lists.py            # after adding, moving, changing or removing an op
    python tools/op_lists.py --check    # what a test does

It is `server/stoker/ops/__init__.pyi`, which tells editors and type checkers the names of
`stoker.ops`: every op class, and the function of the same file that users call, which returns one
value for one, and a tuple for several; and what docs/ops.md, docs/contracts/numeric.md and
docs/guides/parameters-of-each-row.md say of ops (`op_pages`).
"""

import argparse
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from op_pages import numeric_page, ops_page, rows_page

from stoker import ops
from stoker.ops.contract.registry import folds

OPS = Path(ops.__file__).parent
DOCS = OPS.parents[2] / "docs"
IMPORTS = ("--select=I,RUF022", "--fix-only", "--quiet")
UNBROKEN = "# Each declaration is one line, or the file would have 2,800.\n# fmt: off\n"
HEAD = '"""Names of `stoker.ops` for editors and type checkers, by tools/op_lists.py."""\n'


def typed() -> str:
    """Return the text of `stoker/ops/__init__.pyi`."""
    lines, calls = [], []
    for name in ops.__all__:
        value = getattr(ops, name)
        if inspect.isfunction(value) and returns_results(value):
            calls += declared(name, value)
        else:
            of_module = inspect.ismodule(value)
            module = value.__name__.rpartition(".")[0] if of_module else value.__module__
            lines.append(f"from {module} import {name} as {name}")
    lines.append("from stoker.pipeline.tracing.values import TracedValue")
    lines.append("from typing import overload")
    listed = f"__all__ = {json.dumps(ops.__all__)}"
    text = ruff("check", "\n".join([HEAD, *lines, UNBROKEN, listed]), *IMPORTS)
    return "\n".join([text.rstrip("\n"), *calls, ""])


def returns_results(function: Callable[..., Any]) -> bool:
    """Return whether a function takes any number of values, and returns a result for each."""
    signature = inspect.signature(function)
    first = [one.kind for one in signature.parameters.values()][:1]
    return first == [inspect.Parameter.VAR_POSITIONAL] and signature.return_annotation in (
        Any,
        "Any",
    )


def declared(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield the declarations of an op's function."""
    parameters = list(inspect.signature(function).parameters.values())
    options = "".join(f", {text_of(one)}" for one in parameters[1:])
    if name in folds():
        yield f"def {name}(*values: Value{options}) -> TracedValue: ..."
        return
    # A call with `*values` fits each of them, and type checkers take the first.
    for values, result in (
        ("first: Value, second: Value, third: Value, /, *more: Value", "tuple[TracedValue, ...]"),
        ("first: Value, second: Value, /", "tuple[TracedValue, TracedValue]"),
        ("value: Value, /", "TracedValue"),
    ):
        star = ", *" if options and "*" not in values else ""
        yield f"@overload\ndef {name}({values}{star}{options}) -> {result}: ..."


def text_of(parameter: inspect.Parameter) -> str:
    """Return a keyword of a function as a stub shows it."""
    kind = parameter.annotation
    known = kind.__name__ if type(kind) is type else str(kind).replace("typing.", "")
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{parameter.name}: {known}{default}"


def ruff(command: str, text: str, *options: str) -> str:
    """Return a text as ruff leaves it."""
    name = str(OPS / "__init__.py")
    line = [sys.executable, "-m", "ruff", command, *options, "--stdin-filename", name, "-"]
    return subprocess.run(line, input=text, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Write or check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a list is wrong")
    pages = {
        DOCS / "ops.md": ops_page,
        DOCS / "contracts/numeric.md": numeric_page,
        DOCS / "guides/parameters-of-each-row.md": rows_page,
    }
    files = {path: renew(path.read_text()) for path, renew in pages.items() if path.exists()}
    files[OPS / "__init__.pyi"] = typed()
    if not parser.parse_args().check:
        for path, text in files.items():
            path.write_text(text)
        return 0
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in wrong:
        print(f"{path} does not say what the op files do: run python tools/op_lists.py")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
