"""The placeholders that a pipeline function receives while it is traced: the sample and its values.

A `TracedValue` accepts ops, arithmetic and comparisons, and writes each into the graph through its
tracer. Everything else that Python would do with a number or an array (branch, iterate, read
pixels) raises a `BuildError` that names the user's line and the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NoReturn

from stoker.ops.contract.op import Value
from stoker.pipeline.graph.sites import Site, user_site
from stoker.pipeline.tracing.operators import GraphRecorder, Operators
from stoker.protocol.errors import BuildError


def fault(message: str, site: Site | None = None, **details: str | int) -> BuildError:
    """Return a BuildError that begins with the user's file and line."""
    site = user_site() if site is None else site
    return BuildError(f"{site}: {message}", file=site.file, line=site.line, **details)


def not_a_value(where: str, given: object) -> BuildError:
    """Return the error for something that is neither a value of the sample nor a number."""
    hint = ""
    if isinstance(given, str):
        hint = (
            f" {given!r}. Text is the name of a class: compare it with a label of the sample "
            'itself, as in `sample.label == "cat"`'
        )
    return fault(
        f"{where}: expected a field of the sample, a value made from one, or a number, got "
        f"{type(given).__name__}{hint}"
    )


_FACTS = frozenset({"height", "width", "count", "mean", "max", "min"})
_ELSEWHERE = {
    "astype": "ops.cast",
    "clip": "ops.from_float, or an op of your own (ops.define)",
    "copy": "the value itself, which ops never change",
    "float": "ops.to_float",
    "numpy": "ops.python, which gives a function the pixels",
    "permute": "ops.layout",
    "shape": "height and width",
    "size": "height and width",
    "sum": "mean()",
    "T": "ops.transpose",
    "to": "ops.cast",
}
"""Names that arrays of other libraries have -> what to use here."""


class Unusable(Value):
    """A value that must not be used; every use raises its error."""

    def refuse(self, site: Site | None = None) -> NoReturn:
        """Raise it at a line of user code; by default the running one."""
        raise fault("a value that cannot be used", site)


class TracedValue(Operators):
    """A value of the sample that is not known yet; ops, arithmetic and comparisons accept it."""

    __hash__ = Operators.__hash__
    __array_priority__ = 1000.0
    """Makes NumPy scalars on the left of an operator defer to this value."""

    def __init__(
        self, tracer: GraphRecorder, number: int, what: str, *, linked: bool = True
    ) -> None:
        self.tracer = tracer
        self.number = number
        self.what = what
        self.linked = linked
        self.block = tracer.block

    def __repr__(self) -> str:
        return f"<{self.what}, decided for each sample>"

    @property
    def height(self) -> Any:
        """Height of an image or mask in pixels, of each sample."""
        return self.tracer.expr("height", self)

    @property
    def width(self) -> Any:
        """Width of an image or mask in pixels, of each sample."""
        return self.tracer.expr("width", self)

    @property
    def count(self) -> Any:
        """Number of boxes or keypoints of each sample."""
        return self.tracer.expr("count", self)

    def mean(self, *given: object, **named: object) -> Any:
        """Mean level of an image or mask, over all pixels and channels; a float64."""
        return self._statistic("mean", given, named)

    def max(self, *given: object, **named: object) -> Any:
        """Maximum level of an image or mask; an int64."""
        return self._statistic("max", given, named)

    def min(self, *given: object, **named: object) -> Any:
        """Minimum level of an image or mask; an int64."""
        return self._statistic("min", given, named)

    def _statistic(self, name: str, given: object, named: object) -> Any:
        """Called by NumPy's function of that name, with arguments that are not supported."""
        if given or named:
            raise fault(
                f"{self.what}: NumPy cannot be called inside a pipeline, and {name} takes no "
                f"argument: it covers the whole value, as in sample.image.{name}()"
            )
        return self.tracer.expr(name, self)

    def __bool__(self) -> bool:
        raise fault(
            f"{self.what} is decided for each sample, so Python cannot branch on it here. In a "
            "`def` under @pipeline `if`, the ternary, `and`, `or` and `not` are rewritten for you; "
            "put @branching over a helper function that branches, and make a lambda a `def`"
        )

    def __iter__(self) -> Iterator[Any]:
        raise fault(
            f"{self.what} cannot be iterated over: a pipeline describes one sample at a time"
        )

    def __len__(self) -> int:
        raise fault(
            f"{self.what} has no length yet: `.count` is the number of boxes or keypoints, "
            "`.height` and `.width` are the sides of an image or mask"
        )

    def __getitem__(self, _: object) -> NoReturn:
        raise fault(f"{self.what} cannot be indexed or sliced: use an op, such as ops.center_crop")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        near = difflib.get_close_matches(name, _FACTS, 1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        if name in _ELSEWHERE:
            hint = f": use {_ELSEWHERE[name]}"
        known = ", ".join(sorted(_FACTS))
        raise fault(f"{self.what} has no {name!r}{hint}; it has {known}. Pixels are changed by ops")

    def _refuse_call(self, *_: object, **__: object) -> NoReturn:
        raise fault(
            f"{self.what} is a value of each sample, not a function: leave the parentheses out, as "
            "in sample.boxes.count"
        )

    __call__ = _refuse_call

    def _as_number(self, *_: object) -> NoReturn:
        raise fault(
            f"{self.what} differs per sample, so it has no Python value while the pipeline is "
            "traced: use it in + - * / // %, in comparisons, and in the returned dict"
        )

    __int__ = __float__ = __index__ = __round__ = __abs__ = _as_number
    __pow__ = __rpow__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = __matmul__ = _as_number

    def __array__(self, *_: object, **__: object) -> Any:
        raise fault(
            f"{self.what} has no pixels yet: NumPy cannot be called inside a pipeline. Write an op "
            "(docs/pipelines.md) that does it for each sample"
        )


class TracedSample:
    """The argument of a pipeline function: `sample.field` and `sample["field"]` are its fields.

    `sample["stoker.epoch"]` and `sample["stoker.view"]` are facts about the row.
    """

    def __init__(self, tracer: GraphRecorder) -> None:
        self._tracer = tracer

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str) or not name:
            raise fault(f"expected the name of a field as a string, got {name!r}")
        return self._tracer.input(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        raise fault(
            "the fields of a sample cannot be iterated over: they are known only when a dataset is "
            "bound; name the fields that you use"
        )


def tracer_of(sample: TracedSample) -> GraphRecorder:
    """Return the pipeline under construction; not a member, as a field may have any name."""
    return sample._tracer
