"""The placeholders that a pipeline function receives while it is traced: the sample and its values.

A `TracedValue` accepts ops, arithmetic and comparisons, and writes each into the graph through its
tracer. Everything else that Python would do with a number or an array (branch, iterate, read
pixels) raises a `BuildError` that names the user's line and the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NoReturn

from stoker.ops.contract.numbers import settled
from stoker.ops.contract.op import Value
from stoker.pipeline.graph.nodes import MAX_ARGS, STATISTICS
from stoker.pipeline.graph.sites import Site
from stoker.pipeline.tracing.operators import GraphRecorder, Operators
from stoker.pipeline.tracing.value_refusals import Refusals, fault
from stoker.protocol.errors import BuildError
from stoker.protocol.spec import as_integer


def not_a_value(where: str, given: object) -> BuildError:
    """Return the error for something that is neither a value of the sample nor a number."""
    hint = ""
    if isinstance(given, str):
        hint = (
            f" {given!r}. Text is the name of a class: compare it with a label of the sample "
            'itself, as in `sample.label == "cat"`'
        )
    if isinstance(given, list | tuple):
        hint = (
            ". An array of your own cannot take part: use numbers, store it as a field of the "
            "dataset, or call a function of your own, as in ops.python(function, value)"
        )
    return fault(
        f"{where}: expected a field of the sample, a value made from one, or a number, got "
        f"{type(given).__name__}{hint}"
    )


def _told(index: object) -> str:
    """Return how a message names an index."""
    if isinstance(index, slice):
        return "a slice"
    return "..." if index is ... else f"{type(index).__name__} {index!r}"


_FACTS = frozenset({"height", "width", "count", "shape", *STATISTICS})
_ELSEWHERE = {
    "astype": "ops.cast",
    "clip": "ops.clip, which takes images",
    "copy": "the value itself, which ops never change",
    "dtype": "ops.cast, which gives it the dtype that you name",
    "float": "ops.to_float",
    "item": "an index, as in sample.vector[0]",
    "ndim": "the number of sides that the dataset gives it",
    "numpy": "ops.python, which gives a function the pixels",
    "permute": "ops.layout",
    "reshape": "ops.python, or another shape when the dataset is packed",
    "size": "height and width, or the product of its sides, value.shape[0] * value.shape[1]",
    "std": "mean() and sum(), or ops.python",
    "T": "ops.transpose",
    "to": "ops.cast",
}
"""Names that arrays of other libraries have -> what to use here."""


class Unusable(Value):
    """A value that must not be used; every use raises its error."""

    def refuse(self, site: Site | None = None) -> NoReturn:
        """Raise it at a line of user code; by default the running one."""
        raise fault("a value that cannot be used", site)


class TracedValue(Refusals, Operators):
    """A value of the sample that is not known yet; ops, arithmetic and comparisons accept it."""

    __hash__ = Operators.__hash__
    __array_priority__ = 1000.0
    """Makes NumPy scalars on the left of an operator defer to this value."""

    def __init__(
        self,
        tracer: GraphRecorder,
        number: int,
        what: str,
        *,
        linked: bool = True,
        block: int | None = None,
    ) -> None:
        self.tracer = tracer
        self.number = number
        self.what = what
        self.linked = linked
        self.block = tracer.block if block is None else block

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

    @property
    def shape(self) -> TracedShape:
        """The sides of an image, mask or array; `shape[0]` is a number of each sample."""
        return TracedShape(self)

    def mean(self, *given: object, **named: object) -> Any:
        """Mean of all elements of an image, mask or array; a float64."""
        return self._statistic("mean", given, named)

    def sum(self, *given: object, **named: object) -> Any:
        """Sum of all elements; an int64 that wraps, or a float64."""
        return self._statistic("sum", given, named)

    def max(self, *given: object, **named: object) -> Any:
        """Maximum element; an int64 or a float64."""
        return self._statistic("max", given, named)

    def min(self, *given: object, **named: object) -> Any:
        """Minimum element; an int64 or a float64."""
        return self._statistic("min", given, named)

    def any(self, *given: object, **named: object) -> Any:
        """True if an element is not 0; a bool."""
        return self._statistic("any", given, named)

    def all(self, *given: object, **named: object) -> Any:
        """True if no element is 0; a bool."""
        return self._statistic("all", given, named)

    def _statistic(self, name: str, given: object, named: object) -> Any:
        """Called by NumPy's function of that name, with arguments that are not supported."""
        if given or named:
            raise fault(
                f"{self.what}: NumPy cannot be called inside a pipeline, and {name} takes no "
                f"argument: it covers the whole value, as in sample.image.{name}()"
            )
        return self.tracer.expr(name, self)

    def __getitem__(self, index: object) -> Any:
        """Return an element: an index for each side, known or decided for each sample."""
        indices = index if isinstance(index, tuple) else (index,)
        for one in indices:
            number = settled(one)
            whole = isinstance(number, int) and not isinstance(number, bool)
            if not whole and not isinstance(one, TracedValue):
                raise fault(
                    f"{self.what}[...]: expected an index for each side, as in vector[0], "
                    f"vector[-1] or matrix[1, 2], got {_told(one)}. For rows, columns and slices, "
                    "call a function of your own, as in ops.python(function, value); for pixels, "
                    "use an op, such as ops.center_crop"
                )
        if not indices:
            raise fault(f"{self.what}[()]: expected an index for each side")
        return self.tracer.expr("element", self, *indices)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        near = difflib.get_close_matches(name, _FACTS, 1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        if name in _ELSEWHERE:
            hint = f": use {_ELSEWHERE[name]}"
        known = ", ".join(sorted(_FACTS))
        raise fault(f"{self.what} has no {name!r}{hint}; it has {known}. Pixels are changed by ops")


class TracedShape:
    """The sides of a value that is not known yet; `shape[0]` and `shape[:2]` are numbers."""

    def __init__(self, value: TracedValue) -> None:
        self._value = value

    def __getitem__(self, axis: object) -> Any:
        value = self._value
        if isinstance(axis, slice):
            start, stop = axis.start or 0, axis.stop
            good = type(start) is int and type(stop) is int and start >= 0 and stop >= 0
            if good and axis.step in (None, 1):
                return tuple(self[number] for number in range(start, stop))
        elif (number := as_integer(axis)) is not None and abs(number) < MAX_ARGS:
            return value.tracer.expr("side", value, name=str(number))
        raise fault(
            f"{value.what}.shape[...]: expected the number of a side, as in image.shape[0] or "
            f"image.shape[:2], got {axis!r}"
        )

    def _refuse(self, *_: object) -> NoReturn:
        raise fault(
            f"{self._value.what}.shape: how many sides there are is known only when a dataset is "
            "bound: write image.shape[0], or height, width = image.shape[:2]"
        )

    __iter__ = __len__ = __bool__ = __eq__ = __add__ = __radd__ = _refuse
    __hash__ = None  # type: ignore[assignment]


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
