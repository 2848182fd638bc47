"""Conditions on stored columns: which samples `width >= 256 and split == "train"` holds for.

The text has the syntax of a Python expression and is never evaluated as one: its syntax tree
becomes an expression of pyarrow over the columns that it names, and anything else is an error. No
image is read: sizes, lengths and numbers are columns of their own. A comparison with a value that
a sample lacks is neither true nor false, as in SQL, so the sample is left out.

Integers are compared as int64, anything else as float64; a constant that is compared with a column
of float32 is rounded to float32 first, as in conditions of pipelines. Arithmetic is that of
float64. Runs in builders and commands, which import pyarrow here only when there is a condition.
"""

import ast
import functools
import importlib
import operator
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from stoker.dataset import Dataset
from stoker.dataset.format.fields import Field
from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.request.stream_request import MAX_CONDITION
from stoker.protocol.subset import Subset
from stoker.server.rows.named_splits import named_split
from stoker.server.work.suggestions import resolve

MOST_COLUMNS: Final = 16
"""Columns of one condition, each of which is held as eight bytes a sample."""
SHOWN: Final = 80
"""Characters of a condition, or of a part of it, in an error."""
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
_ARITHMETIC: Final[dict[type[ast.operator], str]] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
}
_EXAMPLE: Final = "width >= 256 and label in ('cat', 'dog')"
Array = np.ndarray[Any, np.dtype[Any]]


class _Operand(NamedTuple):
    """A number or a truth value of each sample, as an expression of pyarrow.

    Attributes:
        expression: what pyarrow computes.
        kind: "truth", "int", "float", or "text" for a constant.
        label: the field whose class numbers these are, if it is a label.
        literal: the constant that the condition has here; None for a column.
        single: whether it is a column of float32.
    """

    expression: Any
    kind: str
    label: Field | None = None
    literal: int | float | str | bool | None = None
    single: bool = False


def samples_where(dataset: Dataset, condition: str) -> Subset:
    """Return the samples that a condition holds for.

    Args:
        dataset: an open dataset.
        condition: the text, such as `width >= 256 and split == "train"`.

    Raises:
        UnknownNameError: it names an unknown field, class or split.
        UsageError: it is no condition, or holds for no sample.
    """
    reader = _ConditionReader(dataset, condition)
    arrow: Any = importlib.import_module("pyarrow")
    try:
        found = reader.truth(reader.tree)
        table = arrow.table({**reader.columns, _ID: np.arange(len(dataset))})
        ids = table.filter(found)[_ID].to_numpy()
    except UnknownNameError as error:
        raise UnknownNameError(
            f"subset={_shown(condition)!r}: {error.message}", **error.details
        ) from None
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
        raise reader.error(error) from None
    if not len(ids):
        raise UsageError(
            f"subset: the condition {_shown(condition)!r} holds for no sample of the dataset"
        )
    return Subset(ids)


