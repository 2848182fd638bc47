"""Conditions on stored columns: which samples `width >= 256 and split == "train"` holds for.

The text has the syntax of a Python expression and is never evaluated as one: its syntax tree
becomes an expression of pyarrow over the columns that it names, and anything else is an error. No
image is read: sizes, lengths and numbers are columns of their own. A comparison with a value that
a sample lacks is neither true nor false, as in SQL, so the sample is left out.

Runs in builders and commands, which import pyarrow here only when there is a condition.
"""

import ast
import functools
import importlib
import operator
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import UNSET

from stoker.dataset import Dataset
from stoker.dataset.format.fields import Field
from stoker.dataset.format.manifest_splits import split_subset
from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.request.stream import MAX_CONDITION
from stoker.protocol.subset import Subset
from stoker.server.work.suggestions import resolve

_ID: Final = "id"
_SPLIT: Final = "split"
_SIDES: Final = ("width", "height")
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_EXAMPLE: Final = "width >= 256 and label in ('cat', 'dog')"

Array = np.ndarray[Any, np.dtype[Any]]


class _Operand(NamedTuple):
    """A number or a truth value of each sample, as an expression of pyarrow.

    Attributes:
        expression: what pyarrow computes.
        kind: "number" or "truth".
        label: the field whose class numbers these are, if it is a label.
        literal: the constant that the condition has here; None for a column.
        dtype: dtype of the column; None for a constant or a computed value.
    """

    expression: Any
    kind: str
    label: Field | None = None
    literal: int | float | str | bool | None = None
    dtype: np.dtype[Any] | None = None


def samples_where(dataset: Dataset, condition: str) -> Subset:
    """Return the samples that a condition holds for.

    Args:
        dataset: an open dataset.
        condition: the text, such as `width >= 256 and split == "train"`.

    Raises:
        UnknownNameError: it names an unknown field, class or split.
        UsageError: it is not a condition, or holds for no sample.
    """
    reader = _ConditionReader(dataset, condition)
    try:
        found = reader.truth(reader.tree)
    except UnknownNameError as error:
        raise UnknownNameError(f"subset={condition!r}: {error.message}", **error.details) from None
    arrow: Any = importlib.import_module("pyarrow")
    table = arrow.table({**reader.columns, _ID: np.arange(len(dataset))})
    ids = table.filter(found)[_ID].to_numpy()
    if not len(ids):
        raise UsageError(f"subset: the condition {condition!r} holds for no sample of the dataset")
    return Subset(ids)


