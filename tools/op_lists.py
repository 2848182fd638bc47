"""Write the lists that follow from the op files; `--check` only says whether they are right.

    python tools/op_lists.py            # after adding, moving or removing an op
    python tools/op_lists.py --check    # what a test does

The list is `server/stoker/ops/__init__.py`: every op class that a room registers, and the function
of the same file that users call. It is a file, not made at import, so that editors and type
checkers know the names. For them there is a second file, `__init__.pyi`: a function of an op
returns one value for one, and a tuple for several, which the function itself cannot declare.
"""

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OPS = Path(__file__).parents[1] / "server/stoker/ops"
ROOMS = ("geometry", "color", "filters", "values", "mixes")
MORE = {
    "bases.crop_numbers": ("crop_numbers",),
    "contract.forms": ("FoldKernel", "ItemsKernel", "Kernel"),
    "contract.op": ("Op", "Value"),
    "contract.states": ("ParameterError", "State", "StateError"),
    "contract.registry": ("at", "lookup", "make", "register", "register_earlier", "registered"),
    "contract.relative": ("keep_record",),
    "contract.drawn": ("drawn",),
    "contract.unlinked": ("unlinked",),
    "custom.define": ("define",),
    "custom.python": ("python",),
    "custom.python_call": ("PythonCall",),
    "custom.python_together": ("PythonTogether",),
    "geometry.five_crop": ("five_crop", "ten_crop"),
    "values.choices": ("Chance", "Integer", "OneOf", "SomeOf", "Uniform", "WeightedSomeOf"),
}  # fmt: skip
"""Names of modules that are not an op of one file."""
FROM_BELOW = {"stoker.jit": ("kernel",), "stoker.rng": ("draws",)}
"""Names from the packages below that authors of ops need."""
ALIASES = {"values.swap_keypoints": "Pairs", "color.rgb_shift": "Range"}
"""Names of types in the parameters of ops, by module."""
IMPORTS = ("--select=I,RUF022", "--fix-only", "--quiet")
UNBROKEN = "# Each declaration is one line, or the file would have 2,800.\n# fmt: off\n"
HEAD = '''"""Ops: the transforms that pipelines consist of.

Pipelines use the lower-case names (`image, mask = ops.horizontal_flip(image, mask, p=0.5)`);
the classes hold the parameters, for use as instances (`flip = ops.HorizontalFlip(0.5)`). Importing
this package registers all of its ops and imports no numba. Written by tools/op_lists.py.
"""
'''


TAIL = '''

if not TYPE_CHECKING:  # a type checker would take every name for an op

    def __getattr__(name: str) -> object:
        """Name the nearest op in the error for one that does not exist."""
        raise AttributeError(missing_message(name, __all__))
'''


def public_names(path: Path) -> tuple[str, ...]:
    """Return the op class and the function of an op's file.

    Raises:
        SystemExit: the file has no class that is registered, or no function of its op's name.
    """
    body = ast.parse(path.read_text()).body
    if any(decorators(node) == ["register_unlisted"] for node in body):
        return ()  # made by the planner, never written by users
    classes = [node for node in body if isinstance(node, ast.ClassDef) and decorators(node)]
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    if len(classes) != 1 or path.stem not in functions:
        sys.exit(
            f"{path}: expected one class under @register and a function {path.stem}, got the "
            f"classes {[node.name for node in classes]}; put helpers into ops/bases or ops/kernels"
        )
    return classes[0].name, path.stem


def decorators(node: ast.AST) -> list[str]:
    """Return the decorators of a class that register it as an op."""
    found = node.decorator_list if isinstance(node, ast.ClassDef) else []
    names = [decorator.id for decorator in found if isinstance(decorator, ast.Name)]
    return [name for name in names if name.startswith("register")]


