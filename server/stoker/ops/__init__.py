"""Ops: the transforms that pipelines consist of.

Pipelines use the lower-case names (`image, mask = ops.horizontal_flip(image, mask, p=0.5)`);
the classes hold the parameters, for use as instances (`flip = ops.HorizontalFlip(0.5)`). Importing
this package imports all of its op files, which registers them, and imports no numba. Every op file
gives its class and its function to this package; editors and type checkers read both from
`__init__.pyi`, which tools/op_lists.py writes.
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
    listed,
    lookup,
    make,
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

for _path in sorted(path for room in ROOMS for path in Path(__file__).with_name(room).glob("*.py")):
    _module = import_module(f"{__name__}.{_path.parent.name}.{_path.stem}")
    if _path.stem in listed():
        _cls = listed()[_path.stem]
        globals().update({_cls.__name__: _cls, _cls.name: getattr(_module, _cls.name)})
        __all__.extend((_cls.__name__, _cls.name))
__all__.sort()

if not TYPE_CHECKING:  # a type checker would take every name for an op

    def __getattr__(name: str) -> object:
        """Name the nearest op in the error for one that does not exist.

        Inspecting tools look for private names in every module: their error is short and fast.
        """
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise AttributeError(missing_message(name, __all__))