class _ConditionReader:
    """Turns the syntax tree of a condition into an expression of pyarrow.

    Attributes:
        tree: the syntax tree.
        columns: the columns that it reads, as arrays of pyarrow, by their names in the expression.
    """

    def __init__(self, dataset: Dataset, text: str) -> None:
        self._dataset = dataset
        self._text = text.strip()
        self._fields = {field.name: field for field in dataset.schema.fields}
        self._read: dict[str, _Operand] = {}
        self.columns: dict[str, Any] = {}
        self._arrow: Any = importlib.import_module("pyarrow")
        self._compute: Any = importlib.import_module("pyarrow.compute")
        try:
            if len(text) > MAX_CONDITION:
                raise ValueError(f"it has {len(text)} characters, and at most {MAX_CONDITION} fit")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.tree: ast.expr = ast.parse(self._text, mode="eval").body
        except (SyntaxError, ValueError) as error:
            raise self.error(error.msg if isinstance(error, SyntaxError) else error) from None
        except (RecursionError, MemoryError):
            raise self.error("it is nested too deeply") from None

    def truth(self, node: ast.expr) -> Any:
        """Return the expression of a part that is true or false."""
        try:
            found = self._value(node)
        except RecursionError:
            raise self.error("it is nested too deeply") from None
        if found.kind != "truth":
            raise self._unexpected(node, "a comparison")
        return found.expression

    def error(self, reason: object) -> UsageError:
        """Return the error of the condition as a whole."""
        return UsageError(
            f"subset={_shown(self._text)!r}: {reason}; a condition is like {_EXAMPLE!r}, and a"
            " file is named by ./FILE or a Path"
        )

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
                compute = getattr(self._compute, _ARITHMETIC[type(op)])
                found = _Operand(compute(self._number(left), self._number(right)), "float")
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
            found = self._among(left, right)
            return found if isinstance(op, ast.In) else ~found
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise self._unexpected(right, "None after is")
            lacks = ~self._add(self._present(self._field(left)))
            return lacks if isinstance(op, ast.Is) else ~lacks
        if self._is_split(left) or self._is_split(right):
            return self._in_split(op, right if self._is_split(left) else left)
        return self._values_compared(left, op, right)

    def _values_compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Any:
        one, other = self._value(left), self._value(right)
        kinds = {one.kind, other.kind}
        only_equality = bool(kinds & {"text", "truth"})
        if only_equality and not isinstance(op, ast.Eq | ast.NotEq):
            what = "the name of a class" if "text" in kinds else "truth values"
            raise self._unexpected(
                left if one.kind in ("text", "truth") else right, f"== or != with {what}"
            )
        sides = one.expression, other.expression
        if one.kind == "text":
            sides = self._class_number(other, one.literal, left), other.expression
        elif other.kind == "text":
            sides = one.expression, self._class_number(one, other.literal, right)
        elif "truth" in kinds and len(kinds) > 1:
            raise self._unexpected(right, "two numbers, or two truth values, to compare")
        elif "float" in kinds:
            sides = self._float(one, single=other.single), self._float(other, single=one.single)
        return _COMPARISONS[type(op)](*sides)

    def _among(self, left: ast.expr, right: ast.expr) -> Any:
        """Return the expression of `left in (a, b, c)`."""
        if not isinstance(right, ast.Tuple | ast.List | ast.Set) or not right.elts:
            raise self._unexpected(right, "the values in parentheses, such as (1, 2)")
        if self._is_split(left):
            each = [self._in_split(ast.Eq(), value) for value in right.elts]
            return functools.reduce(operator.or_, each)
        one = self._value(left)
        values: list[int | float] = []
        for node in right.elts:
            value = self._value(node)
            if value.kind == "text":
                values.append(self._class_number(one, value.literal, node))
            elif value.literal is None or isinstance(value.literal, bool | str):
                raise self._unexpected(node, "numbers or names of classes in parentheses")
            else:
                values.append(value.literal)
        if one.kind not in ("int", "float"):
            raise self._unexpected(left, "a number before in")
        if one.kind == "int" and all(isinstance(value, int) for value in values):
            column, wanted = one.expression, self._arrow.array(values, self._arrow.int64())
        else:
            column = self._float(one)
            rounded = [_as_float(value, single=one.single) for value in values]
            wanted = self._arrow.array(rounded, self._arrow.float64())
        unknown = self._compute.scalar(self._arrow.scalar(None, self._arrow.bool_()))
        return self._compute.if_else(column.is_valid(), column.isin(wanted), unknown)

    def _class_number(self, label: _Operand, name: object, node: ast.expr) -> int:
        """Return the number of a class of a label."""
        if label.label is None or label.label.classes is None:
            raise self._unexpected(node, "a number: only classes with names are compared with text")
        classes = {known: str(number) for number, known in enumerate(label.label.classes)}
        return int(resolve("class", str(name), classes, f"field {label.label.name!r}"))

    def _is_split(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == _SPLIT and _SPLIT not in self._fields

    def _in_split(self, op: ast.cmpop, node: ast.expr) -> Any:
        name = node.value if isinstance(node, ast.Constant) else None
        if not isinstance(name, str) or not isinstance(op, ast.Eq | ast.NotEq):
            raise self._unexpected(node, "== or != with the name of a split")
        key = f"{_SPLIT} {name}"
        if key not in self._read:
            inside = np.zeros(len(self._dataset), np.bool_)
            inside[named_split(self._dataset, name).ids] = True
            self._read[key] = _truth(self._add(inside))
        found = self._read[key].expression
        return found if isinstance(op, ast.Eq) else ~found

    def _number(self, node: ast.expr) -> Any:
        found = self._value(node)
        if found.kind not in ("int", "float"):
            raise self._unexpected(node, "a number")
        return self._float(found)

    def _float(self, value: _Operand, *, single: bool = False) -> Any:
        """Return a number as float64; a constant next to float32 is rounded to that first."""
        if isinstance(value.literal, int | float):
            return self._compute.scalar(_as_float(value.literal, single=single))
        if value.kind == "int":
            return value.expression.cast("float64", safe=False)
        return value.expression

    def _constant(self, node: ast.expr, value: object) -> _Operand:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise self._unexpected(node, "a number of at most 64 bits")
        for kind, types in (("truth", bool), ("int", int), ("float", float), ("text", str)):
            if isinstance(value, types):
                return _Operand(self._compute.scalar(value), kind, literal=value)
        raise self._unexpected(node, "a number, True, False, or text in quotes")

    def _column(self, node: ast.expr) -> _Operand:
        key = ast.unparse(node)
        if key not in self._read:
            self._read[key] = self._new_column(node)
        return self._read[key]

    def _new_column(self, node: ast.expr) -> _Operand:
        """Read a column: a number of a field, a side or a length of one, or the ids."""
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
                return _Operand(self._add(np.arange(len(self._dataset))), "int")
            case ast.Name():
                field = self._field(node)
                values = np.concatenate(list(self._dataset.numbers(field.name)))
                label = field if field.kind == "label" else None
            case _:
                raise self._unexpected(node, "a field, len(field), field.width or field.height")
        present = self._present(field) if field.optional is True else None
        single = values.dtype == np.float32
        match values.dtype.kind:
            case "b":
                kind = "truth"
            case "f":
                kind, values = "float", values.astype(np.float64)
            case _:
                if len(values) and int(values.max()) >= 2**63:
                    raise self._unexpected(node, "values below 2**63")
                kind, values = "int", values.astype(np.int64)
        return _Operand(self._add(values, present), kind, label, single=single)

    def _sides(self, field: Field, side: str) -> Array:
        if not field.is_picture:
            raise self.error(f"field {field.name!r} has no {side}: it is not an image or mask")
        found = list(self._dataset.sizes(field.name))
        return np.concatenate([sizes[_SIDES.index(side)] for sizes in found])

    def _only_image(self, node: ast.Name) -> Field:
        images = [field for field in self._fields.values() if field.kind == "image"]
        if len(images) != 1:
            names = ", ".join(f"{field.name}.{node.id}" for field in images) or "none"
            raise self.error(
                f"{node.id} is that of the only image, and the dataset has {len(images)}: expected"
                f" one of {names}"
            )
        return images[0]

    def _field(self, node: ast.expr) -> Field:
        if not isinstance(node, ast.Name):
            raise self._unexpected(node, "the name of a field")
        if self._is_split(node):
            raise self._unexpected(node, "== or != with the name of a split")
        known = {name: name for name in self._fields}
        return self._fields[resolve("field", node.id, known, "the dataset")]

    def _present(self, field: Field) -> Array:
        if field.optional is not True:
            return np.ones(len(self._dataset), np.bool_)
        return np.concatenate(list(self._dataset.numbers(field.present_name)))

    def _add(self, values: Array, present: Array | None = None) -> Any:
        """Add a column; return its expression, which is null where a value is not present."""
        if len(self.columns) == MOST_COLUMNS:
            raise self.error(f"it reads more than {MOST_COLUMNS} columns")
        name = f"column {len(self.columns)}"
        self.columns[name] = self._arrow.array(values, mask=None if present is None else ~present)
        return self._compute.field(name)

    def _unexpected(self, node: ast.expr, expected: str) -> UsageError:
        part = ast.get_source_segment(self._text, node) or ""
        return self.error(f"expected {expected}, got {_shown(part)}")


def _truth(expression: Any) -> _Operand:
    return _Operand(expression, "truth")


def _as_float(value: float, *, single: bool) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if single else float(value)


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
