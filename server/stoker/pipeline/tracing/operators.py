"""Operators of values that are not known yet: each is written into the graph as an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from stoker.ops.contract.op import Tracer, Value


class GraphRecorder(Tracer, Protocol):
    """The interface of the graph under construction that values use."""

    @property
    def block(self) -> int:
        """Number of the block being traced; 0 outside of every `if`."""
        ...

    def input(self, name: str) -> Any:
        """Return the value of a field."""
        ...

    def expr(self, op: str, *args: object, name: str = "") -> Any:
        """Append an expression."""
        ...

    def also(self, left: Any, right: Callable[[], object], *, ends: bool) -> Any:
        """Append `and` (`ends` is False) or `or` (True)."""
        ...


class Operators(Value):
    """Comparisons, arithmetic and logic; the results are values too."""

    tracer: GraphRecorder
    __hash__ = Value.__hash__

    def __eq__(self, other: object) -> Any:
        return self.tracer.expr("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return self.tracer.expr("ne", self, other)

    def __lt__(self, other: object) -> Any:
        return self.tracer.expr("lt", self, other)

    def __le__(self, other: object) -> Any:
        return self.tracer.expr("le", self, other)

    def __gt__(self, other: object) -> Any:
        return self.tracer.expr("gt", self, other)

    def __ge__(self, other: object) -> Any:
        return self.tracer.expr("ge", self, other)

    def __add__(self, other: object) -> Any:
        return self.tracer.expr("add", self, other)

    def __radd__(self, other: object) -> Any:
        return self.tracer.expr("add", other, self)

    def __sub__(self, other: object) -> Any:
        return self.tracer.expr("sub", self, other)

    def __rsub__(self, other: object) -> Any:
        return self.tracer.expr("sub", other, self)

    def __mul__(self, other: object) -> Any:
        return self.tracer.expr("mul", self, other)

    def __rmul__(self, other: object) -> Any:
        return self.tracer.expr("mul", other, self)

    def __truediv__(self, other: object) -> Any:
        return self.tracer.expr("div", self, other)

    def __rtruediv__(self, other: object) -> Any:
        return self.tracer.expr("div", other, self)

    def __floordiv__(self, other: object) -> Any:
        return self.tracer.expr("floordiv", self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return self.tracer.expr("floordiv", other, self)

    def __mod__(self, other: object) -> Any:
        return self.tracer.expr("mod", self, other)

    def __rmod__(self, other: object) -> Any:
        return self.tracer.expr("mod", other, self)

    def __neg__(self) -> Any:
        return self.tracer.expr("neg", self)

    def __and__(self, other: object) -> Any:
        return self.tracer.expr("and", self, other)

    def __rand__(self, other: object) -> Any:
        return self.tracer.expr("and", other, self)

    def __or__(self, other: object) -> Any:
        return self.tracer.expr("or", self, other)

    def __ror__(self, other: object) -> Any:
        return self.tracer.expr("or", other, self)

    def __invert__(self) -> Any:
        return self.tracer.expr("not", self)
