"""Write the lists that follow from the op files; `--check` only says whether they are right.

    python tools/op_lists.py            # after adding, moving or removing an op
    python tools/op_lists.py --check    # what a test does

The list is `server/stoker/ops/__init__.py`: every op class that a room registers, and the function
of the same file that users call. It is a file, not made at import, so that editors and type
checkers know the names.
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
"""What authors of ops need from the packages below."""
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
    names = sorted(name for _, some in found for name in some)
    listed = ", ".join(f'"{name}"' for name in names)
    text = "\n".join([HEAD, *lines, "", f"__all__ = [{listed}]", TAIL])
    return ruff("format", ruff("check", text, "--select=I,RUF022", "--fix-only", "--quiet"))


def ruff(command: str, text: str, *options: str) -> str:
    """Return a text as ruff leaves it."""
    name = str(OPS / "__init__.py")
    line = [sys.executable, "-m", "ruff", command, *options, "--stdin-filename", name, "-"]
    return subprocess.run(line, input=text, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Write or check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a list is wrong")
    path, text = OPS / "__init__.py", written()
    if parser.parse_args().check:
        if path.read_text() == text:
            return 0
        print(f"{path} does not list the ops that there are: run python tools/op_lists.py")
        return 1
    path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