class _ConditionReader:
    """Turns the syntax tree of a condition into an expression of pyarrow.

    Attributes:
        tree: the syntax tree.
        columns: the columns that it reads, as arrays of pyarrow, by their names in the expression.
    """

    def __init__(self, dataset: Dataset, text: str) -> None:
        self._dataset = dataset
        self._text = text
        self._fields = {field.name: field for field in dataset.schema.fields}
        self.columns: dict[str, Any] = {}
        self._compute: Any = importlib.import_module("pyarrow.compute")
        try:
            if len(text) > MAX_CONDITION:
                raise ValueError(f"it has {len(text)} characters, and at most {MAX_CONDITION} fit")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.tree: ast.expr = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError) as error:
            raise self._error(error.msg if isinstance(error, SyntaxError) else error) from None
        except (RecursionError, MemoryError):
            raise self._error("it is nested too deeply") from None

    def truth(self, node: ast.expr) -> Any:
        """Return the expression of a part that is true or false."""
        try:
            found = self._value(node)
        except RecursionError:
            raise self._error("it is nested too deeply") from None
        if found.kind != "truth":
            raise self._unexpected(node, "a comparison")
        return found.expression

    def _value(self, node: ast.expr) -> _Operand:
        match node:
            case ast.BoolOp(op, parts):
                join = operator.and_ if isinstance(op, ast.And) else operator.or_
                found = _truth(functools.reduce(join, [self.truth(part) for part in parts]))
            case ast.UnaryOp(ast.Not(), part):
                found = _truth(~self.truth(part))
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                found = self._constant(node, -value)
            case ast.Constant(value):
                found = self._constant(node, value)
            case ast.Compare(left, operators, others):
                found = self._compared(left, operators, others)
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                sides = [self._number(side) for side in (left, right)]
                found = _Operand(_ARITHMETIC[type(op)](*sides), "number")
            case ast.Name() | ast.Attribute(ast.Name()) | ast.Call(ast.Name("len")):
                found = self._column(node)
            case _:
                raise self._unexpected(node, "comparisons of fields, joined by and, or and not")
        return found

    def _compared(
        self, left: ast.expr, operators: list[ast.cmpop], others: list[ast.expr]
    ) -> _Operand:
        found = []
        for op, right in zip(operators, others, strict=True):
            found.append(self._comparison(left, op, right))
            left = right
        return _truth(functools.reduce(operator.and_, found))

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(right, ast.Tuple | ast.List | ast.Set) or not right.elts:
                raise self._unexpected(right, "the values in parentheses, such as (1, 2)")
            each = [self._comparison(left, ast.Eq(), value) for value in right.elts]
            found = functools.reduce(operator.or_, each)
            return found if isinstance(op, ast.In) else ~found
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise self._unexpected(right, "None after is")
            lacks = ~self._add(self._present(self._field(left)))
            return lacks if isinstance(op, ast.Is) else ~lacks
        if self._is_split(left):
            return self._in_split(op, right)
        one, other = self._value(left), self._value(right)
        texts = [isinstance(side.literal, str) for side in (one, other)]
        if any(texts):
            return self._classes(one, op, other, left if texts[0] else right)
        if one.kind != other.kind and "truth" in (one.kind, other.kind):
            raise self._unexpected(right, "two numbers, or two truth values, to compare")
        compare = _COMPARISONS[type(op)]
        return compare(_rounded(one, other.dtype), _rounded(other, one.dtype))

    def _classes(self, one: _Operand, op: ast.cmpop, other: _Operand, text: ast.expr) -> Any:
        """Compare a label with the name of a class."""
        named, label = (one, other) if isinstance(one.literal, str) else (other, one)
        if label.label is None or label.label.classes is None:
            raise self._unexpected(text, "a number: only classes with names are compared with text")
        if not isinstance(op, ast.Eq | ast.NotEq):
            raise self._unexpected(text, "== or != with the name of a class")
        classes = {name: str(number) for number, name in enumerate(label.label.classes)}
        number = resolve("class", str(named.literal), classes, f"field {label.label.name!r}")
        return _COMPARISONS[type(op)](label.expression, int(number))

    def _is_split(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == _SPLIT and _SPLIT not in self._fields

    def _in_split(self, op: ast.cmpop, right: ast.expr) -> Any:
        name = right.value if isinstance(right, ast.Constant) else None
        if not isinstance(name, str) or not isinstance(op, ast.Eq | ast.NotEq):
            raise self._unexpected(right, "== or != with the name of a split")
        splits = self._dataset.manifest.splits
        names = {} if splits is UNSET else {known: known for known in splits.names}
        resolve("split", name, names, "the dataset")
        assert splits is not UNSET
        inside = np.zeros(len(self._dataset), np.bool_)
        inside[split_subset(splits, name, len(inside)).ids] = True
        found = self._add(inside)
        return found if isinstance(op, ast.Eq) else ~found

    def _number(self, node: ast.expr) -> Any:
        found = self._value(node)
        if found.kind != "number" or isinstance(found.literal, str):
            raise self._unexpected(node, "a number")
        return found.expression.cast("float64")

    def _constant(self, node: ast.expr, value: object) -> _Operand:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise self._unexpected(node, "a number of at most 64 bits")
        if not isinstance(value, bool | int | float | str):
            raise self._unexpected(node, "a number, True, False, or text in quotes")
        kind = "truth" if isinstance(value, bool) else "number"
        return _Operand(self._compute.scalar(value), kind, literal=value)

    def _column(self, node: ast.expr) -> _Operand:
        """Return a column: a number of a field, a side or a length of one, or the ids."""
        label = None
        match node:
            case ast.Call(_, [ast.Name() as name], []):
                field = self._field(name)
                values = np.concatenate(list(self._dataset.lengths(field.name)))
            case ast.Attribute(ast.Name() as name, side) if side in _SIDES:
                field = self._field(name)
                values = self._sides(field, side)
            case ast.Name(side) if side in _SIDES and side not in self._fields:
                field = self._only_image(node)
                values = self._sides(field, side)
            case ast.Name(name) if name == _ID and _ID not in self._fields:
                ids = np.arange(len(self._dataset))
                return _Operand(self._add(ids), "number", dtype=ids.dtype)
            case ast.Name():
                field = self._field(node)
                values = np.concatenate(list(self._dataset.numbers(field.name)))
                label = field if field.kind == "label" else None
            case _:
                raise self._unexpected(node, "a field, len(field), field.width or field.height")
        if values.dtype.kind in "iu":
            if len(values) and int(values.max()) >= 2**63:
                raise self._unexpected(node, "values below 2**63")
            values = values.astype(np.int64)
        kind = "truth" if values.dtype == np.bool_ else "number"
        present = self._present(field) if field.optional is True else None
        return _Operand(self._add(values, present), kind, label, dtype=values.dtype)

    def _sides(self, field: Field, side: str) -> Array:
        if not field.is_picture:
            raise self._error(f"field {field.name!r} has no {side}: it is not an image or mask")
        found = list(self._dataset.sizes(field.name))
        return np.concatenate([sizes[_SIDES.index(side)] for sizes in found])

    def _only_image(self, node: ast.Name) -> Field:
        images = [field for field in self._fields.values() if field.kind == "image"]
        if len(images) != 1:
            names = ", ".join(f"{field.name}.{node.id}" for field in images) or "none"
            raise self._error(
                f"{node.id} is that of the only image, and the dataset has {len(images)}: expected"
                f" one of {names}"
            )
        return images[0]

    def _field(self, node: ast.expr) -> Field:
        if not isinstance(node, ast.Name):
            raise self._unexpected(node, "the name of a field")
        known = {name: name for name in self._fields}
        return self._fields[resolve("field", node.id, known, "the dataset")]

    def _present(self, field: Field) -> Array:
        if field.optional is not True:
            return np.ones(len(self._dataset), np.bool_)
        return np.concatenate(list(self._dataset.numbers(field.present_name)))

    def _add(self, values: Array, present: Array | None = None) -> Any:
        """Add a column; return its expression, which is null where a value is not present."""
        name = f"column {len(self.columns)}"
        arrow: Any = importlib.import_module("pyarrow")
        self.columns[name] = arrow.array(values, mask=None if present is None else ~present)
        return self._compute.field(name)

    def _unexpected(self, node: ast.expr, expected: str) -> UsageError:
        return self._error(f"expected {expected}, got {ast.unparse(node)}")

    def _error(self, reason: object) -> UsageError:
        return UsageError(
            f"subset={self._text!r}: {reason}; a condition is like {_EXAMPLE!r}, and a file is"
            " named by ./FILE or a Path"
        )


def _truth(expression: Any) -> _Operand:
    return _Operand(expression, "truth")


def _rounded(value: _Operand, dtype: np.dtype[Any] | None) -> Any:
    """Return a side of a comparison: a constant has the precision of the float32 column it meets.

    So `score >= 0.7` holds for a stored 0.7, as in conditions of pipelines.
    """
    if dtype == np.float32 and value.literal is not None:
        arrow: Any = importlib.import_module("pyarrow")
        compute: Any = importlib.import_module("pyarrow.compute")
        return compute.scalar(arrow.scalar(value.literal, arrow.float32()))
    return value.expression
