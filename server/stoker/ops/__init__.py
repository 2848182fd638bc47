"""Ops: the transforms that pipelines consist of.

Pipelines use the lower-case names (`image, mask = ops.horizontal_flip(image, mask, p=0.5)`);
the classes hold the parameters, for use as instances (`flip = ops.HorizontalFlip(0.5)`). Every op
file gives its class and its function to this package; it is imported, and so registered, when one
of them is first asked for, since all op files take a third of a second. Editors and type checkers
read both from `__init__.pyi`, which tools/op_lists.py writes. No numba is imported.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.jit import kernel
from stoker.ops.bases.crop_numbers import crop_numbers
from stoker.ops.contract import parameters
from stoker.ops.contract.drawn_numbers import drawn
from stoker.ops.contract.elsewhere import missing_message
from stoker.ops.contract.kernel_forms import FoldKernel, ItemsKernel, Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import (
    at,
    lookup,
    make,
    name_files,
    register,
    register_earlier,
    registered,
)
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.states import ParameterError, State, StateError
from stoker.ops.contract.unlinked import unlinked
from stoker.ops.custom.define import define
from stoker.ops.custom.python import python
from stoker.ops.custom.python_call import PythonCall
from stoker.ops.custom.python_together import PythonTogether
from stoker.ops.geometry.five_crop import five_crop, ten_crop
from stoker.ops.values.choice_ops import Chance, Integer, OneOf, SomeOf, Uniform, WeightedSomeOf
from stoker.rng import draws

ROOMS = ("geometry", "color", "filters", "values", "mixes")
"""Folders of op files."""
UNLISTED = (
    "__init__",
    "choice_ops",
    "five_crop",
    "random_resized_crop_scaled",
    "resize_center_crop",
    "resize_long_scaled",
    "resize_scaled",
    "resize_short_scaled",
)
"""Files there that have no op for users by their name."""

__all__ = [
    "Chance",
    "FoldKernel",
    "Integer",
    "ItemsKernel",
    "Kernel",
    "OneOf",
    "Op",
    "ParameterError",
    "PythonCall",
    "PythonTogether",
    "SomeOf",
    "State",
    "StateError",
    "Uniform",
    "Value",
    "WeightedSomeOf",
    "at",
    "crop_numbers",
    "define",
    "drawn",
    "draws",
    "five_crop",
    "function",
    "keep_record",
    "kernel",
    "lookup",
    "make",
    "parameters",
    "python",
    "register",
    "register_earlier",
    "registered",
    "ten_crop",
    "unlinked",
]

_files = {
    path.stem: f"{__name__}.{room}.{path.stem}"
    for room in ROOMS
    for path in Path(__file__).with_name(room).glob("*.py")
}
name_files(_files)
_places = {
    name: module
    for op, module in _files.items()
    if op not in UNLISTED
    for name in (op, op.title().replace("_", ""))
}
__all__.extend(_places)
__all__.sort()

if not TYPE_CHECKING:  # a type checker would take every name for an op

    def __getattr__(name: str) -> object:
        """Import the file of an op; the error for one that does not exist names the nearest.

        Inspecting tools look for private names in every module: their error is short and fast.
        """
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name not in _places:
            raise AttributeError(missing_message(name, __all__))
        found = globals()[name] = getattr(import_module(_places[name]), name)
        return found

    def __dir__() -> list[str]:
        """Return all names, also of ops that are not imported yet."""
        return sorted({*globals(), *__all__})