def imports() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (module, names) of everything that `stoker.ops` offers."""
    yield from FROM_BELOW.items()
    for module, names in MORE.items():
        yield f"stoker.ops.{module}", names
    for room in ROOMS:
        for path in sorted((OPS / room).glob("*.py")):
            module = f"{room}.{path.stem}"
            known = path.stem == "__init__" or module in MORE
            if not known and (names := public_names(path)):
                yield f"stoker.ops.{module}", names


def written() -> str:
    """Return the text of `stoker/ops/__init__.py`."""
    found = sorted(imports())
    lines = [f"from {module} import {', '.join(names)}" for module, names in found]
    lines.append("from typing import TYPE_CHECKING")
    lines.append("from stoker.ops.contract.elsewhere import missing_message")
    text = "\n".join([HEAD, *lines, "", listed(), TAIL])
    return ruff("format", ruff("check", text, *IMPORTS))


def listed() -> str:
    """Return the line that lists all names."""
    names = sorted(name for _, some in imports() for name in some)
    return f"__all__ = [{', '.join(f'{name!r}' for name in names)}]"


def typed() -> str:
    """Return the text of `stoker/ops/__init__.pyi`."""
    lines, calls = [], []
    for module, names in sorted(imports()):
        path = OPS.parents[1] / (module.replace(".", "/") + ".py")
        functions = {} if module in FROM_BELOW else per_value(path)
        others = [f"{name} as {name}" for name in names if name not in functions]
        if others:
            lines.append(f"from {module} import {', '.join(others)}")
        for name, function in functions.items():
            if name in names:
                calls += overloads(function, path)
    lines.append("from typing import overload")
    lines.append("from stoker.pipeline.tracing.values import TracedValue")
    for module, name in ALIASES.items():
        lines.append(f"from stoker.ops.{module} import {name}")
    text = ruff("check", "\n".join([HEAD, *lines, UNBROKEN, listed()]), *IMPORTS)
    return "\n".join([text.rstrip("\n"), *calls, ""])


def per_value(path: Path) -> dict[str, ast.FunctionDef]:
    """Return the functions of a file that take any number of values alone, by name."""
    return {
        node.name: node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and node.args.vararg is not None
        and not node.args.args
        and ast.unparse(node.returns or ast.Constant(None)) == "Any"
        and not node.name.startswith("_")
    }


def overloads(function: ast.FunctionDef, path: Path) -> Iterator[str]:
    """Yield the declarations of an op's function, which are one for a fold."""
    named = function.args.kwonlyargs
    options = "".join(
        f", {arg.arg}: {ast.unparse(arg.annotation or ast.Constant(None))}{default(value)}"
        for arg, value in zip(named, function.args.kw_defaults, strict=True)
    )
    if "    folds: " in path.read_text():
        yield f"def {function.name}(*values: Value{options}) -> TracedValue: ..."
        return
    # A call with `*values` fits each of them, and type checkers take the first.
    for values, result in (
        ("first: Value, second: Value, third: Value, /, *more: Value", "tuple[TracedValue, ...]"),
        ("first: Value, second: Value, /", "tuple[TracedValue, TracedValue]"),
        ("value: Value, /", "TracedValue"),
    ):
        star = ", *" if options and "*" not in values else ""
        yield f"@overload\ndef {function.name}({values}{star}{options}) -> {result}: ..."


def default(value: ast.expr | None) -> str:
    """Return a default as a stub shows it: as it is, if it is made of literals."""
    if value is None:
        return ""
    try:
        return f" = {ast.literal_eval(value)!r}"
    except ValueError:
        return " = ..."


def ruff(command: str, text: str, *options: str) -> str:
    """Return a text as ruff leaves it."""
    name = str(OPS / "__init__.py")
    line = [sys.executable, "-m", "ruff", command, *options, "--stdin-filename", name, "-"]
    return subprocess.run(line, input=text, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Write or check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a list is wrong")
    files = {OPS / "__init__.py": written(), OPS / "__init__.pyi": typed()}
    if not parser.parse_args().check:
        for path, text in files.items():
            path.write_text(text)
        return 0
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in wrong:
        print(f"{path} does not list the ops that there are: run python tools/op_lists.py")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
