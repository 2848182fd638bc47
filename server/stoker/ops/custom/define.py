"""An op from one function: the decorator `define`, for ops that keep size and dtype.

    @define(most=128)
    def fog(src, dst, params, record, scratch):
        ...

turns the kernel of images into the op class `fog`, with the parameter `most`; `fog(most=90)(image)`
calls it. Further functions add to the op: `@fog.draws(haze=int)` decides, `@fog.rule("mask")` is
the kernel of another kind, `@fog.rule("forward")` maps points. Each function is compiled;
uncompiled it is the plain form that the interpreter runs: slow, and with the same bits as long as
it does not depend on integer overflow. An op that needs more (other sizes or dtypes, scratch,
its own checks, a plain form in NumPy) is written as a class; see the guide "Write your own op".
Runs in the author's process and in workers, when a module is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameters import Flag, Number, ParameterRule, Whole
from stoker.ops.contract.states import ITEM_KINDS
from stoker.protocol.errors import BuildError

FORMATS: Final[Mapping[type, str]] = {bool: "u1", int: "i8", float: "f8"}
KINDS: Final = ("image", "mask", "array", "label", "scalar")
FORWARD: Final = "forward"
LARGEST: Final = 2**63 - 1
RESERVED: Final = frozenset(dir(Op)) | {"rule", "draws"}
F = TypeVar("F", bound=Callable[..., Any])


class Defined(Op):
    """Base of the ops that `define` makes; their parameters are single numbers."""

    def check(self) -> None:
        """Check that each parameter has the type of its default."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            checked = _rule_of(field.default).check(self.name, field.name, value)
            self.settle(**{field.name: checked})

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        if self.parameters.names == ("none",):
            return super().params()
        values = tuple(getattr(self, field.name) for field in dataclasses.fields(self))
        return np.array(values, self.parameters)

    @classmethod
    def rule(cls, kind: str) -> Callable[[F], F]:
        """Return the decorator that gives another kind its kernel, or the op its `forward`.

        Raises:
            BuildError: the kind is unknown or already has a rule, or is boxes or keypoints.
        """
        if kind in ITEM_KINDS:
            raise BuildError(
                f'{cls.name}: {kind} follow the map of @{cls.name}.rule("{FORWARD}"): a function '
                "of (params, record, sizes) that returns nine numbers"
            )
        taken = cls.forward is not None if kind == FORWARD else kind in cls.kernels
        if taken or kind not in (*KINDS, FORWARD):
            what = "has one already" if taken else f"expected one of {', '.join((*KINDS, FORWARD))}"
            raise BuildError(f"{cls.name}: rule for {kind!r}: {what}")

        def give(function: F) -> F:
            if kind == FORWARD:
                cls.forward = staticmethod(kernel(function))
            else:
                cls.kernels[kind] = Kernel(kernel(function), function)
            return function

        return give

    @classmethod
    def draws(cls, **fields: type) -> Callable[[F], F]:
        """Return the decorator of `draw(key, params, height, width, record)`.

        Args:
            fields: the fields of the record: name -> bool, int or float.

        Raises:
            BuildError: the op already draws, or a field has another type.
        """
        if cls.random or not fields or not set(fields.values()) <= set(FORMATS):
            what = "it already draws" if cls.random else f"got {fields or 'no fields'}"
            raise BuildError(
                f"{cls.name}: draws: expected once the fields of the record, each bool, int or "
                f"float: {what}"
            )

        def give(function: F) -> F:
            cls.draw = staticmethod(kernel(function))
            cls.record = np.dtype([(name, FORMATS[kind]) for name, kind in fields.items()])
            cls.random = True
            return function

        return give


def define(
    *, kind: str = "image", version: int = 1, **parameters: bool | float
) -> Callable[[Callable[..., Any]], type[Defined]]:
    """Return the decorator that makes an op from a kernel `run(src, dst, params, record, scratch)`.

    Args:
        kind: what the function transforms: image, mask, array, label or scalar.
        version: of the op; increase it with any change to a draw or a pixel.
        parameters: name -> default; a bool, int or float, which is also the parameter's type.

    Raises:
        BuildError: a parameter's default is not a number, or its name is used by ops; the
            function is not a plain function at the top level of a module.
    """
    for name, default in parameters.items():
        if type(default) not in FORMATS or name in RESERVED:
            what = "that name is in use" if name in RESERVED else f"got {default!r}"
            raise BuildError(
                f"define: parameter {name!r}: expected a default that is a bool, int or "
                f"float and a name that ops do not use: {what}"
            )

    def make(function: Callable[..., Any]) -> type[Defined]:
        fields = [(name, type(default), default) for name, default in parameters.items()]
        said: dict[str, Any] = {
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "name": function.__name__,
            "version": version,
            "kernels": {},
        }
        if fields:
            said["parameters"] = np.dtype([(name, FORMATS[kind]) for name, kind, _ in fields])
        made: type[Defined] = dataclasses.make_dataclass(
            function.__name__, fields, bases=(Defined,), namespace=said, frozen=True
        )
        made.rule(kind)(function)
        return made

    return make


def _rule_of(default: object) -> ParameterRule:
    """Return the rule of a parameter: its default says the type."""
    if isinstance(default, bool):
        return Flag()
    if isinstance(default, int):
        return Whole(-LARGEST - 1, LARGEST)
    most = float(np.finfo(np.float64).max)
    return Number(-most, most)
