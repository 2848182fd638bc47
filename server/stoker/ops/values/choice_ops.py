"""Choices: decisions that read no value, behind `one_of`, `some_of` and draws of a pipeline.

A choice is an op without kernels: its record holds one number, and conditions of the graph read
it. So a choice has a stream name, can be frozen, is replayed, and needs no pixels, like every other
decision. Authors write them through `stoker.pipeline` (`one_of`, `some_of`, `random_apply`, and
`ctx.chance`, `ctx.uniform`, `ctx.integer`); graphs contain these classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameter_limits import is_number, refuse
from stoker.ops.contract.parameters import Number, Probability, Span, Whole
from stoker.ops.contract.registry import register
from stoker.rng.draws import bernoulli, integers, uniform, uniform_range

MAX_CHOICES: Final = 62
"""Maximum number of alternatives of one choice: one bit of an int64 for each."""
MOST: Final = 2.0**53
BOUND: Final = Number(-MOST, MOST)
WHOLE: Final = Whole(-(2**53), 2**53, "i8")
COUNT: Final = Whole(0, MAX_CHOICES, "i8")


@kernel
def _draw_chance(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0


@kernel
def _draw_uniform(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["number"] = uniform_range(key, 0, params["low"], params["high"])


@kernel
def _draw_integer(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["number"] = params["first"] + integers(key, 0, params["last"] - params["first"] + 1)


@kernel
def _draw_one(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    part = uniform(key, 0)
    choice = 0
    while choice < params["last"] and part >= params["ends"][choice]:
        choice += 1
    record["choice"] = choice


@kernel
def _draw_some(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    left = params["fewest"] + integers(key, 0, params["most"] - params["fewest"] + 1)
    count = params["count"]
    chosen, bit = 0, 1
    for i in range(count):
        if integers(key, 1 + i, count - i) < left:
            chosen += bit
            left -= 1
        bit *= 2
    record["chosen"] = chosen


@kernel
def _draw_weighted(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    count = params["fewest"] + integers(key, 0, params["most"] - params["fewest"] + 1)
    weights = params["weights"]
    chosen = 0
    for k in range(count):
        total, bit = 0.0, 1
        for i in range(params["count"]):
            if chosen // bit % 2 == 0:
                total += weights[i]
            bit *= 2
        part, end, bit, picked = uniform(key, 1 + k) * total, 0.0, 1, 0
        for i in range(params["count"]):
            if weights[i] > 0.0 and chosen // bit % 2 == 0 and (picked == 0 or part >= end):
                end += weights[i]
                picked = bit
            bit *= 2
        chosen += picked
    record["chosen"] = chosen


@dataclass(frozen=True)
class Choice(Op):
    """Base of the choices: random, and without a kernel."""

    random: ClassVar[bool] = True
    kernels = {}


@register
class Chance(Choice):
    """True with probability p. Draw 0 decides: `apply` is 1 if uniform < p, else 0."""

    p: Probability = 0.5

    record = np.dtype([("apply", "u1")])
    draw = staticmethod(_draw_chance)


@register
class Uniform(Choice):
    """A number, uniform in [low, high]. Draw 0 is `number`."""

    low: Annotated[float, BOUND, "minimum"] = 0.0
    high: Annotated[float, BOUND, "maximum"] = 1.0

    record = np.dtype([("number", "f8")])
    draw = staticmethod(_draw_uniform)

    def check(self) -> None:
        """Check the parameters."""
        low, high = Span(-MOST, MOST).check(self.name, "(low, high)", (self.low, self.high))
        self.settle(low=low, high=high)


@register
class Integer(Choice):
    """An integer from first to last, all equally likely. Draw 0 is `number`."""

    first: Annotated[int, WHOLE, "minimum"]
    last: Annotated[int, WHOLE, "maximum, included"]

    record = np.dtype([("number", "i8")])
    draw = staticmethod(_draw_integer)

    def check(self) -> None:
        """Check the parameters."""
        most = int(MOST)
        first = Whole(-most, most).check(self.name, "first", self.first)
        self.settle(first=first, last=Whole(first, most).check(self.name, "last", self.last))


def _check_weights(op: str, weights: Any) -> tuple[float, ...]:
    """Return weights of alternatives.

    Raises:
        ParameterError: they are not 1 to 62 numbers that are not negative, or all are 0.
    """
    good = isinstance(weights, tuple | list) and 1 <= len(weights) <= MAX_CHOICES
    if not good or not all(is_number(w) and 0 <= w <= MOST for w in weights):
        expected = f"1 to {MAX_CHOICES} numbers that are not negative"
        raise refuse(op, "weights", expected, weights)
    if not any(weights):
        raise refuse(op, "weights", "not all 0", weights)
    return tuple(float(weight) for weight in weights)


@register
class OneOf(Choice):
    """One alternative, by weight.

    Draw 0 decides: `choice` is the first alternative i with uniform < end i, where end i is the
    sum of the weights up to i, divided by the sum of all.

    Attributes:
        weights: one for each alternative, 0 or more, not all 0; at most 62.
    """

    weights: tuple[float, ...]

    parameters = np.dtype([("ends", "f8", (MAX_CHOICES,)), ("last", "i8")])
    record = np.dtype([("choice", "i8")])
    draw = staticmethod(_draw_one)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(weights=_check_weights(self.name, self.weights))

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        ends = np.ones(MAX_CHOICES)
        total = math.fsum(self.weights)
        for index in range(len(self.weights)):
            ends[index] = math.fsum(self.weights[: index + 1]) / total
        return np.array((ends, len(self.weights) - 1), self.parameters)


@register
class SomeOf(Choice):
    """Several alternatives, each at most once; all sets of one size are equally likely.

    Draw 0 is their number, uniform from fewest to most; draw 1 + i decides whether
    alternative i is among them: if an integer below (count - i) is below the number still needed
    (selection sampling: Knuth, The Art of Computer Programming 2, algorithm 3.4.2S). The
    alternative is chosen if bit i of `chosen` is set.
    """

    count: Annotated[int, Whole(1, MAX_CHOICES, "i8"), "number of alternatives"]
    fewest: Annotated[int, COUNT, "minimum number of chosen ones"]
    most: Annotated[int, COUNT, "maximum number of chosen ones"]

    record = np.dtype([("chosen", "i8")])
    draw = staticmethod(_draw_some)

    def check(self) -> None:
        """Check the parameters."""
        count = Whole(1, MAX_CHOICES).check(self.name, "count", self.count)
        fewest = Whole(0, count).check(self.name, "fewest", self.fewest)
        most = Whole(fewest, count).check(self.name, "most", self.most)
        self.settle(count=count, fewest=fewest, most=most)


@register
class WeightedSomeOf(Choice):
    """Several alternatives, each at most once, drawn one after the other by weight.

    Draw 0 is their number, uniform from fewest to most. Draw 1 + k chooses the next one among
    those that are left: the first with uniform * (sum of their weights) < (sum up to it), sums of
    float64 in the order of the alternatives. So a pair i, j comes with probability
    w_i / W * w_j / (W - w_i) + w_j / W * w_i / (W - w_j), as in NumPy's `choice` without
    replacement. The alternative is chosen if bit i of `chosen` is set; a weight of 0 never is.

    Attributes:
        weights: one for each alternative, 0 or more; at most 62.
        fewest: minimum number of chosen ones.
        most: maximum number of chosen ones; at most the number of weights that are not 0.
    """

    weights: tuple[float, ...]
    fewest: int
    most: int

    parameters = np.dtype(
        [("weights", "f8", (MAX_CHOICES,)), ("count", "i8"), ("fewest", "i8"), ("most", "i8")]
    )
    record = np.dtype([("chosen", "i8")])
    draw = staticmethod(_draw_weighted)

    def check(self) -> None:
        """Check the parameters."""
        weights = _check_weights(self.name, self.weights)
        possible = sum(weight > 0 for weight in weights)
        fewest = Whole(0, possible).check(self.name, "fewest", self.fewest)
        most = Whole(fewest, possible).check(self.name, "most", self.most)
        self.settle(weights=weights, fewest=fewest, most=most)

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        weights = np.zeros(MAX_CHOICES)
        weights[: len(self.weights)] = self.weights
        return np.array((weights, len(self.weights), self.fewest, self.most), self.parameters)
