"""Parameters of an op that may be a number of each row: their bounds, and where it is stored.

They follow from the declaration: a number, or a range, for which a value is both ends. An op that
stores other run-time parameters than the declared ones, or checks several together, takes constants
unless the rule says `per_row`. A batch op draws after the rows are computed, so it takes constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from stoker.ops.bases.batch_op import BatchOp
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameters import (
    Interval,
    Number,
    SidePair,
    Span,
    Spread,
    Whole,
    WholeSpan,
    rules_of,
)


@dataclass(frozen=True)
class RowValue:
    """The number of a row in place of a parameter.

    Attributes:
        fields: the run-time parameters that hold the number, all of one dtype.
        low: the least number.
        high: the greatest number.
        whole: whether it is an integer.
        pair: whether the parameter is a range, of which the number is both ends.
        above: whether `low` is the number after a bound that is left out.
    """

    fields: tuple[str, ...]
    low: float
    high: float
    whole: bool = False
    pair: bool = False
    above: bool = False

    def given(self, number: float) -> Any:
        """Return a number as the op's constructor takes it."""
        one = int(number) if self.whole else float(number)
        return (one, one) if self.pair else one

    @property
    def middle(self) -> float:
        """A number that is allowed: 0 if possible."""
        return min(max(0, self.low), self.high)

    @property
    def expected(self) -> str:
        """The numbers that are allowed, for messages."""
        what = "an integer" if self.whole else "a number"
        if self.above:
            return f"{what} above {self.low:g} and at most {self.high:g}"
        return f"{what} from {self.low:g} to {self.high:g}"

    def holds(self, number: float) -> bool:
        """Return whether a number is allowed."""
        return self.low <= number <= self.high


def row_value(cls: type[Op], name: str) -> RowValue | None:
    """Return how a parameter of an op takes a value of each row; None: it takes constants only."""
    rule = rules_of(cls).get(name)
    if rule is None or issubclass(cls, BatchOp) or not (rule.per_row or _stores_each_alone(cls)):
        return None
    fields = tuple(field[0] for field in rule.fields(name))
    pair = len(fields) == 2
    found = None
    if type(rule) not in (Whole, WholeSpan, Number, Span, Interval, Spread):
        return None  # a rule made of one of these has more conditions
    if isinstance(rule, Whole | Number | Span):
        whole, above = isinstance(rule, Whole | WholeSpan), isinstance(rule, Interval)
        low = math.nextafter(rule.low, math.inf) if above else rule.low
        found = RowValue(fields, low, rule.high, whole, pair, above)
    elif isinstance(rule, Spread):
        found = RowValue(fields, -rule.most, rule.most, pair=True)
    return found if found is not None and math.isfinite(found.high) else None


def _stores_each_alone(cls: type[Op]) -> bool:
    """Return whether the parameters of an op are checked and stored one by one."""
    return cls.check is Op.check and cls.params is Op.params and not cls.folds


_OF_BATCHES: Final = "the op mixes finished rows, so it has one number for all of them"
_OF_SIZES: Final = "it decides the size of the result, and memory is laid out before the first row"
_OF_ENDS: Final = "a range is of constants, or one value of each row, which is then both ends"
_OTHER: Final = "the op takes constants alone for it"


def why_constant(cls: type[Op], name: str) -> str:
    """Return why a parameter of an op, or an end of a range, takes no value of each row."""
    if row_value(cls, name) is not None:
        return _OF_ENDS
    if issubclass(cls, BatchOp):
        return _OF_BATCHES
    sizes = name == "size" or isinstance(rules_of(cls).get(name), SidePair)
    return _OF_SIZES if sizes else _OTHER
